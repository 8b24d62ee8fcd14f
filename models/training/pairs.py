"""lists.npz as pairs of token ids, built where the model is, and the teacher's logits of them."""

from __future__ import annotations

import pathlib

import numpy as np
import torch
from torch import Tensor

CLS, SEP = 101, 102
MOST_TOKENS = 320


class Lists:
    """The arrays of lists.npz on a device; lists.py says what they are."""

    def __init__(self, directory: pathlib.Path, device: str) -> None:
        arrays = np.load(directory / "lists.npz")
        self.device = device
        self.tokens = torch.from_numpy(arrays["tokens"].astype(np.int32)).to(device)
        self.offsets = torch.from_numpy(arrays["offsets"].astype(np.int64)).to(device)
        self.query = torch.from_numpy(arrays["query"].astype(np.int64)).to(device)
        rows = arrays["base"].astype(np.int64)[:, None] + arrays["rows"].astype(np.int64)
        self.rows = torch.from_numpy(rows).to(device)
        self.label = torch.from_numpy(arrays["label"]).to(device)
        self.kind = torch.from_numpy(arrays["kind"]).to(device)
        self.held = arrays["held"]
        self.length = self.rows.shape[1]

    def lengths(self, query: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens of query and row that are kept: the longest part is truncated first."""
        first = self.offsets[query + 1] - self.offsets[query]
        second = self.offsets[row + 1] - self.offsets[row]
        over = (first + second + 3 - MOST_TOKENS).clamp(min=0)
        from_longer = torch.minimum(over, (first - second).abs())
        rest = over - from_longer
        longer = first > second
        first = first - torch.where(longer, from_longer, 0) - rest // 2
        second = second - torch.where(longer, 0, from_longer) - (rest - rest // 2)
        return first, second

    def batch(self, query: Tensor, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(ids, types, real) of [CLS] query [SEP] row [SEP], each [pairs, length]."""
        first, second = self.lengths(query, row)
        total = first + second + 3
        at = torch.arange(int(total.max()), device=self.device)[None, :]
        first, second, total = first[:, None], second[:, None], total[:, None]
        in_query = (at >= 1) & (at <= first)
        in_row = (at >= first + 2) & (at < total - 1)
        index = torch.where(in_query, self.offsets[query][:, None] + at - 1, 0)
        index = torch.where(in_row, self.offsets[row][:, None] + at - first - 2, index)
        ids = torch.where(in_query | in_row, self.tokens[index].long(), 0)
        ids = torch.where(at == 0, CLS, ids)
        ids = torch.where((at == first + 1) | (at == total - 1), SEP, ids)
        return ids, ((at >= first + 2) & (at < total)).long(), at < total

    def parts(self, numbers: Tensor, pairs: int):
        """The pairs of the lists `numbers` in batches of similar length: (positions among all pairs, batch)."""
        query = self.query[numbers].repeat_interleave(self.length)
        row = self.rows[numbers].reshape(-1)
        first, second = self.lengths(query, row)
        order = torch.argsort(first + second, stable=True)
        for part in order.split(pairs):
            yield part, self.batch(query[part], row[part])


class TeacherLogits:
    """DIR/teacher.npy: float16 [lists, LENGTH], NaN where the teacher was not asked yet."""

    def __init__(self, directory: pathlib.Path, lists: int, length: int) -> None:
        self.path = directory / "teacher.npy"
        if not self.path.exists():
            np.save(self.path, np.full((lists, length), np.nan, dtype=np.float16))
        self.values = np.load(self.path, mmap_mode="r+")
        if self.values.shape != (lists, length):
            raise SystemExit(f"{self.path} is of other lists; remove it")

    def labelled(self) -> np.ndarray:
        return ~np.isnan(self.values[:, 0])
