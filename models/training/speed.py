#!/usr/bin/env python3
"""Times rerankers against the first one, on pairs of the lengths that recall has, batched as the model server does.

usage: speed.py [--threads N] [--rounds N] MODEL.onnx MODEL.onnx...      two or more graphs
       speed.py --layers 2,3,4                                           the shipped L-12 and cuts of it

The graphs take turns, so that what else the machine does meets all of them alike. Prints the median and the least time
for 39 pairs, and the first graph's time divided by each.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import time

import numpy as np

TEACHER = pathlib.Path(__file__).resolve().parent.parent / "ms-marco-MiniLM-L-12-v2" / "model.onnx"
PAIRS = 39
MOST_SEQUENCES, MOST_TOKENS, MOST_PADDING = 8, 512, 0.125


def session(model: str | bytes, threads: int):
    """An inference session on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def plan(lengths: list[int]) -> list[list[int]]:
    """Positions in batches, the longest first: crates/model_server/src/batch.rs."""
    batches: list[list[int]] = []
    longest = 0
    for position in sorted(range(len(lengths)), key=lambda position: -lengths[position]):
        length = lengths[position]
        batch = batches[-1] if batches else []
        fits = len(batch) < MOST_SEQUENCES and (len(batch) + 1) * longest <= MOST_TOKENS
        if batch and fits and length >= longest * (1 - MOST_PADDING):
            batch.append(position)
        else:
            batches.append([position])
            longest = length
    return batches


def inputs(lengths: list[int], seed: int) -> list[dict[str, np.ndarray]]:
    random_source = np.random.default_rng(seed)
    batches = []
    for batch in plan(lengths):
        shape = (len(batch), max(lengths[position] for position in batch))
        ids = random_source.integers(1000, 30000, shape)
        mask = np.array([[int(at < lengths[position]) for at in range(shape[1])] for position in batch])
        batches.append({"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})
    return batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--layers", help="numbers of layers, with commas")
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    models = {path: session(path, arguments.threads) for path in arguments.models}
    if arguments.layers:
        import student

        teacher = student.read_shipped(TEACHER)
        models["L-12"] = session(str(TEACHER), arguments.threads)
        for count in map(int, arguments.layers.split(",")):
            cut = student.onnx_file(student.from_teacher(teacher, list(range(count))))
            models[f"{count} layers, {len(cut) / 1e6:.1f} MB"] = session(cut, arguments.threads)
    times: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(arguments.rounds + 1):
        lengths = [int(x) for x in np.random.default_rng(turn).lognormal(3.75, 0.35, PAIRS).clip(12, 300)]
        batches = inputs(lengths, turn)
        for name, model in models.items():
            start = time.perf_counter()
            for batch in batches:
                model.run(None, batch)
            if turn:
                times[name].append(time.perf_counter() - start)
    first = next(iter(times.values()))
    for name, taken in times.items():
        ratio = statistics.median(one / other for one, other in zip(first, taken))
        least = min(first) / min(taken)
        median = statistics.median(taken) * 1e3
        print(f"{name}: median {median:.0f} ms, x{ratio:.2f}; least {min(taken) * 1e3:.0f} ms, x{least:.2f}")


if __name__ == "__main__":
    main()
