#!/usr/bin/env python3
"""Checks a finished model: size, the same results alone and in batches, int8 activations against floats.

usage: check.py MODEL_DIR

Of a reranker it also prints the logits of related.tsv, from which related_logit of config.json is chosen (see
../README.md); an embedder's values come from ../calibrate.py.
"""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import torch
from tokenizers import Tokenizer

import speed
import student

HERE = pathlib.Path(__file__).resolve().parent
MOST_BYTES = {"reranker": 25_000_000, "embedder": 34_000_000}
# What padding may change: in vectors the last bit of a sum that is added in another order; a logit not at all.
MOST_DIFFERENCE = {"reranker": 0.0, "embedder": 1e-6}
QUERIES = ("How many people live in Berlin?", "What did Maria say about her new job?")


def texts() -> list[str]:
    """The texts of calibration.tsv, which nothing was trained on."""
    lines = (HERE.parent / "calibration.tsv").read_text().splitlines()[1:]
    return [text for line in lines for text in line.split("\t")[1:]][:96]


def run(session, encodings: list) -> np.ndarray:
    """Logits, or vectors, of encodings in one padded batch."""
    length = max(len(encoding.ids) for encoding in encodings)

    def padded(field: str) -> np.ndarray:
        rows = [getattr(encoding, field) for encoding in encodings]
        return np.array([row + [0] * (length - len(row)) for row in rows], dtype=np.int64)

    fields = {"input_ids": "ids", "token_type_ids": "type_ids", "attention_mask": "attention_mask"}
    return session.run(None, {name: padded(field) for name, field in fields.items()})[0][:, 0]


def in_floats(model: student.Encoder, encoding) -> np.ndarray:
    """What `run` gives of one encoding, computed in floats."""
    ids, types = torch.tensor([encoding.ids]), torch.tensor([encoding.type_ids])
    with torch.no_grad():
        if isinstance(model, student.Embedder):
            return model.states(ids, types, ids >= 0)[-1][0, 0].numpy()
        return model(ids, types, ids >= 0)[0][0].numpy()


def print_related(session, tokenizer: Tokenizer) -> None:
    """Questions against summaries: of their own conversation, of others, and about what was never discussed."""
    lines = [line.split("\t") for line in (HERE.parent / "related.tsv").read_text().splitlines()[1:]]
    summaries = {number: text for number, kind, text in lines if kind == "summary"}
    logits: dict[str, list[float]] = {"about it": [], "another": [], "never discussed": []}
    for number, kind, question in lines:
        if kind == "summary":
            continue
        for conversation, summary in summaries.items():
            known = "about it" if conversation == number else "another" if number in summaries else "never discussed"
            logits[known].append(float(run(session, [tokenizer.encode(question, summary)])[0]))
    for known, values in logits.items():
        low, middle, high = np.percentile(values, [5, 50, 95])
        print(f"{known}: 5 / 50 / 95 % {low:.1f} / {middle:.1f} / {high:.1f}")
    for threshold in (-10, -9, -8, -7, -6, -4):
        shares = (f"{known} {np.mean(np.array(values) >= threshold):.3f}" for known, values in logits.items())
        print(f"at or above {threshold}: {', '.join(shares)}")


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    kind = json.loads((folder / "config.json").read_text())["kind"]
    size = (folder / "model.onnx").stat().st_size
    session = speed.session(str(folder / "model.onnx"), 2)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    inputs = texts() if kind == "embedder" else [(query, text) for query in QUERIES for text in texts()]
    encodings = tokenizer.encode_batch(inputs)
    alone = np.array([run(session, [encoding])[0] for encoding in encodings])
    together = np.concatenate([run(session, encodings[start : start + 8]) for start in range(0, len(encodings), 8)])
    model = student.read_shipped(folder / "model.onnx").eval()
    floats = np.array([in_floats(model, encoding) for encoding in encodings])
    same = (alone.view(np.uint32) == together.view(np.uint32)).reshape(len(alone), -1).all(axis=1)
    different, most = int((~same).sum()), float(np.abs(alone - together).max())
    print(f"{size / 1e6:.1f} MB; {len(alone)} inputs alone and in padded batches of 8: {different} differ, by {most:.0e} at most")
    if kind == "embedder":
        cosine = (alone * floats).sum(axis=1) / np.linalg.norm(alone, axis=1) / np.linalg.norm(floats, axis=1)
        print(f"int8 activations against float: cosine mean {cosine.mean():.4f}, least {cosine.min():.4f}")
    else:
        difference = np.abs(alone - floats)
        print(f"int8 activations against float: mean {difference.mean():.3f}, greatest {difference.max():.3f}")
        print_related(session, tokenizer)
    return 0 if most <= MOST_DIFFERENCE[kind] and size <= MOST_BYTES[kind] else 1


if __name__ == "__main__":
    sys.exit(main())
