#!/usr/bin/env python3
"""Compares embedders on labelled sets: the rows of a conversation ordered by the cosine alone.

usage: evaluate_embedder.py --set EVALUATION_DIR [--set ...] [--dimensions 384] MODEL...

MODEL is a folder of a model, or a checkpoint of train_embedder.py (run in floats). EVALUATION_DIR is as for
evaluate.py. A question sees the rows of its own conversation that are older than it; a row is "name: content" where
more than one person speaks, as recall has it. "near" takes the mean with the rows before and after, as recall does.
From the second model on, differences to the first one with their 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import numpy as np

import evaluate

HERE = pathlib.Path(__file__).resolve().parent
FIRST = HERE.parent / "bge-small-en-v1.5"
NEIGHBOR_WEIGHT = 0.3
DRAWS = 2000


class Set:
    """A labelled set: its texts and, for every question, which rows it sees."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.name = folder.name
        self.rows = evaluate.read(folder / "corpus.jsonl")
        queries = evaluate.read(folder / "queries.jsonl")
        self.queries = [query for query in queries if query["category"] != "adversarial"]
        speakers: dict[str, set[str]] = {}
        by_conversation: dict[str, list[int]] = {}
        for number, row in enumerate(self.rows):
            speakers.setdefault(row["conversation_id"], set()).add(row["speaker"])
            by_conversation.setdefault(row["conversation_id"], []).append(number)
        self.texts = [
            f"{row['speaker']}: {row['content']}" if len(speakers[row["conversation_id"]]) > 1 else row["content"]
            for row in self.rows
        ]
        self.seen = [
            [number for number in by_conversation[query["conversation_id"]] if
             self.rows[number]["created_at"] < query["asked_at"]]
            for query in self.queries
        ]

    def smoothed(self, similarity: np.ndarray, seen: list[int]) -> np.ndarray:
        """Each row's similarity moved towards those of its neighbours in the session."""
        session = [self.rows[number]["session_id"] for number in seen]
        found = similarity.copy()
        for at in range(len(seen)):
            near = [other for other in (at - 1, at + 1) if 0 <= other < len(seen) and session[other] == session[at]]
            if near:
                found[at] = (1 - NEIGHBOR_WEIGHT) * similarity[at] + NEIGHBOR_WEIGHT * similarity[near].mean()
        return found

    def measured(self, rows: np.ndarray, queries: np.ndarray, near: bool) -> np.ndarray:
        """[questions, metrics]; rows and queries are unit vectors."""
        found = []
        for query, vector, seen in zip(self.queries, queries, self.seen):
            similarity = rows[seen] @ vector
            if near and seen:
                similarity = self.smoothed(similarity, seen)
            best = np.argsort(-similarity, kind="stable")[:10]
            found.append(evaluate.measures([self.rows[seen[at]]["id"] for at in best], set(query["evidence"])))
        return np.array(found)


class OfFolder:
    def __init__(self, folder: pathlib.Path, threads: int) -> None:
        self.model = evaluate.Model(folder, threads)
        self.prefix = json.loads((folder / "config.json").read_text())["query_prefix"]

    def embed(self, texts: list[str], prefixed: bool = False) -> np.ndarray:
        return unit(self.model.run([self.prefix + text if prefixed else text for text in texts]))


class OfTorch:
    """An Embedder in floats (bfloat16 where the CPU has it), for checkpoints."""

    def __init__(self, model, folder: pathlib.Path = FIRST) -> None:
        from tokenizers import Tokenizer

        self.model = model
        self.prefix = json.loads((folder / "config.json").read_text())["query_prefix"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(512)

    def embed(self, texts: list[str], prefixed: bool = False) -> np.ndarray:
        import torch

        import pairs
        import train

        encodings = self.tokenizer.encode_batch([self.prefix + text if prefixed else text for text in texts])
        lengths = np.array([len(encoding.ids) for encoding in encodings])
        order = np.argsort(lengths, kind="stable")
        found, start = np.zeros((len(texts), self.model.norm.weight.shape[0]), np.float32), 0
        for size in pairs.sizes([int(length) for length in lengths[order]], 4096):
            part = order[start : start + size]
            ids = torch.zeros((size, int(lengths[part].max())), dtype=torch.long)
            for line, at in enumerate(part):
                ids[line, : lengths[at]] = torch.tensor(encodings[at].ids)
            with torch.no_grad(), train.mixed("cpu"):
                found[part] = self.model(ids, torch.arange(ids.shape[1]) < torch.from_numpy(lengths[part])[:, None])
            start += size
        return unit(found)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def interval(difference: np.ndarray) -> np.ndarray:
    draws = np.random.default_rng(0).integers(0, len(difference), (DRAWS, len(difference)))
    return np.percentile(difference[draws].mean(axis=1), [2.5, 97.5], axis=0)


def main() -> None:
    import torch

    import train_embedder

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", type=pathlib.Path, action="append", required=True)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sets, before = [Set(folder) for folder in arguments.set], {}
    for path in arguments.models:
        model = OfFolder(path, arguments.threads) if path.is_dir() else OfTorch(train_embedder.read_checkpoint(path, FIRST / "model.onnx"))
        for data in sets:
            rows, queries = model.embed(data.texts), model.embed([query["query"] for query in data.queries], True)
            rows, queries = (unit(vectors[:, : arguments.dimensions]) for vectors in (rows, queries))
            for near in (False, True):
                found = data.measured(rows, queries, near)
                text = " ".join(f"{name} {value:.4f}" for name, value in zip(evaluate.METRICS, found.mean(axis=0)))
                base = before.setdefault((data.name, near), found)
                if base is not found:
                    low, high = interval(found - base)
                    for name, mean, least, most in zip(evaluate.METRICS, (found - base).mean(axis=0), low, high):
                        text += f", {name} {mean:+.4f} [{least:+.4f}, {most:+.4f}]"
                print(f"{path.name} {data.name}{' near' if near else ''}: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
