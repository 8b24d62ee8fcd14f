"""lists.npz as pairs of token ids, built where the model is."""

from __future__ import annotations

import pathlib

import numpy as np
import torch
from torch import Tensor

CLS, SEP = 101, 102
MOST_TOKENS = 320
MOST_SPAN = 4
MOST_PADDING = 0.2


def sizes(lengths: list[int], tokens: int) -> list[int]:
    """Sizes of batches of at most `tokens` tokens, in which no pair is padded by more than MOST_PADDING."""
    found, shortest = [], 0
    for length in lengths:
        longest = length + 3
        if found and (found[-1] + 1) * longest <= tokens and shortest >= longest * (1 - MOST_PADDING):
            found[-1] += 1
        else:
            found.append(1)
            shortest = longest
    return found


class Lists:
    """The arrays of lists.npz on a device; lists.py says what they are."""

    def __init__(self, directory: pathlib.Path, device: str) -> None:
        arrays = np.load(directory / "lists.npz")
        self.device = device
        self.tokens = torch.from_numpy(arrays["tokens"].astype(np.int32)).to(device)
        self.offsets = torch.from_numpy(arrays["offsets"].astype(np.int64)).to(device)
        self.query = torch.from_numpy(arrays["query"].astype(np.int64)).to(device)
        base = arrays["base"].astype(np.int64)
        self.rows = torch.from_numpy(base[:, None] + arrays["rows"].astype(np.int64)).to(device)
        # The lists in the order of their memories, and where in it each list's memory begins and how many it has.
        _, memory_of, count = np.unique(base, return_inverse=True, return_counts=True)
        self.by_memory = torch.from_numpy(np.argsort(memory_of, kind="stable")).to(device)
        self.first = torch.from_numpy((np.cumsum(count) - count)[memory_of]).to(device)
        self.count = torch.from_numpy(count[memory_of]).to(device)
        # Texts that some list has as a row; what was left out is in none.
        self.listed = torch.zeros(len(self.offsets), dtype=torch.bool, device=device)
        self.listed[self.rows.reshape(-1)] = True
        self.label = torch.from_numpy(arrays["label"]).to(device)
        self.kind = torch.from_numpy(arrays["kind"]).to(device)
        self.held = arrays["held"]
        self.length = self.rows.shape[1]

    def lengths(self, query: Tensor, row: Tensor, span: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens of query and row that are kept: the longest part is truncated first.

        span: how many texts, one after the other from `row` on, are the row.
        """
        first = self.offsets[query + 1] - self.offsets[query]
        second = self.offsets[row + span] - self.offsets[row]
        over = (first + second + 3 - MOST_TOKENS).clamp(min=0)
        from_longer = torch.minimum(over, (first - second).abs())
        rest = over - from_longer
        longer = first > second
        first = first - torch.where(longer, from_longer, 0) - rest // 2
        second = second - torch.where(longer, 0, from_longer) - (rest - rest // 2)
        return first, second

    def batch(self, query: Tensor, row: Tensor, span: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(ids, types, real) of [CLS] query [SEP] row [SEP], each [pairs, length]."""
        first, second = self.lengths(query, row, span)
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

    def parts(self, query: Tensor, rows: Tensor, tokens: int, spans: Tensor | None = None):
        """The pairs of lists in batches of similar length: (positions among all pairs, batch).

        query: [lists]. rows: [lists, LENGTH]. tokens: most of a batch. spans: [lists, LENGTH], 1 if not given.
        """
        spans = torch.ones_like(rows) if spans is None else spans
        query, rows, spans = query.repeat_interleave(self.length), rows.reshape(-1), spans.reshape(-1)
        first, second = self.lengths(query, rows, spans)
        lengths, order = torch.sort(first + second, stable=True)
        for part in order.split(sizes(lengths.tolist(), tokens)):
            yield part, self.batch(query[part], rows[part], spans[part])

    def any_spans(self, rows: Tensor, source: torch.Generator) -> Tensor:
        """1 to MOST_SPAN for every row, as far as the rows after it are listed too."""
        spans = torch.ones_like(rows)
        longer = torch.ones_like(rows, dtype=torch.bool)
        for step in range(1, MOST_SPAN):
            after = (rows + step).clamp(max=len(self.listed) - 1)
            longer = longer & self.listed[after] & (torch.rand(rows.shape, generator=source, device=self.device) < 0.7)
            spans = spans + longer
        return spans

    def any_rows(self, numbers: Tensor, each: int, source: torch.Generator) -> Tensor:
        """[lists, each] rows of the memories of the lists `numbers`, drawn from those that lists of theirs have."""
        drawn = torch.rand((len(numbers), each), generator=source, device=self.device)
        place = self.first[numbers][:, None] + (drawn * self.count[numbers][:, None]).long()
        column = torch.randint(self.length, place.shape, generator=source, device=self.device)
        return self.rows[self.by_memory[place], column]
