#!/usr/bin/env python3
"""From the manifest to the model's folder.

usage: run.py --data DIR [--run DIR] [options]

Steps, each left out where its result is there already: the files of manifest.tsv to DIR/raw, lists of pairs to
DIR/lists.npz, training with checkpoints in the run's folder, the graph to the model's folder. With DIR/lists.npz in
place nothing is read from a network.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import torch

import fetch
import lists
import student
import train

HERE = pathlib.Path(__file__).resolve().parent
TEACHER = HERE.parent / "ms-marco-MiniLM-L-12-v2"
MODEL = HERE.parent / "memory-rerank-small"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder of the data, made if it is not there")
    parser.add_argument("--run", type=pathlib.Path, help="folder of checkpoints and the log; default DIR/run")
    parser.add_argument("--repositories", type=pathlib.Path, help="folder with clones of the sources")
    parser.add_argument("--share", type=float, default=1.0, help="of the memories, to make lists from")
    parser.add_argument("--only", choices=("data",), help="stop after this step")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1, help="of the student on a CPU; the teacher has one more")
    parser.add_argument("--layers", default="0,3,6,9", help="the teacher's layers that the student begins with")
    parser.add_argument("--inner", type=int, default=768, help="neurons of a layer's feed-forward part; the teacher: 1536")
    parser.add_argument("--start", help="folder of a trained model to go on from, instead of --layers and --inner")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--minutes", type=float, help="train so long instead of --steps")
    parser.add_argument("--batch", type=int, help="lists a step")
    parser.add_argument("--part", type=int, help="tokens that run together; fewer need less memory")
    parser.add_argument("--rate", type=float, help="peak learning rate")
    parser.add_argument("--passes", type=int, help="how often a list is used with what the teacher said of it")
    parser.add_argument("--validated", type=int, help="held lists that are looked at for every report")
    parser.add_argument("--until", type=int, help="stop at this step; the next call goes on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, default=MODEL, help="folder of the finished model")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    given.data.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(given.threads)
    if not (given.data / "lists.npz").exists():
        fetch.fetch(given.data, given.repositories)
        lists.build(given.data, TEACHER / "tokenizer.json", given.share)
    if given.only == "data":
        return 0
    chosen = train.defaults(given.device)
    chosen |= {name: getattr(given, name) for name in chosen if getattr(given, name, None) is not None}
    layers = [int(layer) for layer in given.layers.split(",")]
    chosen |= {"device": given.device, "seed": given.seed, "minutes": given.minutes, "start": given.start}
    options = train.Options(layers, given.inner, **chosen)
    print(json.dumps(options.__dict__))
    trainer = train.Trainer(given.data, given.run or given.data / "run", TEACHER / "model.onnx", options)
    trainer.run(given.until)
    graph = student.onnx_file(trainer.model.cpu().eval(), trainer.inputs())
    student.write_folder(given.output, graph, TEACHER / "tokenizer.json", HERE / "folder")
    return 0


if __name__ == "__main__":
    sys.exit(main())
