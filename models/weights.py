"""Weights of a BERT encoder, read from a published file into one form.

Two readers: an ONNX file that was quantised dynamically (int8 matrices, uint8 embedding tables) and a safetensors file
with float32 weights. `graph.py` writes the runnable model from what they return.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
from onnx import numpy_helper
from safetensors.numpy import load as load_safetensors

# A CPU without VNNI multiplies uint8 by int8 with an instruction that adds two products in 16 bits and saturates.
# 255 * 64 * 2 = 32640 still fits, so weights within +-64 give the same integers on every CPU.
WEIGHT_LIMIT = 64
# Numbers that share a scale in a BlockTable.
BLOCK = 32
# Of the mean of the diagonal, added to it in quantize_for.
DAMPING = 0.01

MATRICES = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


@dataclasses.dataclass
class Linear:
    """y = x @ (weight * scale) + bias; weight int8 [inputs, outputs], scale and bias float32 [outputs]."""

    weight: np.ndarray
    scale: np.ndarray
    bias: np.ndarray

    def dequantized(self) -> np.ndarray:
        return self.weight.astype(np.float32) * self.scale


@dataclasses.dataclass
class Table:
    """An embedding table: row = (rows - zero_point) * scale; rows uint8 [entries, width]."""

    rows: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray


@dataclasses.dataclass
class BlockTable:
    """An embedding table of 4 bits: rows int4 [entries, width], a float16 scale for every BLOCK numbers of a row."""

    rows: np.ndarray
    scales: np.ndarray


@dataclasses.dataclass
class Norm:
    """Gain and shift of a layer normalisation, float32 [width]."""

    weight: np.ndarray
    bias: np.ndarray


@dataclasses.dataclass
class Layer:
    query: Linear
    key: Linear
    value: Linear
    attention_output: Linear
    intermediate: Linear
    output: Linear
    attention_norm: Norm
    output_norm: Norm


@dataclasses.dataclass
class Bert:
    """An encoder and, for a cross-encoder, its head: (pooler, classifier) as (weight [in, out], bias [out])."""

    word: Table | BlockTable
    position: Table
    token_type: Table
    norm: Norm
    layers: list[Layer]
    heads: int
    head: list[tuple[np.ndarray, np.ndarray]] | None = None


def quantize_linear(weight: np.ndarray, bias: np.ndarray) -> Linear:
    """Symmetric int8 per output column; weight float32 [inputs, outputs]."""
    scale = np.maximum(np.abs(weight).max(axis=0), np.finfo(np.float32).tiny) / WEIGHT_LIMIT
    return Linear(np.rint(weight / scale).astype(np.int8), scale.astype(np.float32), bias)


def quantize_for(inputs: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> Linear:
    """As quantize_linear, but what rounding one row of the weights adds is taken back in the rows after it (GPTQ).

    inputs: the sum over many inputs of x^T x, float64 [inputs, inputs]. Fine-tuning moves many weights by less than a
    step; rounded each by itself they would mostly move back.
    """
    scale = quantize_linear(weight, bias).scale
    count = len(inputs)
    damped = inputs + np.eye(count) * DAMPING * np.trace(inputs) / count
    factor = np.linalg.cholesky(np.linalg.inv(damped)).T
    left = weight.astype(np.float64)
    rounded = np.empty(weight.shape, np.int8)
    for row in range(count):
        rounded[row] = np.clip(np.rint(left[row] / scale), -WEIGHT_LIMIT, WEIGHT_LIMIT)
        error = (left[row] - rounded[row] * scale.astype(np.float64)) / factor[row, row]
        left[row + 1 :] -= np.outer(factor[row, row + 1 :], error)
    return Linear(rounded, scale, bias)


def limit_range(weight: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> Linear:
    """Brings int8 columns that exceed WEIGHT_LIMIT within it. The other columns stay bit for bit as published."""
    scale = np.broadcast_to(scale, weight.shape[1]).astype(np.float32)
    factor = np.maximum(np.abs(weight.astype(np.int32)).max(axis=0) / WEIGHT_LIMIT, 1).astype(np.float32)
    return Linear(np.rint(weight / factor).astype(np.int8), scale * factor, bias)


def quantize_table(table: np.ndarray) -> Table:
    """Affine uint8 with one scale for the table, the form the quantised ONNX files have."""
    low, high = min(float(table.min()), 0.0), max(float(table.max()), 0.0)
    scale = np.float32((high - low) / 255)
    zero_point = np.uint8(np.rint(-low / scale))
    rows = np.clip(np.rint(table / scale) + zero_point, 0, 255).astype(np.uint8)
    return Table(rows, np.array(scale), np.array(zero_point))


def read_quantized_onnx(model: bytes, heads: int) -> Bert:
    """Reads a dynamically quantised BERT.

    model: the file's bytes. heads: attention heads (the file does not say). Matrices have machine-made names there, so
    they are taken in the order of execution, which is that of MATRICES in every layer, and each shape is checked.
    Raises ValueError if the file is not such a model.
    """
    graph = onnx.load_from_string(model).graph
    tensors = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    prefix = "bert." if "bert.embeddings.LayerNorm.weight" in tensors else ""
    matrices = [n.input[1].removesuffix("_quantized") for n in graph.node if n.op_type == "MatMulInteger"]
    layer_count = len(matrices) // len(MATRICES)

    def table(name: str) -> Table:
        base = f"{prefix}embeddings.{name}_embeddings.weight"
        return Table(
            tensors[f"{base}_quantized"],
            tensors[f"{base}_scale"].reshape(()),
            tensors[f"{base}_zero_point"].reshape(()),
        )

    def norm(name: str) -> Norm:
        return Norm(tensors[f"{prefix}{name}.weight"], tensors[f"{prefix}{name}.bias"])

    def matrix(base: str) -> tuple[np.ndarray, np.ndarray]:
        if np.any(tensors[f"{base}_zero_point"]):
            raise ValueError(f"{base}: weights are not symmetric")
        return tensors[f"{base}_quantized"], tensors[f"{base}_scale"]

    def layer(index: int) -> Layer:
        base = f"encoder.layer.{index}."
        linears = []
        for name, source in zip(MATRICES, matrices[index * len(MATRICES) :]):
            weight, scale = matrix(source)
            bias = tensors[f"{prefix}{base}{name}.bias"]
            if weight.shape[1:] != bias.shape:
                raise ValueError(f"{source} {weight.shape} is not {base}{name} {bias.shape}")
            linears.append(limit_range(weight, scale, bias))
        return Layer(*linears, norm(f"{base}attention.output.LayerNorm"), norm(f"{base}output.LayerNorm"))

    def dense(base: str) -> tuple[np.ndarray, np.ndarray]:
        weight, scale = matrix(f"{base}.weight")
        return weight.astype(np.float32) * scale, tensors[f"{base}.bias"]

    head = [dense("bert.pooler.dense"), dense("classifier")] if "classifier.bias" in tensors else None
    if len(matrices) != layer_count * len(MATRICES) + (2 if head else 0):
        raise ValueError(f"{len(matrices)} matrices do not make whole layers")
    return Bert(
        table("word"),
        table("position"),
        table("token_type"),
        norm("embeddings.LayerNorm"),
        [layer(i) for i in range(layer_count)],
        heads,
        head,
    )


def read_safetensors(model: bytes, heads: int) -> Bert:
    """Reads float32 BERT encoder weights and quantises them; model: the file's bytes, heads: attention heads."""
    tensors = load_safetensors(model)
    layer_count = 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layer."))

    def norm(name: str) -> Norm:
        return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    def layer(index: int) -> Layer:
        base = f"encoder.layer.{index}."
        linears = [
            # The file keeps [outputs, inputs].
            quantize_linear(tensors[f"{base}{name}.weight"].T, tensors[f"{base}{name}.bias"])
            for name in MATRICES
        ]
        return Layer(*linears, norm(f"{base}attention.output.LayerNorm"), norm(f"{base}output.LayerNorm"))

    return Bert(
        *(quantize_table(tensors[f"embeddings.{name}_embeddings.weight"]) for name in ("word", "position", "token_type")),
        norm("embeddings.LayerNorm"),
        [layer(i) for i in range(layer_count)],
        heads,
    )
