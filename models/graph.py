"""Writes a BERT encoder as an ONNX graph for the CPU.

What it does differently from an exported and quantised graph, and why:

* Activations are quantised per token, not per tensor. A token's result then does not depend on the other texts of the
  batch or on padding, and one outlier token does not coarsen all others.
* In the last layer, where only the first token is read (CLS pooling, cross-encoder), only that token is computed after
  the attention's keys and values.
* The residual addition is `Sum`: `Add` before a layer normalisation is fused by ONNX Runtime into
  SkipLayerNormalization, which takes several times as long on the CPU.
* Two biases vanish: the key's adds one constant to all scores of a query, which softmax ignores; the value's passes
  through the attention unchanged (its weights sum to 1) and is added to the bias of the output projection.

Rows of the hidden state are kept as one matrix [batch * sequence, width].
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from weights import BLOCK, Bert, BlockTable, Layer, Linear, Norm, Table

CONTRIB = "com.microsoft"
OPSET = 20
IR_VERSION = 9
LAYER_NORM_EPSILON = 1e-12
# Added to the score of a masked key. exp(-1e4) is exactly 0 in float32, and the sum stays finite.
MASKED = 1e4
# The greatest depth of the GELU below zero is 0.17.
GELU_DEPTH = 0.17
SIGNED_LEVELS = 127
UNSIGNED_ZERO = 128


class Graph:
    """Nodes and constants in order of creation, so that the same calls give the same bytes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def const(self, name: str, value, dtype=None) -> str:
        if name not in self.constants:
            array = np.asarray(value, dtype=dtype, order="C")
            self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def ints(self, *values: int) -> str:
        return self.const("ints_" + "_".join(map(str, values)), values, np.int64)

    def float(self, name: str, value: float) -> str:
        return self.const(name, value, np.float32)

    def op(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes):
        base = f"{kind}_{len(self.nodes)}"
        names = [base] if outputs == 1 else [f"{base}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names


class Encoder:
    """Emits the encoder's parts. `rows` names below are tensors [rows, width]."""

    def __init__(self, bert: Bert) -> None:
        self.bert = bert
        self.g = Graph()
        self.width = bert.norm.weight.shape[0]
        self.head_width = self.width // bert.heads
        g = self.g
        self.batch = g.op("Shape", "input_ids", start=0, end=1)
        self.sequence = g.op("Shape", "input_ids", start=1, end=2)
        self.tokens = g.op("Mul", self.batch, self.sequence)
        self.batch_and_sequence = g.op("Concat", self.batch, self.sequence, axis=0)
        mask = g.op("Sub", g.op("Cast", "attention_mask", to=TensorProto.FLOAT), g.float("one", 1))
        self.mask = g.op("Unsqueeze", g.op("Mul", mask, g.float("masked", MASKED)), g.ints(1, 2))

    def zero_points(self, count: str) -> str:
        return self.g.op("Expand", self.g.const("unsigned_zero", UNSIGNED_ZERO, np.uint8), count)

    def table(self, name: str, table: Table, rows) -> str:
        g = self.g
        picked = rows(g.const(f"{name}.rows", table.rows))
        return g.op("DequantizeLinear", picked, g.const(f"{name}.scale", table.scale), g.const(f"{name}.zero", table.zero_point))

    def norm(self, name: str, norm: Norm, x: str) -> str:
        g = self.g
        weight, bias = g.const(f"{name}.weight", norm.weight), g.const(f"{name}.bias", norm.bias)
        return g.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=LAYER_NORM_EPSILON)

    def words(self, table: Table | BlockTable) -> str:
        g = self.g
        if isinstance(table, Table):
            return self.table("word", table, lambda t: g.op("Gather", t, "input_ids", axis=0))
        constants = (g.const("word.rows", table.rows), "input_ids", g.const("word.scales", table.scales))
        attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": BLOCK}
        return g.op("Cast", g.op("GatherBlockQuantized", *constants, domain=CONTRIB, **attributes), to=TensorProto.FLOAT)

    def embeddings(self) -> str:
        g, bert = self.g, self.bert
        word = self.words(bert.word)
        token_type = self.table("token_type", bert.token_type, lambda t: g.op("Gather", t, "token_type_ids", axis=0))
        position = self.table("position", bert.position, lambda t: g.op("Slice", t, g.ints(0), self.sequence))
        summed = g.op("Add", g.op("Add", word, token_type), position)
        return self.norm("embeddings.norm", bert.norm, g.op("Reshape", summed, g.ints(-1, self.width)))

    def quantize(self, rows: str, zero_points: str, after_gelu: bool = False) -> tuple[str, str]:
        """uint8 around 128 with one step per row: (quantised rows, step [rows, 1]).

        A row of a layer normalisation or of attention is never all zeros, so no step is zero.
        """
        g = self.g
        if after_gelu:
            greatest = g.op("ReduceMax", rows, g.ints(1), keepdims=1)
            greatest = g.op("Max", greatest, g.float("gelu_depth", GELU_DEPTH))
        else:
            greatest = g.op("ReduceMax", g.op("Abs", rows), g.ints(1), keepdims=1)
        step = g.op("Mul", greatest, g.float("level", 1 / SIGNED_LEVELS))
        return g.op("QuantizeLinear", rows, g.op("Reshape", step, g.ints(-1)), zero_points, axis=0), step

    def matmul(self, name: str, quantized: tuple[str, str], linears: list[Linear], factors=None) -> str:
        """One integer product with the matrices side by side, without bias; factors multiply the results."""
        g = self.g
        rows, step = quantized
        weight = np.concatenate([linear.weight for linear in linears], axis=1)
        factors = factors or [1.0] * len(linears)
        scale = np.concatenate([linear.scale * np.float32(factor) for linear, factor in zip(linears, factors)])
        product = g.op(
            "MatMulIntegerToFloat",
            rows,
            g.const(f"{name}.weight", weight),
            g.float("one", 1),
            g.const(f"{name}.scale", scale),
            g.const("unsigned_zero", UNSIGNED_ZERO, np.uint8),
            g.const(f"zeros_{weight.shape[1]}", np.zeros(weight.shape[1]), np.int8),
            domain=CONTRIB,
        )
        return g.op("Mul", product, step)

    def bias(self, name: str, bias: np.ndarray, rows: str) -> str:
        return self.g.op("Add", rows, self.g.const(f"{name}.bias", bias, np.float32))

    def by_head(self, rows: str, shape: str, perm: list[int]) -> str:
        return self.g.op("Transpose", self.g.op("Reshape", rows, shape), perm=perm)

    def layer(
        self, index: int, layer: Layer, x: str, zero_points: str, first_token_only: bool, any_padding: bool
    ) -> str:
        g, name = self.g, f"layer.{index}"
        heads = self.g.ints(self.bert.heads, self.head_width)
        shape = query_shape = g.op("Concat", self.batch_and_sequence, heads, axis=0)
        attention_scale = 1 / np.sqrt(self.head_width)
        quantized = self.quantize(x, zero_points)
        if first_token_only:
            key_value = self.matmul(f"{name}.key_value", quantized, [layer.key, layer.value])
            key, value = g.op("Split", key_value, outputs=2, axis=1, num_outputs=2)
            width = g.op("Concat", self.batch_and_sequence, g.ints(self.width), axis=0)
            first = g.op("Gather", g.op("Reshape", x, width), g.ints(0), axis=1)
            x = g.op("Reshape", first, g.ints(-1, self.width))
            zero_points = self.zero_points(self.batch)
            query = self.matmul(f"{name}.query", self.quantize(x, zero_points), [layer.query], [attention_scale])
            query_shape = g.op("Concat", self.batch, g.ints(1), heads, axis=0)
        else:
            qkv = self.matmul(
                f"{name}.query_key_value", quantized, [layer.query, layer.key, layer.value], [attention_scale, 1, 1]
            )
            query, key, value = g.op("Split", qkv, outputs=3, axis=1, num_outputs=3)
        query = self.bias(f"{name}.query", layer.query.bias * attention_scale, query)

        scores = g.op(
            "MatMul", self.by_head(query, query_shape, [0, 2, 1, 3]), self.by_head(key, shape, [0, 2, 3, 1])
        )
        weights = g.op("Softmax", g.op("Add", scores, self.mask), axis=-1)
        if first_token_only and any_padding:
            # ONNX Runtime adds up the product of a single row in another order for every length.
            weights = g.op("Concat", weights, weights, axis=2)
        context = g.op("MatMul", weights, self.by_head(value, shape, [0, 2, 1, 3]))
        if first_token_only and any_padding:
            context = g.op("Gather", context, g.ints(0), axis=2)
        context = g.op("Reshape", g.op("Transpose", context, perm=[0, 2, 1, 3]), g.ints(-1, self.width))

        projection = layer.attention_output
        projection_bias = projection.bias + layer.value.bias @ projection.dequantized()
        y = self.matmul(f"{name}.projection", self.quantize(context, zero_points), [projection])
        y = self.bias(f"{name}.projection", projection_bias, y)
        x = self.norm(f"{name}.attention_norm", layer.attention_norm, g.op("Sum", y, x))

        y = self.matmul(f"{name}.intermediate", self.quantize(x, zero_points), [layer.intermediate])
        y = g.op("Gelu", self.bias(f"{name}.intermediate", layer.intermediate.bias, y))
        y = self.matmul(f"{name}.output", self.quantize(y, zero_points, after_gelu=True), [layer.output])
        y = self.bias(f"{name}.output", layer.output.bias, y)
        return self.norm(f"{name}.output_norm", layer.output_norm, g.op("Sum", y, x))


def build(bert: Bert, first_token_only: bool, any_padding: bool = False) -> bytes:
    """The ONNX file of an encoder.

    any_padding: a sequence gives the same bits however much it is padded, not only without. The files that were built
    before this was known do not have it.

    Inputs are int64 [batch, sequence]: input_ids, attention_mask (1 = token, 0 = padding), token_type_ids.
    The output is `logits` [batch, 1] if the model has a head; else `last_hidden_state` [batch, tokens, width] with
    tokens = 1 (the first) if first_token_only, or the whole sequence for mean pooling.
    """
    encoder = Encoder(bert)
    g = encoder.g
    x = encoder.embeddings()
    zero_points = encoder.zero_points(encoder.tokens)
    last = len(bert.layers) - 1
    for index, layer in enumerate(bert.layers):
        x = encoder.layer(index, layer, x, zero_points, first_token_only and index == last, any_padding)
    if bert.head:
        (pooler, pooler_bias), (classifier, classifier_bias) = bert.head
        x = g.op("Gemm", x, g.const("pooler.weight", pooler), g.const("pooler.bias", pooler_bias))
        x = g.op("Tanh", x)
        g.op("Gemm", x, g.const("classifier.weight", classifier), g.const("classifier.bias", classifier_bias))
        name, shape = "logits", ["batch", 1]
    else:
        tokens = g.ints(1) if first_token_only else encoder.sequence
        g.op("Reshape", x, g.op("Concat", encoder.batch, tokens, g.ints(encoder.width), axis=0))
        name, shape = "last_hidden_state", ["batch", 1 if first_token_only else "sequence", encoder.width]
    g.nodes[-1].output[0] = name
    model = helper.make_model(
        helper.make_graph(
            g.nodes,
            "bert",
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
                for name in ("input_ids", "attention_mask", "token_type_ids")
            ],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
            list(g.constants.values()),
        ),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)],
        ir_version=IR_VERSION,
    )
    return model.SerializeToString(deterministic=True)
