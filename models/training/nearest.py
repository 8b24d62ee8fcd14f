"""Embeddings of texts by the smallest shipped embedder, to find the rows that a search by vectors would."""

from __future__ import annotations

import pathlib
from concurrent import futures

import numpy as np

import speed

MODEL = pathlib.Path(__file__).resolve().parent.parent / "all-MiniLM-L6-v2" / "model.onnx"
CLS, SEP = 101, 102
MOST_TOKENS = 96
BATCH_TOKENS = 1024
WIDTH = 384


def batches(lengths: np.ndarray) -> list[np.ndarray]:
    """Positions of texts of one length each, at most BATCH_TOKENS tokens together."""
    found = []
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        step = max(1, BATCH_TOKENS // (int(length) + 2))
        found += [same[at : at + step] for at in range(0, len(same), step)]
    return found


def vectors(tokens: list[np.ndarray], threads: int = 2) -> np.ndarray:
    """Unit vectors [texts, WIDTH], float16: the mean of the states of the first MOST_TOKENS tokens.

    tokens: ids of every text, without special tokens. Texts that are alike are computed once.
    """
    place: dict[bytes, int] = {}
    number = [place.setdefault(ids[:MOST_TOKENS].tobytes(), len(place)) for ids in tokens]
    unique = [np.frombuffer(key, dtype=tokens[0].dtype).astype(np.int64) for key in place]
    found = np.empty((len(unique), WIDTH), dtype=np.float16)
    sessions = [speed.session(str(MODEL), 1) for _ in range(threads)]
    work = batches(np.array([len(ids) for ids in unique]))

    def run(at: int) -> None:
        for batch in work[at::threads]:
            ids = np.stack([np.concatenate([[CLS], unique[text], [SEP]]) for text in batch])
            feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            mean = sessions[at].run(None, feed)[0].mean(axis=1)
            found[batch] = mean / np.linalg.norm(mean, axis=1, keepdims=True)

    with futures.ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(threads)))
    return found[number]
