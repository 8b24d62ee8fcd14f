#!/usr/bin/env python3
"""Makes the tiny models that the tests of the model server load: one of each shape that models of others have.

usage: shapes.py [--check]     writes ../crates/model_server/tests/models, or compares it with what would be written

The weights mean nothing; they are numbers from a formula, so that two runs give the same bytes. `answers.json` has what
each model gives for some texts, computed here without ONNX: tokens by the `tokenizers` package, the rest by NumPy.
Packages: requirements.txt.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import safetensors.numpy
from onnx import TensorProto, helper
from tokenizers import Tokenizer

from graph import Graph
from shape_tokenizers import byte_level, unigram, wordpiece

TARGET = pathlib.Path(__file__).resolve().parent.parent / "crates/model_server/tests/models"
WIDTH = 8
OPSET = 20
IR_VERSION = 9
TEXTS = (
    "Where does she work?",
    "She works in Berlin.",
    "The rent doubled last spring; the cat sleeps on the mat.",
    "a",
)


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Numbers between -1 and 1 that look random."""
    mixed = (np.arange(math.prod(shape), dtype=np.uint64) + np.uint64(seed * 1_000_003)) * np.uint64(2_654_435_761)
    return ((mixed >> np.uint64(7)) % np.uint64(2001)).astype(np.float32).reshape(shape) / np.float32(
        1000
    ) - np.float32(1)


# Graphs


@dataclasses.dataclass
class Shape:
    """A tiny encoder: each token's vector is mixed with the mean of all that are not masked.

    positions: rows of the table of positions, 0 for an encoder that computes them. inputs: in the graph's order.
    outputs: what the graph returns, in its order. classes: of the classification head.
    """

    tokenizer: Tokenizer
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    outputs: tuple[str, ...] = ("last_hidden_state",)
    positions: int = 0
    pad: int = 0
    classes: int = 1
    seed: int = 1

    def weights(self) -> dict[str, np.ndarray]:
        return {
            "words": numbers(self.seed, self.tokenizer.get_vocab_size(), WIDTH),
            "segments": numbers(self.seed + 1, 2, WIDTH),
            "positions": numbers(self.seed + 2, max(self.positions, 1), WIDTH),
            "frequencies": numbers(self.seed + 3, WIDTH),
            "mix": numbers(self.seed + 4, WIDTH, WIDTH),
            "classifier": numbers(self.seed + 5, WIDTH, self.classes),
        }

    def graph(self) -> onnx.ModelProto:
        g = Graph()
        weights = self.weights()

        def const(name: str) -> str:
            return g.const(name, weights[name])

        x = g.op("Gather", const("words"), "input_ids", axis=0)
        if "token_type_ids" in self.inputs:
            x = g.op("Add", x, g.op("Gather", const("segments"), "token_type_ids", axis=0))
        length = g.op("Squeeze", g.op("Shape", "input_ids", start=1, end=2))
        index = g.op("Range", g.const("zero", 0, np.int64), length, g.const("step", 1, np.int64))
        if self.positions:
            x = g.op("Add", x, g.op("Gather", const("positions"), index, axis=0))
        else:
            angle = g.op(
                "Mul", g.op("Unsqueeze", g.op("Cast", index, to=TensorProto.FLOAT), g.ints(1)), const("frequencies")
            )
            x = g.op("Add", x, g.op("Cos", angle))
        mask = "attention_mask"
        if mask not in self.inputs:
            mask = g.op("Not", g.op("Equal", "input_ids", g.const("pad", self.pad, np.int64)))
        mask = g.op("Unsqueeze", g.op("Cast", mask, to=TensorProto.FLOAT), g.ints(2))

        def mean(rows: str) -> str:
            total = g.op("ReduceSum", g.op("Mul", rows, mask), g.ints(1), keepdims=1)
            return g.op("Div", total, g.op("ReduceSum", mask, g.ints(1), keepdims=1))

        x = g.op("Tanh", g.op("MatMul", g.op("Add", x, mean(x)), const("mix")))
        first = g.op("Gather", x, g.const("first", 0, np.int64), axis=1)
        results = {
            "last_hidden_state": (x, ["batch", "sequence", WIDTH]),
            "token_embeddings": (x, ["batch", "sequence", WIDTH]),
            "sentence_embedding": (g.op("Squeeze", mean(x), g.ints(1)), ["batch", WIDTH]),
            "logits": (g.op("MatMul", first, const("classifier")), ["batch", self.classes]),
        }
        for name in self.outputs:
            g.nodes.append(helper.make_node("Identity", [results[name][0]], [name]))
        needed = set(self.outputs)
        nodes = []
        for node in reversed(g.nodes):
            if needed & set(node.output):
                nodes.append(node)
                needed |= set(node.input)
        model = helper.make_model(
            helper.make_graph(
                nodes[::-1],
                "tiny",
                [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in self.inputs],
                [helper.make_tensor_value_info(name, TensorProto.FLOAT, results[name][1]) for name in self.outputs],
                [tensor for name, tensor in g.constants.items() if name in needed],
            ),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        onnx.checker.check_model(model, full_check=True)
        return model

    def compute(self, ids: list[int], segments: list[int]) -> dict[str, np.ndarray]:
        """What the graph returns for one sequence."""
        w = {name: value.astype(np.float64) for name, value in self.weights().items()}
        x = w["words"][ids]
        if "token_type_ids" in self.inputs:
            x = x + w["segments"][segments]
        index = np.arange(len(ids))
        x = x + (w["positions"][index] if self.positions else np.cos(index[:, None] * w["frequencies"]))
        x = np.tanh((x + x.mean(axis=0)) @ w["mix"])
        return {"tokens": x, "sentence_embedding": x.mean(axis=0), "logits": x[0] @ w["classifier"]}


# Layers after the graph


DENSE, LAST, SCALE, SHIFT = numbers(31, WIDTH, WIDTH), numbers(32, 1, WIDTH), numbers(33, WIDTH), numbers(34, WIDTH)
BIAS = np.array([0.25], np.float32)


def write_head(folder: pathlib.Path) -> None:
    """The files of the layers that a reranker of the Ettin family ends in."""
    place = "torch.nn.modules"
    layers = {
        "2_Dense": (
            {
                "in_features": WIDTH,
                "out_features": WIDTH,
                "bias": False,
                "activation_function": f"{place}.activation.GELU",
            },
            {"linear.weight": DENSE},
        ),
        "3_LayerNorm": ({"dimension": WIDTH}, {"norm.weight": SCALE, "norm.bias": SHIFT}),
        "4_Dense": (
            {"in_features": WIDTH, "out_features": 1, "bias": True, "activation_function": f"{place}.linear.Identity"},
            {"linear.weight": LAST, "linear.bias": BIAS},
        ),
    }
    for name, (config, tensors) in layers.items():
        write_json(folder / name / "config.json", config)
        safetensors.numpy.save_file(tensors, folder / name / "model.safetensors")


def head(vector: np.ndarray) -> np.ndarray:
    """What these layers make of a vector."""
    x = DENSE.astype(np.float64) @ vector
    x = 0.5 * x * (1 + np.array([math.erf(value / math.sqrt(2)) for value in x]))
    x = (x - x.mean()) / np.sqrt(x.var() + 1e-5) * SCALE + SHIFT
    return LAST.astype(np.float64) @ x + BIAS


# Files


def write_json(path: pathlib.Path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_graph(path: pathlib.Path, model: onnx.ModelProto, external: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if external:
        onnx.save_model(model, path, save_as_external_data=True, location=f"{path.name}_data", size_threshold=128)
    else:
        path.write_bytes(model.SerializeToString(deterministic=True))


def write_tokenizer(folder: pathlib.Path, tokenizer: Tokenizer) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text + "\n", encoding="utf-8")


def modules(*names: str) -> list[dict]:
    return [
        {
            "idx": number,
            "name": str(number),
            "path": "" if name == "Transformer" else f"{number}_{name}",
            "type": f"sentence_transformers.models.{name}",
        }
        for number, name in enumerate(names)
    ]


class Answers:
    """Rows that a model gives, alone, unpadded."""

    def __init__(self) -> None:
        self.models: dict[str, list[dict]] = {}

    def add(self, name: str, shape: Shape, max_tokens: int, prefixes: tuple[str, str], texts: tuple, row) -> None:
        """texts: a text and its purpose, or a query and a document; each (text, how often)."""
        purpose = texts[1] if isinstance(texts[1], str) else None
        shape.tokenizer.enable_truncation(max_tokens)
        if purpose:
            encoding = shape.tokenizer.encode(prefixes[purpose == "document"] + texts[0])
            entry = {"text": texts[0], "purpose": purpose}
        else:
            (query, times), (document, more) = texts
            encoding = shape.tokenizer.encode(prefixes[0] + query * times, prefixes[1] + document * more)
            entry = {"query": [query, times], "document": [document, more]}
        shape.tokenizer.no_truncation()
        values = row(shape.compute(encoding.ids, encoding.type_ids))
        entry |= {"tokens": len(encoding.ids), "row": [round(float(value), 7) for value in values]}
        self.models.setdefault(name, []).append(entry)

    def embedder(self, name: str, shape: Shape, max_tokens: int, prefixes: tuple[str, str], row) -> None:
        for purpose in ("query", "document"):
            for text in TEXTS:
                self.add(name, shape, max_tokens, prefixes, (text, purpose), lambda result: unit(row(result)))

    def reranker(self, name: str, shape: Shape, max_tokens: int, prefixes: tuple[str, str], row) -> None:
        for document in TEXTS[1:]:
            self.add(name, shape, max_tokens, prefixes, ((TEXTS[0], 1), (document, 1)), row)
        self.add(name, shape, max_tokens, prefixes, ((TEXTS[0], 1), ("The cat sleeps on a mat. ", max_tokens)), row)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def write(target: pathlib.Path) -> None:
    answers = Answers()

    # Its own config.json; no token_type_ids; the inputs in another order.
    name = "bert-reranker"
    shape = Shape(wordpiece(), inputs=("attention_mask", "input_ids"), outputs=("logits",), positions=128)
    prefixes = ("query: ", "passage: ")
    write_tokenizer(target / name, shape.tokenizer)
    write_graph(target / name / "model.onnx", shape.graph())
    write_json(
        target / name / "config.json",
        {
            "name": name,
            "kind": "reranker",
            "query_prefix": prefixes[0],
            "document_prefix": prefixes[1],
            "max_tokens": 128,
        },
    )
    answers.reranker(name, shape, 128, prefixes, lambda result: result["logits"])

    # As the rerankers of the Ettin family are published: a bare ModernBERT, its head in files beside it. One field is
    # added: as many tokens as the model can take.
    name = "modernbert-reranker"
    shape = Shape(byte_level(), seed=11)
    folder = target / name
    write_tokenizer(folder, shape.tokenizer)
    write_graph(folder / "onnx/model.onnx", shape.graph())
    write_json(
        folder / "config.json",
        {
            "architectures": ["ModernBertModel"],
            "model_type": "modernbert",
            "max_position_embeddings": 8192,
            "hidden_size": WIDTH,
            "pad_token_id": shape.tokenizer.token_to_id("[PAD]"),
            "max_tokens": 8192,
        },
    )
    write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1000000000000000019884624838656},
    )
    write_json(
        folder / "config_sentence_transformers.json",
        {"model_type": "CrossEncoder", "prompts": {}, "default_prompt_name": None},
    )
    write_json(folder / "modules.json", modules("Transformer", "Pooling", "Dense", "LayerNorm", "Dense"))
    write_json(
        folder / "1_Pooling/config.json", {"embedding_dimension": WIDTH, "pooling_mode": "cls", "include_prompt": True}
    )
    write_head(folder)
    answers.reranker(name, shape, 8192, ("", ""), lambda result: head(result["tokens"][0]))

    # A reranker whose head is given the mean of all tokens.
    name = "mean-reranker"
    shape = Shape(wordpiece(), positions=128, seed=61)
    folder = target / name
    write_tokenizer(folder, shape.tokenizer)
    write_graph(folder / "model.onnx", shape.graph())
    write_json(folder / "config.json", {"kind": "reranker", "max_tokens": 128})
    write_json(folder / "modules.json", modules("Transformer", "Pooling", "Dense", "LayerNorm", "Dense"))
    write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True})
    write_head(folder)
    answers.reranker(name, shape, 128, ("", ""), lambda result: head(result["tokens"].mean(axis=0)))

    # As the embedders of the E5 family are published: mean pooling, prompts, positions from 2 on.
    name = "mean-embedder"
    shape = Shape(unigram(), positions=512, seed=21)
    folder = target / name
    write_tokenizer(folder, shape.tokenizer)
    write_graph(folder / "onnx/model.onnx", shape.graph())
    write_json(
        folder / "config.json",
        {
            "architectures": ["XLMRobertaModel"],
            "model_type": "xlm-roberta",
            "max_position_embeddings": 514,
            "pad_token_id": 1,
        },
    )
    write_json(folder / "config_sentence_transformers.json", {"prompts": {"query": "query: ", "passage": "passage: "}})
    write_json(folder / "modules.json", modules("Transformer", "Pooling", "Normalize"))
    write_json(
        folder / "1_Pooling/config.json",
        {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True},
    )
    answers.embedder(name, shape, 512, ("query: ", "passage: "), lambda result: result["tokens"].mean(axis=0))

    # Its own config.json, whose pooling wins over the one in the graph; weights in a file of their own.
    name = "cls-embedder"
    inputs = ("input_ids", "token_type_ids", "attention_mask")
    shape = Shape(wordpiece(), inputs, ("sentence_embedding", "token_embeddings"), positions=256, seed=41)
    folder = target / name
    write_tokenizer(folder, shape.tokenizer)
    write_graph(folder / "model.onnx", shape.graph(), external=True)
    write_json(
        folder / "config.json",
        {
            "name": name,
            "kind": "embedder",
            "dimension": WIDTH,
            "pooling": "cls",
            "query_prefix": "query: ",
            "max_tokens": 256,
        },
    )
    answers.embedder(name, shape, 256, ("query: ", ""), lambda result: result["tokens"][0])

    # The graph pools by itself, and masks what has the id of padding. A blank belongs to the word after it, also the one
    # at the end of a prefix.
    name = "pooling-embedder"
    tokenizer = byte_level()
    outputs = ("last_hidden_state", "sentence_embedding")
    shape = Shape(tokenizer, ("input_ids",), outputs, pad=tokenizer.token_to_id("[PAD]"), seed=51)
    folder = target / name
    write_tokenizer(folder, shape.tokenizer)
    write_graph(folder / "model.onnx", shape.graph())
    prefixes = ("query: ", "passage: ")
    config = {"kind": "embedder", "query_prefix": prefixes[0], "document_prefix": prefixes[1], "max_tokens": 512}
    write_json(folder / "config.json", config)
    answers.embedder(name, shape, 512, prefixes, lambda result: result["sentence_embedding"])

    # Graphs that are refused.
    write_graph(target / "refused/two-classes.onnx", Shape(wordpiece(), outputs=("logits",), classes=2).graph())
    strange = Shape(wordpiece(), inputs=("input_ids", "attention_mask"), outputs=("logits",)).graph()
    strange.graph.input[1].type.tensor_type.elem_type = TensorProto.INT32
    strange.graph.input.append(helper.make_tensor_value_info("task_id", TensorProto.INT64, ["batch"]))
    write_graph(target / "refused/strange-inputs.onnx", strange)

    write_json(target / "answers.json", answers.models)
    check(target, "bert-reranker", "model.onnx")


def check(target: pathlib.Path, name: str, graph: str) -> None:
    """Runs a graph on one sequence, so that a mistake in it shows here and not in the tests."""
    session = onnxruntime.InferenceSession(target / name / graph)
    first = json.loads((target / "answers.json").read_text())[name][0]
    tokenizer = Tokenizer.from_file(str(target / name / "tokenizer.json"))
    ids = tokenizer.encode("query: " + first["query"][0], "passage: " + first["document"][0]).ids
    [logits] = session.run(None, {"input_ids": [ids], "attention_mask": [[1] * len(ids)]})
    if abs(logits[0][0] - first["row"][0]) > 1e-4:
        sys.exit(f"{name} gives {logits[0][0]}, not {first['row'][0]}")


def files(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        made = pathlib.Path(place) / "models"
        write(made)
        if options.check:
            sys.exit(0 if files(made) == files(TARGET) else "the models differ from what shapes.py makes")
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(made, TARGET)


if __name__ == "__main__":
    main()
