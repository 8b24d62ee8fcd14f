"""The teacher's logits, computed beforehand with the shipped int8 graph: for a CPU, which has no time for more."""

from __future__ import annotations

import pathlib

import numpy as np
import torch

import pairs

SAVE_EVERY = 64
MOST_HELD = 200


def label(directory: pathlib.Path, graph: pathlib.Path, count: int, threads: int) -> None:
    """Labels the first `count` training lists and some of those held that have no logits yet. Can be stopped."""
    import onnxruntime

    lists = pairs.Lists(directory, "cpu")
    logits = pairs.TeacherLogits(directory, len(lists.held), lists.length)
    wanted = np.concatenate([np.flatnonzero(lists.held)[:MOST_HELD], np.flatnonzero(~lists.held)[:count]])
    missing = wanted[~logits.labelled()[wanted]]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    for start in range(0, len(missing), SAVE_EVERY):
        numbers = torch.from_numpy(missing[start : start + SAVE_EVERY])
        found = np.empty(len(numbers) * lists.length, dtype=np.float32)
        for positions, (ids, types, real) in lists.parts(lists.query[numbers], lists.rows[numbers], 8):
            feed = {"input_ids": ids.numpy(), "token_type_ids": types.numpy(), "attention_mask": real.long().numpy()}
            found[positions.numpy()] = session.run(None, feed)[0][:, 0]
        logits.values[numbers.numpy()] = found.reshape(len(numbers), lists.length)
        logits.values.flush()
        if start % (8 * SAVE_EVERY) == 0:
            print(f"labelled {start + len(numbers)} of {len(missing)} lists", flush=True)
