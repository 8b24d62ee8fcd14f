"""The teacher: logits and normalised hidden states of pairs, from PyTorch in bfloat16 or from the shipped graph.

A GPU, and a CPU with AMX, compute bfloat16 products at least as fast as ONNX Runtime does int8 ones. On other CPUs the
graph is several times as fast.
"""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import torch
from torch import Tensor
from torch.nn import functional

import student


def normalised(hidden: Tensor) -> Tensor:
    return functional.layer_norm(hidden, hidden.shape[-1:])


class InTorch:
    """The float model of the graph's weights."""

    def __init__(self, graph: pathlib.Path, layers: list[int], device: str) -> None:
        self.layers = layers
        self.model = student.read_shipped(graph).eval().requires_grad_(False).to(device, torch.bfloat16)

    def __call__(self, ids: Tensor, types: Tensor, real: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logits [batch], and of each layer [batch, length, width]; of the last one only the first token's."""
        with torch.no_grad():
            logits, hidden = self.model(ids, types, real)
            return logits.float(), [normalised(hidden[layer]) for layer in self.layers]


class InRuntime:
    """The shipped graph with the wanted layers as further outputs, on one thread."""

    def __init__(self, graph: pathlib.Path, layers: list[int]) -> None:
        import onnxruntime

        model = onnx.load(str(graph))
        scales = [f"layer.{layer}.output_norm.weight" for layer in layers]
        output_of = {name: node.output[0] for node in model.graph.node for name in node.input}
        for name in (output_of[scale] for scale in scales):
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, ids: Tensor, types: Tensor, real: Tensor) -> tuple[Tensor, list[Tensor]]:
        feed = {"input_ids": ids.numpy(), "token_type_ids": types.numpy(), "attention_mask": real.long().numpy()}
        logits, *hidden = (torch.from_numpy(np.asarray(found)) for found in self.session.run(None, feed))
        by_token = (rows.view(len(ids), -1, rows.shape[-1]) for rows in hidden)
        return logits[:, 0], [normalised(rows).to(torch.bfloat16) for rows in by_token]


def teacher(graph: pathlib.Path, layers: list[int], device: str) -> InTorch | InRuntime:
    in_torch = device != "cpu" or torch.cpu._is_amx_tile_supported()
    return InTorch(graph, layers, device) if in_torch else InRuntime(graph, layers)
