"""What the embedder learns from: questions, rows of a memory, and the cross-encoder's logits for the nearest of them.

A unit is QUESTIONS lists of one memory of lists.npz. In some memories the rows are put together to longer ones. The
candidates of a question are the best of its list (labelled rows, its origin, BM25), the rows that the embedder itself
finds nearest, and one other. Units are stored one by one, so a call that was stopped goes on where it was:

    query    int64   [questions] numbers of texts of lists.npz
    row      int64   [rows] the first text of each row, and
    span     int64   [rows] how many texts, one after the other, are the row
    chosen   int64   [questions, CANDIDATES] positions among the rows, -1 where there are fewer
    logit    float32 [questions, CANDIDATES] the teacher's; NaN for a long statement, where it has nothing to say
    label    int8    [questions, CANDIDATES] as in lists.npz
    asked, told      float16 [questions or rows, width] the embeddings before training
"""

from __future__ import annotations

import pathlib
import random

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import lists as lists_file
import pairs
import student
import train

QUESTIONS = 40
LISTED = 6
NEAREST = 5
CANDIDATES = LISTED + NEAREST + 1
LONGER_ROWS = 0.35
MOST_SPAN = 3
MOST_TOKENS = 160
PART = 4096
SLOT = lists_file.KINDS.index("slot")
ASKED = lists_file.KINDS.index("asked")
ABOUT_TURN = lists_file.KINDS.index("about_turn")
# Of ten units: the chats are nearest to what is recalled.
MIXTURE = {"chats": 5, "meetings": 1, "tasks": 3, "sentences": 1}


class Texts:
    """Texts of lists.npz as batches of [CLS] text [SEP]."""

    def __init__(self, lists: pairs.Lists, prefix: list[int]) -> None:
        self.lists, self.prefix = lists, torch.tensor(prefix, dtype=torch.long, device=lists.device)

    def batch(self, text: Tensor, span: Tensor, prefixed: bool) -> tuple[Tensor, Tensor]:
        """(ids, real), each [texts, length], on the device. text, span: on the CPU. prefixed: whether they are questions."""
        lists, begin = self.lists, 1 + (len(self.prefix) if prefixed else 0)
        total = begin + self.lengths(text, span) + 1
        at = torch.arange(int(total.max()), device=lists.device)[None, :]
        first, total = torch.stack([lists.offsets[text], total]).to(lists.device)[:, :, None]
        inside = (at >= begin) & (at < total - 1)
        ids = lists.tokens[torch.where(inside, first + at - begin, 0)].long()
        ids = torch.where(inside, ids, 0)
        ids[:, 0] = pairs.CLS
        if prefixed:
            ids[:, 1:begin] = self.prefix
        return torch.where(at == total - 1, pairs.SEP, ids), at < total

    def lengths(self, text: Tensor, span: Tensor) -> Tensor:
        return (self.lists.offsets[text + span] - self.lists.offsets[text]).clamp(max=MOST_TOKENS)

    def embed(self, model: student.Embedder, text: Tensor, span: Tensor | None = None, prefixed: bool = False) -> Tensor:
        """Unit vectors [texts, width] on the device; texts of similar length run together."""
        span = torch.ones_like(text) if span is None else span
        lengths, order = torch.sort(self.lengths(text, span), stable=True)
        extra = len(self.prefix) if prefixed else 0
        found = []
        with train.mixed(self.lists.device):
            for part in order.split(pairs.sizes([length + extra for length in lengths.tolist()], PART)):
                found.append(model(*self.batch(text[part], span[part], prefixed)))
        return torch.cat(found)[torch.argsort(order)]


def sources(lists: pairs.Lists, memories: list[np.ndarray]) -> dict[str, list[int]]:
    """Numbers of memories by what they were made from, which their kinds of questions tell."""
    found: dict[str, list[int]] = {name: [] for name in MIXTURE}
    for number, members in enumerate(memories):
        kinds = set(lists.kind[members].tolist())
        marks = {SLOT: "tasks", ASKED: "meetings", ABOUT_TURN: "sentences"}
        found[next((name for kind, name in marks.items() if kind in kinds), "chats")].append(number)
    return found


def plan(lists: pairs.Lists, held: bool, seed: int) -> list[np.ndarray]:
    """The lists of every unit, in an order in which any first part is mixed alike."""
    chosen = np.flatnonzero(lists.held == held)
    memory = lists.first[torch.from_numpy(chosen)].numpy()
    memories = [chosen[memory == first] for first in np.unique(memory)]
    source = random.Random(seed)
    units: dict[str, list[np.ndarray]] = {}
    for name, numbers in sources(lists, memories).items():
        units[name] = []
        for number in numbers:
            members = memories[number].copy()
            np.random.default_rng([seed, number]).shuffle(members)
            units[name] += [members[at : at + QUESTIONS] for at in range(0, len(members), QUESTIONS)]
        source.shuffle(units[name])
    order = []
    while all(len(units[name]) >= share for name, share in MIXTURE.items()):
        for name, share in MIXTURE.items():
            order += [units[name].pop() for _ in range(share)]
    return order


def spans(rows: np.ndarray, source: random.Random) -> tuple[np.ndarray, np.ndarray, dict[int, int]]:
    """Rows put together: (first text of each, how many, and where each text is now)."""
    longer = source.random() < LONGER_ROWS
    first, count, place = [], [], {}
    for row in rows.tolist():
        joins = longer and first and row == first[-1] + count[-1] and count[-1] < MOST_SPAN and source.random() < 0.6
        if joins:
            count[-1] += 1
        else:
            first.append(row)
            count.append(1)
        place[row] = len(first) - 1
    return np.array(first), np.array(count), place


def candidates(
    listed: list[int], label: list[int], place: dict[int, int], near: list[int], count: int, source: random.Random
) -> dict[int, int]:
    """Position among the unit's rows -> label, of one question. listed: texts of its list, the best first."""
    found: dict[int, int] = {}
    for row, value in zip(listed, label):
        at = place[row]
        if at in found:
            found[at] = max(found[at], value)
        elif len(found) < LISTED or value == 1:
            found[at] = value
    rest = -1 if max(label) < 0 else 0
    for at in [*near, source.randrange(count)]:
        if len(found) < CANDIDATES:
            found.setdefault(at, rest)
    return found


def unit(texts: Texts, model: student.Embedder, teacher, numbers: np.ndarray, source: random.Random) -> dict:
    """The arrays of one unit, on the CPU; see above."""
    lists = texts.lists
    row, span, place = spans(np.unique(lists.rows[numbers].numpy()), source)
    query = lists.query[numbers]
    row, span = torch.from_numpy(row), torch.from_numpy(span)
    asked, told = texts.embed(model, query, prefixed=True), texts.embed(model, row, span)
    near = (asked @ told.T).topk(min(NEAREST + LISTED, len(row))).indices.tolist()
    long = (lists.kind[numbers] == train.LONG_STATEMENT).tolist()
    chosen = torch.full((len(numbers), CANDIDATES), -1)
    label = torch.full((len(numbers), CANDIDATES), -1, dtype=torch.int8)
    logit = torch.full((len(numbers), CANDIDATES), torch.nan)
    for at, number in enumerate(numbers):
        listed, known = lists.rows[number].tolist(), lists.label[number].tolist()
        # What is nearest to a long statement may answer it and have no label.
        found = candidates(listed, known, place, [] if long[at] else near[at], len(row), source)
        chosen[at, : len(found)] = torch.tensor(list(found))[:CANDIDATES]
        label[at, : len(found)] = torch.tensor(list(found.values()), dtype=torch.int8)[:CANDIDATES]
    wanted = ((chosen >= 0) & ~torch.tensor(long)[:, None]).nonzero()
    asks, tells = query[wanted[:, 0]], chosen[wanted[:, 0], wanted[:, 1]]
    first, second = lists.lengths(asks, row[tells], span[tells])
    lengths, order = torch.sort(first + second, stable=True)
    for part in order.split(pairs.sizes(lengths.tolist(), PART)):
        pair = lists.batch(asks[part], row[tells[part]], span[tells[part]])
        logit[wanted[part, 0], wanted[part, 1]] = teacher(*pair)[0].cpu()
    found = {"query": query, "row": row, "span": span, "chosen": chosen, "label": label, "logit": logit}
    return found | {"asked": asked.half().cpu(), "told": told.half().cpu()}


class Maker:
    """Writes units of `lists` to `folder`, in the order of the plan."""

    def __init__(self, texts: Texts, graph: pathlib.Path, teacher, folder: pathlib.Path, held: bool, seed: int) -> None:
        self.texts, self.teacher, self.folder, self.seed = texts, teacher, folder, seed
        self.model = student.read_shipped(graph).eval().to(texts.lists.device)
        self.plan = plan(texts.lists, held, seed)
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, number: int) -> pathlib.Path:
        return self.folder / f"{number:05}.pt"

    def one(self, number: int) -> pathlib.Path:
        """Makes the unit if it is not there."""
        path = self.path(number)
        if not path.exists():
            with torch.no_grad():
                source = random.Random(f"{self.seed} {number}")
                found = unit(self.texts, self.model, self.teacher, self.plan[number], source)
            torch.save(found, path.with_suffix(".new"))
            path.with_suffix(".new").replace(path)
        return path

    def fresh(self) -> pathlib.Path | None:
        """The first unit of the plan that is not there, made now; None if all are."""
        number = next((number for number in range(len(self.plan)) if not self.path(number).exists()), None)
        return None if number is None else self.one(number)
