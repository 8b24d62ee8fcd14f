#!/usr/bin/env python3
"""Compares rerankers on labelled sets: the same pool of 50 rows for every question, ordered by each model.

usage: evaluate.py --cache DIR --set EVALUATION_DIR [--set ...] MODEL_DIR...

EVALUATION_DIR has corpus.jsonl (id, conversation_id, speaker, content, created_at) and queries.jsonl (query_id,
conversation_id, query, evidence, asked_at, category). A question sees its own conversation; rows: "speaker: content".
The pool is the best 50 by .5 dense (bge-small-en-v1.5) + .5 BM25, each scaled over the rows that may be seen. Questions
of the category `adversarial` are left out. Pools, embeddings and logits are kept in the cache.

`logits` orders by the model alone, `blend` by .5 sigmoid(logit) + .5 of the scaled first stage.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import pathlib
import sys

import numpy as np
from tokenizers import Tokenizer

import lists
import speed

HERE = pathlib.Path(__file__).resolve().parent
EMBEDDER = HERE.parent / "bge-small-en-v1.5"
POOL = 50
LONG = 250
FIELDS = {"input_ids": "ids", "token_type_ids": "type_ids", "attention_mask": "attention_mask"}
METRICS = ("R@5", "R@10", "nDCG@10")


def read(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Model:
    """A shipped graph and its tokenizer; texts of one length run together, so nothing is padded.

    On a GPU a reranker's graph is run as the float model of the same weights, which orders alike.
    """

    def __init__(self, folder: pathlib.Path, threads: int, device: str = "cpu") -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(512, strategy="longest_first")
        self.digest = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()[:12] + f"-{device}"
        self.most = 8 if device == "cpu" else 256
        if device == "cpu":
            session = speed.session(str(folder / "model.onnx"), threads)
            self.compute = lambda feed: session.run(None, feed)[0]
        else:
            self.compute = self.in_torch(folder / "model.onnx", device)

    @staticmethod
    def in_torch(path: pathlib.Path, device: str):
        import torch

        import student

        model = student.read_shipped(path).eval().to(device)

        def compute(feed: dict[str, np.ndarray]) -> np.ndarray:
            ids, types, real = (torch.from_numpy(feed[name]).to(device) for name in FIELDS)
            with torch.no_grad():
                return model(ids, types, real.bool())[0].cpu().numpy()

        return compute

    def run(self, texts: list) -> np.ndarray:
        """The first output value, or row, of every text or pair."""
        encodings = self.tokenizer.encode_batch(texts)
        lengths = np.array([len(encoding.ids) for encoding in encodings])
        order = np.argsort(lengths, kind="stable")
        found: list = [None] * len(texts)
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and end - start < self.most and lengths[order[end]] == lengths[order[start]]:
                end += 1
            batch = [encodings[at] for at in order[start:end]]
            feed = {
                name: np.array([getattr(encoding, field) for encoding in batch], dtype=np.int64)
                for name, field in FIELDS.items()
            }
            for at, value in zip(order[start:end], self.compute(feed)):
                found[at] = value.reshape(-1)
            start = end
        return np.array(found)


def scaled(values: np.ndarray) -> np.ndarray:
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.ones_like(values)


class Set:
    """A labelled set with its pools."""

    def __init__(self, folder: pathlib.Path, cache: pathlib.Path, threads: int) -> None:
        self.name, self.cache = folder.name, cache
        self.corpus = read(folder / "corpus.jsonl")
        self.all_queries = read(folder / "queries.jsonl")
        self.queries = [number for number, query in enumerate(self.all_queries) if query["category"] != "adversarial"]
        self.texts = [f"{row['speaker']}: {row['content']}" for row in self.corpus]
        path = cache / f"pool-{self.name}.npz"
        if not path.exists():
            self.make_pools(path, threads)
        stored = np.load(path)
        self.pool, self.first = stored["pool"], stored["first"]

    def embeddings(self, threads: int) -> tuple[np.ndarray, np.ndarray]:
        path = self.cache / f"embeddings-{self.name}.npz"
        if not path.exists():
            model = Model(EMBEDDER, threads)
            prefix = json.loads((EMBEDDER / "config.json").read_text())["query_prefix"]
            rows, queries = model.run(self.texts), model.run([prefix + query["query"] for query in self.all_queries])
            np.savez(path, c=rows, q=queries)
        stored = np.load(path)
        return tuple(stored[name] / np.linalg.norm(stored[name], axis=1, keepdims=True) for name in ("c", "q"))

    def make_pools(self, path: pathlib.Path, threads: int) -> None:
        rows, queries = self.embeddings(threads)
        pools = np.full((len(self.queries), POOL), -1)
        first = np.zeros((len(self.queries), POOL))
        for at, number in enumerate(self.queries):
            query = self.all_queries[number]
            seen = [
                row
                for row, entry in enumerate(self.corpus)
                if entry["conversation_id"] == query["conversation_id"] and entry["created_at"] < query["asked_at"]
            ]
            if not seen:
                continue
            lexical = lists.Lexical([self.texts[row] for row in seen]).scores(query["query"])
            by_words = np.array([lexical.get(position, 0.0) for position in range(len(seen))])
            score = 0.5 * scaled(rows[seen] @ queries[number]) + 0.5 * scaled(by_words)
            best = np.argsort(-score, kind="stable")[:POOL]
            pools[at, : len(best)] = np.array(seen)[best]
            first[at, : len(best)] = score[best]
        np.savez(path, pool=pools, first=first)

    def logits(self, folder: pathlib.Path, threads: int, device: str) -> np.ndarray:
        """Logits of the pools by a model, from the cache as far as they are there."""
        model = Model(folder, threads, device)
        path = self.cache / f"logits-{self.name}-{model.digest}.npy"
        values = np.load(path) if path.exists() else np.full(self.pool.shape, np.nan, dtype=np.float32)
        missing = np.argwhere(np.isnan(values) & (self.pool >= 0))
        for start in range(0, len(missing), 2000):
            part = missing[start : start + 2000]
            queries = [self.all_queries[self.queries[at]]["query"] for at, _ in part]
            pairs = list(zip(queries, (self.texts[self.pool[at, place]] for at, place in part)))
            values[part[:, 0], part[:, 1]] = model.run(pairs)[:, 0]
            np.save(path, values)
            print(f"  {self.name}: {start + len(part)} of {len(missing)}", file=sys.stderr, flush=True)
        return values


def measures(ids: list[str], evidence: set[str]) -> list[float]:
    relevant = [identifier in evidence for identifier in ids[:10]]
    gain = sum(1 / math.log2(place + 2) for place, hit in enumerate(relevant) if hit)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(evidence))))
    return [sum(relevant[:5]) / len(evidence), sum(relevant) / len(evidence), gain / ideal]


def measured(data: Set, scores: np.ndarray) -> np.ndarray:
    """[questions, metrics] of the pools ordered by `scores`."""
    rows = []
    for at, number in enumerate(data.queries):
        known = data.pool[at] >= 0
        order = np.argsort(-scores[at][known], kind="stable")
        ids = [data.corpus[row]["id"] for row in data.pool[at][known][order][:10]]
        rows.append(measures(ids, set(data.all_queries[number]["evidence"])))
    return np.array(rows)


def blended(data: Set, logits: np.ndarray) -> np.ndarray:
    first = np.array([scaled(row) if len(row) else row for row in data.first])
    return 0.5 / (1 + np.exp(-logits)) + 0.5 * first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--set", type=pathlib.Path, action="append", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    for folder in arguments.set:
        data = Set(folder, arguments.cache, arguments.threads)
        long = np.array([len(data.all_queries[number]["query"]) > LONG for number in data.queries])
        groups = {"all": np.ones(len(long), bool)} | ({"short": ~long, "long": long} if long.sum() > 20 else {})
        print(f"{data.name}: {len(data.queries)} questions, {long.sum()} longer than {LONG} characters")
        print("| order by | questions | " + " | ".join(METRICS) + " |\n" + "|---" * (len(METRICS) + 2) + "|")
        orders = {"first stage": data.first}
        for model in arguments.models:
            logits = data.logits(model, arguments.threads, arguments.device)
            orders[f"{model.name}, logits"] = logits
            orders[f"{model.name}, blend"] = blended(data, logits)
        for name, scores in orders.items():
            found = measured(data, scores)
            for group, inside in groups.items():
                values = " | ".join(f"{value:.4f}".lstrip("0") for value in found[inside].mean(axis=0))
                print(f"| {name} | {group} {inside.sum()} | {values} |")


if __name__ == "__main__":
    main()
