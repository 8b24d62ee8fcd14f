#!/usr/bin/env python3
"""Makes the tiny embedder of the shape that multilingual.py makes, for a test of the model server.

usage: shapes_multilingual.py [--check]     writes ../crates/model_server/tests/four_bits, or compares it

The weights mean nothing, as in shapes.py; the code is that of multilingual.py. answers.json has what the weights give in
floats, which the graph's int8 products come near to.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile

import numpy as np

import graph
import multilingual
import shapes
import weights

TARGET = shapes.TARGET.parent / "four_bits"
NAME = "four-bits"
WIDTH, HEADS, INNER, LAYERS, POSITIONS = 32, 2, 64, 2, 128


def blocks(seed: int, count: int) -> bytes:
    """So many 4-bit numbers."""
    packed = np.zeros(count // weights.BLOCK, multilingual.BLOCK)
    packed["scale"] = np.abs(shapes.numbers(seed, len(packed))) / 16 + 1 / 64
    packed["pairs"] = (shapes.numbers(seed + 1, *packed["pairs"].shape) + 1) * 127
    return packed.tobytes()


def packed(pieces: list[str]) -> multilingual.Packed:
    tensors = {"emb.word": blocks(1, len(pieces) * WIDTH)}

    def add(name: str, *shape: int, around: float = 0.0) -> None:
        tensors[name] = (shapes.numbers(len(tensors), *shape) / 4 + np.float32(around)).tobytes()

    def norm(name: str) -> None:
        add(f"{name}.w", WIDTH, around=1)
        add(f"{name}.b", WIDTH)

    add("emb.pos", POSITIONS, WIDTH)
    add("emb.type", 2, WIDTH)
    norm("emb.ln")
    sizes = {"fi": (INNER, WIDTH), "fo": (WIDTH, INNER)}
    for layer in range(LAYERS):
        for part in multilingual.MATRICES:
            outputs, inputs = sizes.get(part, (WIDTH, WIDTH))
            tensors[f"l{layer}.{part}.w"] = blocks(len(tensors), outputs * inputs)
            add(f"l{layer}.{part}.b", outputs)
        norm(f"l{layer}.aln")
        norm(f"l{layer}.oln")
    return multilingual.Packed(WIDTH, LAYERS, HEADS, len(pieces), pieces, tensors)


def write(target: pathlib.Path) -> None:
    tokenizer = shapes.unigram()
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    published = packed(pieces)
    reference = multilingual.Reference(published)
    mean = np.mean([reference.embed(tokenizer.encode(piece).ids) for piece in pieces[4:]], axis=0)
    bert = published.bert()
    multilingual.centre(bert, mean)
    shapes.write_tokenizer(target, tokenizer)
    (target / "model.onnx").write_bytes(graph.build(bert, first_token_only=False))
    config = {**multilingual.config(NAME), "dimension": WIDTH, "max_tokens": POSITIONS}
    shapes.write_json(target / "config.json", config)
    answers = []
    for prefix, purpose in zip(multilingual.PREFIXES, ("query", "document")):
        for text in shapes.TEXTS:
            row = shapes.unit(reference.embed(tokenizer.encode(prefix + text).ids) - mean)
            answers.append({"purpose": purpose, "text": text, "row": [round(float(value), 4) for value in row]})
    shapes.write_json(target / "answers.json", answers)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        made = TARGET if "--check" not in sys.argv else pathlib.Path(place)
        write(made)
        if shapes.files(made) != shapes.files(TARGET):
            sys.exit("the model differs from what shapes_multilingual.py makes")


if __name__ == "__main__":
    main()
