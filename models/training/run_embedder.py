#!/usr/bin/env python3
"""From the manifest to the folder of memory-embed-small.

usage: run_embedder.py --data DIR [--run DIR] [options]

Steps, each left out where its result is there already: DIR/lists.npz as run.py makes it, units to DIR/units, training
with checkpoints in the run's folder, the graph to the model's folder.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import torch
from tokenizers import Tokenizer

import embedder_data
import fetch
import lists
import pairs
import student
import teacher
import train_embedder

HERE = pathlib.Path(__file__).resolve().parent
TEACHER = HERE.parent / "ms-marco-MiniLM-L-12-v2"
BEFORE = HERE.parent / "bge-small-en-v1.5"
MODEL = HERE.parent / "memory-embed-small"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of the data, made if it is not there")
    parser.add_argument("--run", type=pathlib.Path, help="folder of checkpoints and the log; default DIR/embedder")
    parser.add_argument("--repositories", type=pathlib.Path, help="folder with clones of the sources")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch on a CPU")
    parser.add_argument("--units", type=int, default=200, help="units that are made before training")
    parser.add_argument("--held", type=int, default=6, help="units to validate with")
    parser.add_argument("--minutes", type=float, default=50)
    parser.add_argument("--rate", type=float, default=5e-5, help="peak learning rate")
    parser.add_argument("--frozen", type=int, default=4, help="layers at the bottom that are left as they are")
    parser.add_argument("--share", type=float, default=train_embedder.SHARE, help="of the trained weights")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, default=MODEL, help="folder of the finished model")
    return parser.parse_args()


def inputs_of(model: student.Embedder, texts: embedder_data.Texts, held: list[pathlib.Path]) -> student.Inputs:
    """What the matrices are given by the texts of the held units."""
    inputs = student.Inputs(model)
    for unit in map(torch.load, held):
        for text, span, prefixed in (
            (unit["row"], unit["span"], False),
            (unit["query"], torch.ones_like(unit["query"]), True),
        ):
            lengths = texts.lengths(text, span)
            for length in lengths.unique():
                with torch.no_grad():
                    model(*texts.batch(text[lengths == length], span[lengths == length], prefixed))
    inputs.close()
    return inputs


def main() -> int:
    given = arguments()
    given.data.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(given.threads)
    if not (given.data / "lists.npz").exists():
        fetch.fetch(given.data, given.repositories)
        lists.build(given.data, TEACHER / "tokenizer.json")
    prefix = json.loads((BEFORE / "config.json").read_text())["query_prefix"]
    tokenizer = Tokenizer.from_file(str(BEFORE / "tokenizer.json"))
    prefix_ids = tokenizer.encode(prefix, add_special_tokens=False).ids
    texts = embedder_data.Texts(pairs.Lists(given.data, given.device), prefix_ids)
    graph = BEFORE / "model.onnx"
    scorer = teacher.teacher(TEACHER / "model.onnx", [], given.device)
    makers = [
        embedder_data.Maker(texts, graph, scorer, given.data / "units" / name, name == "held", given.seed)
        for name in ("held", "train")
    ]
    held = [makers[0].one(number) for number in range(given.held)]
    for number in range(given.units):
        makers[1].one(number)
    options = train_embedder.Options(given.minutes, given.rate, given.frozen, given.seed)
    folder = given.run or given.data / "embedder"
    train_embedder.Trainer(graph, makers[1], held, folder, options).run()
    after = train_embedder.read_checkpoint(folder / "checkpoint.pt", graph)
    model = train_embedder.mixed(student.read_shipped(graph), after, given.share).eval()
    graph = student.onnx_file(model, inputs_of(model, embedder_data.Texts(pairs.Lists(given.data, "cpu"), prefix_ids), held))
    student.write_folder(given.output, graph, BEFORE / "tokenizer.json", HERE / "folder_embedder")
    return 0


if __name__ == "__main__":
    sys.exit(main())
