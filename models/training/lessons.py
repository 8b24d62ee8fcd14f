"""Lessons: lists with what the teacher says of them, made beside the student and used a few times each."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
from concurrent import futures

import numpy as np
import torch
from torch import Tensor

import pairs

# Of lists without labels: rows that are drawn anew, lists whose query is a row, lists whose rows are several turns in a
# row (turns of the data are shorter than what is remembered), lists with other words in place of some.
FRESH_ROWS = 4
ROW_AS_QUERY = 0.03
LONGER_ROWS = 0.25
OTHER_WORDS = 0.25
# Lessons to draw the next one from, and how many the teacher may be ahead of the student.
POOL = 16
AHEAD = 4


@dataclasses.dataclass
class Part:
    """Pairs of similar length, with the teacher's hidden states. positions: of the pairs among all of the lesson."""

    positions: Tensor
    ids: Tensor
    types: Tensor
    real: Tensor
    hidden: list[Tensor]


@dataclasses.dataclass
class Lesson:
    """kind: [lists]. label, logits (the teacher's): [lists, LENGTH]."""

    kind: Tensor
    label: Tensor
    logits: Tensor
    parts: list[Part]


@dataclasses.dataclass
class Maker:
    """Makes lessons of `batch` lists, in parts of `part` tokens."""

    lists: pairs.Lists
    teacher: collections.abc.Callable
    batch: int
    part: int

    def lesson(
        self, numbers: Tensor, query: Tensor, rows: Tensor, spans: Tensor | None = None, seeds: Tensor | None = None
    ) -> Lesson:
        logits = torch.empty(rows.numel(), device=self.lists.device)
        parts = []
        for positions, encoded in self.lists.parts(query, rows, self.part, spans, seeds):
            logits[positions], hidden = self.teacher(*encoded)
            parts.append(Part(positions, *encoded, hidden))
        kind, label = (values[numbers].to(self.lists.device) for values in (self.lists.kind, self.lists.label))
        return Lesson(kind, label, logits.view(rows.shape), parts)

    def as_stored(self, numbers: Tensor) -> Lesson:
        return self.lesson(numbers, self.lists.query[numbers], self.lists.rows[numbers])

    def varied(self, numbers: Tensor, source: torch.Generator) -> Lesson:
        """The lists; of those without labels something is drawn anew."""
        lists, query, rows = self.lists, self.lists.query[numbers], self.lists.rows[numbers].clone()
        unlabelled = (lists.label[numbers] < 0).all(dim=1)

        def some(share: float) -> Tensor:
            return unlabelled & (torch.rand(len(numbers), generator=source) < share)

        fresh = lists.any_rows(numbers, FRESH_ROWS, source)
        rows[:, -FRESH_ROWS:] = torch.where(unlabelled[:, None], fresh, rows[:, -FRESH_ROWS:])
        query = torch.where(some(ROW_AS_QUERY), lists.any_rows(numbers, 1, source)[:, 0], query)
        spans = torch.where(some(LONGER_ROWS)[:, None], lists.any_spans(rows, source), torch.ones_like(rows))
        drawn = torch.randint(1, pairs.PRIME, (len(numbers),), generator=source)
        seeds = torch.where(some(OTHER_WORDS), drawn, 0)
        return self.lesson(numbers, query, rows, spans, seeds)

    def endless(self, seed: list[int]) -> collections.abc.Iterator[Lesson]:
        """Lessons of training lists; every list once before any comes again."""
        random = np.random.default_rng(seed)
        source = torch.Generator().manual_seed(int(random.integers(2**62)))
        training = np.flatnonzero(~self.lists.held)
        waiting = np.empty(0, dtype=training.dtype)
        while True:
            while len(waiting) < self.batch:
                waiting = np.concatenate([waiting, random.permutation(training)])
            numbers, waiting = waiting[: self.batch], waiting[self.batch :]
            yield self.varied(torch.from_numpy(numbers), source)


def ahead(lessons: collections.abc.Iterator[Lesson]) -> collections.abc.Iterator[Lesson]:
    """The same lessons, made in a thread while the student learns: neither waits for the other's core."""
    worker = futures.ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))
    coming: collections.deque[futures.Future] = collections.deque()
    try:
        while True:
            while len(coming) < AHEAD:
                coming.append(worker.submit(next, lessons))
            yield coming.popleft().result()
    finally:
        worker.shutdown(cancel_futures=True)


def repeated(
    lessons: collections.abc.Iterator[Lesson], passes: int, seed: list[int]
) -> collections.abc.Iterator[Lesson]:
    """Each lesson `passes` times, with others in between: the teacher takes longer over a pair than the student."""
    random = np.random.default_rng(seed)
    pool: list[tuple[Lesson, int]] = []
    while True:
        while len(pool) < (POOL if passes > 1 else 1):
            pool.append((next(lessons), passes))
        lesson, left = pool.pop(int(random.integers(len(pool))))
        if left > 1:
            pool.append((lesson, left - 1))
        yield lesson
