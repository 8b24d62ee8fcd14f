#!/usr/bin/env python3
"""Finds the similarity values of an embedder's config.json from the labelled pairs of calibration.tsv.

usage: calibrate.py [--check] MODEL_FOLDER...

calibration.tsv: label, first, second; the label is `unrelated`, `same_topic` (another fact, or a newer value, about the
same thing) or `duplicate` (the same fact in other words). Cosines are between two stored texts, so no query prefix.

unrelated_p95   the 95th percentile of unrelated pairs
same_topic      the threshold with the best balanced accuracy between unrelated pairs and all others
duplicate       the 95th percentile of same_topic pairs: at or above it, one pair in twenty is not a duplicate. It is
                strict because a newer value taken for a repetition would be lost.

With --check the exit code is 1 if a config.json differs by more than .01.
"""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

TOLERANCE = 0.01


class Embedder:
    def __init__(self, folder: pathlib.Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(self.config["max_tokens"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])

    def embed(self, text: str) -> np.ndarray:
        """The unit vector [dimension] of a stored text."""
        encoding = self.tokenizer.encode(self.config["document_prefix"] + text)
        inputs = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        (hidden,) = self.session.run(None, {name: np.array([ids], np.int64) for name, ids in inputs.items()})
        vector = hidden[0, 0] if self.config["pooling"] == "cls" else hidden[0].mean(axis=0)
        return vector / np.linalg.norm(vector)


def best_threshold(low: np.ndarray, high: np.ndarray) -> float:
    """The threshold with the greatest (share of low below it + share of high at or above it)."""
    candidates = np.unique(np.concatenate([low, high]))
    gain = [(low < t).mean() + (high >= t).mean() for t in candidates]
    best = int(np.argmax(gain))
    # Halfway to the next value below, so that the threshold does not hang on one pair.
    return float((candidates[best] + candidates[max(best - 1, 0)]) / 2)


def calibrate(folder: pathlib.Path) -> dict[str, float]:
    embedder = Embedder(folder)
    cosines: dict[str, list[float]] = {}
    for line in (pathlib.Path(__file__).parent / "calibration.tsv").read_text().splitlines()[1:]:
        label, first, second = line.split("\t")
        cosines.setdefault(label, []).append(float(embedder.embed(first) @ embedder.embed(second)))
    unrelated, same_topic, duplicate = (np.array(cosines[k]) for k in ("unrelated", "same_topic", "duplicate"))
    for label, values in cosines.items():
        spread = " ".join(f"{p}%={np.percentile(values, p):.3f}" for p in (5, 25, 50, 75, 95))
        print(f"{folder.name} {label} n={len(values)} {spread}")
    found = {
        "unrelated_p95": round(float(np.percentile(unrelated, 95)), 2),
        "same_topic": round(best_threshold(unrelated, np.concatenate([same_topic, duplicate])), 2),
        "duplicate": round(float(np.percentile(same_topic, 95)), 2),
    }
    print(
        f"{folder.name} {json.dumps(found)}: related pairs at or above same_topic "
        f"{(np.concatenate([same_topic, duplicate]) >= found['same_topic']).mean():.2f}, unrelated ones "
        f"{(unrelated >= found['same_topic']).mean():.2f}; duplicates at or above duplicate "
        f"{(duplicate >= found['duplicate']).mean():.2f}"
    )
    return found


def main() -> int:
    folders = [pathlib.Path(argument) for argument in sys.argv[1:] if argument != "--check"]
    stale = []
    for folder in folders:
        found, stated = calibrate(folder), json.loads((folder / "config.json").read_text())["similarity"]
        if any(abs(found[key] - stated[key]) > TOLERANCE for key in found):
            stale.append(folder.name)
    if "--check" in sys.argv and stale:
        print(f"config.json differs: {', '.join(stale)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
