"""lists.npz as pairs of token ids, built where the model is."""

from __future__ import annotations

import pathlib

import numpy as np
import torch
from torch import Tensor

CLS, SEP = 101, 102
MOST_TOKENS = 320
MOST_SPAN = 4
# On a CPU padding costs what it computes; on a GPU it is cheaper than to start the operations of one part more.
MOST_PADDING = {"cpu": 0.2, "cuda": 0.4}
# Matrix units of a GPU want lengths that are multiples of this.
ALIGNMENT = {"cpu": 1, "cuda": 8}
# Of the vocabulary: words from here on can be exchanged (before it are signs and the most frequent words), for those
# from there on.
FIRST_RARE, FIRST_WORD, VOCABULARY = 3000, 1996, 30522
EXCHANGED = 0.15
PRIME = 2**31 - 1


def sizes(lengths: list[int], tokens: int, most_padding: float = MOST_PADDING["cpu"]) -> list[int]:
    """Sizes of batches of at most `tokens` tokens, in which no pair is padded by more than `most_padding`."""
    found, shortest = [], 0
    for length in lengths:
        longest = length + 3
        if found and (found[-1] + 1) * longest <= tokens and shortest >= longest * (1 - most_padding):
            found[-1] += 1
        else:
            found.append(1)
            shortest = longest
    return found


def exchanged(ids: Tensor, seeds: Tensor) -> Tensor:
    """The ids with EXCHANGED of the rarer words replaced by any others, all places of a word and a seed alike.

    ids: [pairs, length]. seeds: [pairs], 0 for pairs that stay as they are.
    """
    seeds = seeds[:, None]
    drawn = ids * seeds % PRIME
    chosen = (seeds > 0) & (ids >= FIRST_RARE) & (drawn < EXCHANGED * PRIME)
    other = (drawn * 16807 + seeds) % PRIME % (VOCABULARY - FIRST_WORD) + FIRST_WORD
    return torch.where(chosen, other, ids)


class Lists:
    """The arrays of lists.npz; lists.py says what they are. What is computed with, `tokens`, is on the device."""

    def __init__(self, directory: pathlib.Path, device: str) -> None:
        arrays = np.load(directory / "lists.npz")
        self.device = device
        self.tokens = torch.from_numpy(arrays["tokens"].astype(np.int32)).to(device)
        self.offsets = torch.from_numpy(arrays["offsets"].astype(np.int64))
        self.query = torch.from_numpy(arrays["query"].astype(np.int64))
        base = arrays["base"].astype(np.int64)
        self.rows = torch.from_numpy(base[:, None] + arrays["rows"].astype(np.int64))
        # The lists in the order of their memories, and where in it each list's memory begins and how many it has.
        _, memory_of, count = np.unique(base, return_inverse=True, return_counts=True)
        self.by_memory = torch.from_numpy(np.argsort(memory_of, kind="stable"))
        self.first = torch.from_numpy((np.cumsum(count) - count)[memory_of])
        self.count = torch.from_numpy(count[memory_of])
        # Texts that some list has as a row; what was left out is in none.
        self.listed = torch.zeros(len(self.offsets), dtype=torch.bool)
        self.listed[self.rows.reshape(-1)] = True
        self.label = torch.from_numpy(arrays["label"])
        self.kind = torch.from_numpy(arrays["kind"])
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

    def places(self, query: Tensor, row: Tensor, span: Tensor) -> Tensor:
        """[4, pairs]: where the query begins among the tokens and how many of it are kept, and both of the row."""
        first, second = self.lengths(query, row, span)
        return torch.stack([self.offsets[query], first, self.offsets[row], second])

    def encoded(self, places: Tensor, length: int, seeds: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """(ids, types, real) of [CLS] query [SEP] row [SEP], each [pairs, length]; places, seeds: on the device."""
        query, first, row, second = places[:, :, None]
        total = first + second + 3
        at = torch.arange(length, device=self.device)[None, :]
        in_query = (at >= 1) & (at <= first)
        in_row = (at >= first + 2) & (at < total - 1)
        index = torch.where(in_query, query + at - 1, 0)
        index = torch.where(in_row, row + at - first - 2, index)
        ids = torch.where(in_query | in_row, self.tokens[index].long(), 0)
        ids = ids if seeds is None else exchanged(ids, seeds)
        ids = torch.where(at == 0, CLS, ids)
        ids = torch.where((at == first + 1) | (at == total - 1), SEP, ids)
        return ids, ((at >= first + 2) & (at < total)).long(), at < total

    def batch(self, query: Tensor, row: Tensor, span: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `encoded`, as long as the longest pair."""
        places = self.places(query, row, span)
        return self.encoded(places.to(self.device), int((places[1] + places[3]).max()) + 3)

    def parts(
        self, query: Tensor, rows: Tensor, tokens: int, spans: Tensor | None = None, seeds: Tensor | None = None
    ):
        """The pairs of lists in batches of similar length: (positions among all pairs, batch).

        query: [lists]. rows: [lists, LENGTH]. tokens: most of a batch. spans: [lists, LENGTH], 1 if not given.
        seeds: [lists], of what is exchanged in them; 0 for nothing. All but the batch is on the CPU: nothing waits for
        the device.
        """
        spans = torch.ones_like(rows) if spans is None else spans
        seeds = torch.zeros_like(query) if seeds is None else seeds
        query, seeds = (values.repeat_interleave(self.length) for values in (query, seeds))
        places = self.places(query, rows.reshape(-1), spans.reshape(-1))
        alignment = ALIGNMENT[self.device]
        total = -(-(places[1] + places[3] + 3) // alignment) * alignment
        total, order = torch.sort(total, stable=True)
        moved = torch.cat([order[None], seeds[order][None], places[:, order]]).to(self.device)
        end = 0
        for size in sizes((total - 3).tolist(), tokens, MOST_PADDING[self.device]):
            start, end = end, end + size
            part = moved[:, start:end]
            yield part[0], self.encoded(part[2:], int(total[end - 1]), part[1])

    def any_spans(self, rows: Tensor, source: torch.Generator) -> Tensor:
        """1 to MOST_SPAN for every row, as far as the rows after it are listed too."""
        spans = torch.ones_like(rows)
        longer = torch.ones_like(rows, dtype=torch.bool)
        for step in range(1, MOST_SPAN):
            after = (rows + step).clamp(max=len(self.listed) - 1)
            longer = longer & self.listed[after] & (torch.rand(rows.shape, generator=source) < 0.7)
            spans = spans + longer
        return spans

    def any_rows(self, numbers: Tensor, each: int, source: torch.Generator) -> Tensor:
        """[lists, each] rows of the memories of the lists `numbers`, drawn from those that lists of theirs have."""
        drawn = torch.rand((len(numbers), each), generator=source)
        place = self.first[numbers][:, None] + (drawn * self.count[numbers][:, None]).long()
        column = torch.randint(self.length, place.shape, generator=source)
        return self.rows[self.by_memory[place], column]
