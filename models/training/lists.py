"""Lists: a query and the rows of its memory that a search would hand to the reranker, as token ids in one file.

DIR/lists.npz holds every text once, without special tokens, and for every list the numbers of its texts:

    tokens   uint16  the ids of all texts, one after the other
    offsets  uint32  where each text begins; one more than there are texts
    query    uint32  [lists] the query's text
    base     uint32  [lists] the first row of its memory
    rows     uint16  [lists, LENGTH] rows, counted from the base
    label    int8    [lists, LENGTH] 1 labelled as relevant, 0 not, -1 nobody said
    kind     uint8   [lists] a position in KINDS
    held     bool    [lists] kept for validation: all lists of some memories

Lists are in random order, so a shorter run takes the first ones.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import random
import re

import numpy as np
from tokenizers import Tokenizer

import conversations
import decontaminate
import memories
import nearest

LENGTH = 32
# Of each search, by words and by vectors: the best rows, and some of the next ones, which a pool of 50 has as well.
BEST = 6
NEXT, NEXT_OF = 6, 34
NEIGHBOURS = 2
RELEVANT = 3
KINDS = ("made", "asked", "slot", "statement", "long_statement", "about_turn")
# At most so many lists of a kind from a memory. SGD is ten times the chats, which are nearer to what is recalled.
MOST = {
    "spc": {"made": 800, "statement": 250, "long_statement": 16},
    "qmsum": {"made": 250, "asked": 60, "statement": 120, "long_statement": 16},
    "sgd": {"made": 30, "slot": 12, "statement": 12, "long_statement": 3},
    "topical": {"made": 500, "statement": 200, "long_statement": 0},
    "nqg": {"made": 60, "statement": 100, "long_statement": 0, "about_turn": 1000},
    "qamr": {"made": 60, "statement": 100, "long_statement": 0, "about_turn": 2500},
}
HELD_SHARE = 0.02
K1, B = 1.2, 0.3
SEED = 17
STOP_WORDS = set(
    """
    a an and are as at be been but by did do does for from had has have he her his how i if in is it its me my
    of on or
    """.split()
)


class Lexical:
    """BM25 over the rows of one memory; words are cut to six letters instead of stemmed."""

    def __init__(self, rows: list[str]) -> None:
        words = [self.words(row) for row in rows]
        mean = max(sum(map(len, words)) / max(len(words), 1), 1)
        self.count = len(rows)
        self.postings: dict[str, dict[int, int]] = {}
        for row, found in enumerate(words):
            for word in found:
                counts = self.postings.setdefault(word, {})
                counts[row] = counts.get(row, 0) + 1
        self.norm = [K1 * (1 - B + B * len(found) / mean) for found in words]

    @staticmethod
    def words(text: str) -> list[str]:
        return [word[:6] for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in STOP_WORDS]

    def scores(self, query: str) -> dict[int, float]:
        """The score of every row that has a word of the query."""
        scores: dict[int, float] = {}
        for word in set(self.words(query)):
            counts = self.postings.get(word, {})
            weight = math.log(1 + (self.count - len(counts) + 0.5) / (len(counts) + 0.5))
            for row, times in counts.items():
                scores[row] = scores.get(row, 0.0) + weight * times * (K1 + 1) / (times + self.norm[row])
        return scores

    def best(self, query: str, count: int) -> list[int]:
        scores = self.scores(query)
        return sorted(scores, key=lambda row: (-scores[row], row))[:count]


def rows_of(
    query: memories.Query,
    searches: list[list[int]],
    allowed: list[int],
    known: set[int],
    random_source: random.Random,
) -> list[int]:
    """The rows of a list: some that are relevant, good ones of the searches, neighbours of the origin, and any others.

    searches: of each its best BEST + NEXT_OF rows, the best first.
    """
    chosen = random_source.sample(query.relevant, min(RELEVANT, len(query.relevant)))
    if query.origin >= 0:
        chosen.append(query.origin)
    around = chosen[0] if chosen else searches[0][0] if searches[0] else 0
    for found in searches:
        chosen += found[:BEST]
    for found in searches:
        chosen += random_source.sample(found[BEST:], min(NEXT, len(found[BEST:])))
    chosen += random_source.sample([around - 2, around - 1, around + 1, around + 2], NEIGHBOURS)
    chosen = [row for row in dict.fromkeys(chosen) if row in known][: LENGTH - 2]
    while len(chosen) < LENGTH:
        row = random_source.choice(allowed)
        if row not in chosen:
            chosen.append(row)
    return chosen


def queries_of(memory: memories.Memory, excluded: set[str], random_source: random.Random) -> list[memories.Query]:
    """The memory's queries, each text once, at most MOST of a kind.

    Long statements without a label are left out: the teacher has nothing to say on them.
    """
    unique = {query.text: query for query in memory.queries if decontaminate.digest(query.text) not in excluded}
    by_kind: dict[str, list[memories.Query]] = {}
    for query in unique.values():
        if query.relevant or query.kind != "long_statement":
            by_kind.setdefault(query.kind, []).append(query)
    chosen = []
    for kind, found in by_kind.items():
        chosen += random_source.sample(found, min(len(found), MOST[memory.source][kind]))
    return chosen


class Texts:
    """Token ids of all texts, one after the other."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.tokens: list[np.ndarray] = []
        self.count = 0

    def add(self, texts: list[str]) -> int:
        """Adds the texts; the number of the first one."""
        first = self.count
        for encoding in self.tokenizer.encode_batch(texts, add_special_tokens=False):
            self.tokens.append(np.array(encoding.ids, dtype=np.uint16))
        self.count += len(texts)
        return first

    def arrays(self) -> dict[str, np.ndarray]:
        lengths = [len(tokens) for tokens in self.tokens]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
        return {"tokens": np.concatenate(self.tokens), "offsets": offsets}


def labels_of(query: memories.Query, rows: list[int]) -> list[int]:
    if not query.relevant:
        return [-1] * len(rows)
    return [int(row in query.relevant) for row in rows]


def all_memories(directory: pathlib.Path, seed: int):
    dialogues = [dialogue for read in conversations.READERS.values() for dialogue in read(directory)]
    return memories.memories(dialogues, random.Random(seed))


@dataclasses.dataclass
class Asked:
    """A memory with its queries, and the numbers of its first row and its first query among the texts."""

    rows: list[str]
    allowed: list[int]
    queries: list[memories.Query]
    base: int
    first_query: int
    held: bool


def asked(directory: pathlib.Path, texts: Texts, share: float, seed: int) -> list[Asked]:
    """`share` of the memories; their texts are added to `texts`."""
    drawn, random_source = random.Random(seed + 2), random.Random(seed + 1)
    excluded = decontaminate.left_out()
    found = []
    for memory in all_memories(directory, seed):
        if drawn.random() >= share:
            continue
        allowed = [row for row, text in enumerate(memory.rows) if decontaminate.digest(text) not in excluded]
        if len(allowed) < 2 * LENGTH:
            continue
        queries = queries_of(memory, excluded, random_source)
        base = texts.add(memory.rows)
        first_query = texts.add([query.text for query in queries])
        held = random_source.random() < HELD_SHARE
        found.append(Asked(memory.rows, allowed, queries, base, first_query, held))
    return found


def build(directory: pathlib.Path, tokenizer_file: pathlib.Path, share: float = 1.0, seed: int = SEED) -> None:
    """Writes DIR/lists.npz from `share` of the memories."""
    random_source = random.Random(seed + 3)
    texts = Texts(Tokenizer.from_file(str(tokenizer_file)))
    columns: dict[str, list] = {name: [] for name in ("query", "base", "rows", "label", "kind", "held")}
    memories_asked = asked(directory, texts, share, seed)
    vectors = nearest.vectors(texts.tokens)
    for memory in memories_asked:
        lexical, known = Lexical(memory.rows), set(memory.allowed)
        told = vectors[memory.base : memory.base + len(memory.rows)].astype(np.float32)
        of_queries = vectors[memory.first_query : memory.first_query + len(memory.queries)].astype(np.float32)
        near = np.argsort(-(of_queries @ told.T), axis=1, kind="stable")[:, : BEST + NEXT_OF].tolist()
        for number, query in enumerate(memory.queries):
            searches = [lexical.best(query.text, BEST + NEXT_OF), near[number]]
            rows = rows_of(query, searches, memory.allowed, known, random_source)
            columns["query"].append(memory.first_query + number)
            columns["base"].append(memory.base)
            columns["rows"].append(rows)
            columns["label"].append(labels_of(query, rows))
            columns["kind"].append(KINDS.index(query.kind))
            columns["held"].append(memory.held)
    types = {"query": np.uint32, "base": np.uint32, "rows": np.uint16, "label": np.int8, "kind": np.uint8, "held": bool}
    order = np.random.default_rng(seed).permutation(len(columns["query"]))
    arrays = {name: np.array(values, dtype=types[name])[order] for name, values in columns.items()}
    arrays |= texts.arrays()
    np.savez_compressed(directory / "lists.npz", **arrays)
    counts = {kind: int((arrays["kind"] == number).sum()) for number, kind in enumerate(KINDS)}
    print(f"{len(order)} lists of {LENGTH}, {texts.count} texts, {len(arrays['tokens'])} tokens, {counts}")
