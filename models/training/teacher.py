"""The teacher: logits and normalised hidden states of pairs, from the shipped graph on a CPU, from PyTorch on a GPU.

On a CPU ONNX Runtime computes its int8 products several times as fast as PyTorch does the same layers in floats.
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
    return functional.layer_norm(hidden.float(), hidden.shape[-1:])


class InTorch:
    """The float model of the graph's weights."""

    def __init__(self, graph: pathlib.Path, layers: list[int], device: str) -> None:
        self.layers, self.device = layers, device
        self.model = student.read_shipped(graph).eval().requires_grad_(False).to(device)

    def __call__(self, ids: Tensor, types: Tensor, real: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logits [batch], and of each layer [batch, length, width]; of the last one only the first token's."""
        half = torch.float16 if self.device == "cuda" else torch.bfloat16
        with torch.no_grad(), torch.autocast(self.device, dtype=half):
            logits, hidden = self.model(ids, types, real)
        return logits.float(), [normalised(hidden[layer]).to(torch.bfloat16) for layer in self.layers]


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
    return InRuntime(graph, layers) if device == "cpu" else InTorch(graph, layers, device)


def logits_only(graph: pathlib.Path) -> InTorch | InRuntime:
    """For a CPU, without hidden states: one with AMX computes bfloat16 twice as fast as the int8 graph."""
    return InTorch(graph, [], "cpu") if torch.cpu._is_amx_tile_supported() else InRuntime(graph, [])
