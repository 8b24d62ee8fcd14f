"""Cross-encoder and embedder in PyTorch: read from a shipped graph, cut to a few layers, written back as weights.Bert."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import sys

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import graph
import weights

HEADS = 12
# cuDNN plans its attention anew for every shape, and almost every batch has a shape of its own.
torch.backends.cuda.enable_cudnn_sdp(False)


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Scaled dot-product attention; for a gradient on a CPU step by step: PyTorch's own needs five times as long."""
    if query.device.type != "cpu" or not torch.is_grad_enabled():
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1).to(value.dtype) @ value


class Layer(nn.Module):
    """One encoder layer. Query, key and value are one matrix."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=graph.LAYER_NORM_EPSILON)
        self.intermediate = nn.Linear(width, inner)
        self.output = nn.Linear(inner, width)
        self.output_norm = nn.LayerNorm(width, eps=graph.LAYER_NORM_EPSILON)

    def forward(self, x: Tensor, mask: Tensor, first_only: bool) -> Tensor:
        """The states of all tokens, or with `first_only` of the first one: [batch, 1, width]."""
        batch, _, width = x.shape
        weight, bias = self.query_key_value.weight, self.query_key_value.bias
        if first_only:
            joined = functional.linear(x, weight[width:], bias[width:]).split(width, dim=-1)
            x = x[:, :1]
            joined = (functional.linear(x, weight[:width], bias[:width]), *joined)
        else:
            joined = functional.linear(x, weight, bias).split(width, dim=-1)
        query, key, value = (part.unflatten(-1, (HEADS, width // HEADS)).transpose(1, 2) for part in joined)
        context = attention(query, key, value, mask)
        x = self.attention_norm(x + self.projection(context.transpose(1, 2).reshape(batch, -1, width)))
        return self.output_norm(x + self.output(functional.gelu(self.intermediate(x))))


class Encoder(nn.Module):
    """A BERT encoder. The embeddings are not trained.

    Rows of words that the training data lacks would stay behind if the others moved. With nothing to train below it,
    the first layer needs no gradient of its input either.
    """

    def __init__(self, tables: dict[str, Tensor], inner: list[int]) -> None:
        """inner: of each layer, the neurons of its feed-forward part."""
        super().__init__()
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)
        width = tables["word"].shape[1]
        self.norm = nn.LayerNorm(width, eps=graph.LAYER_NORM_EPSILON).requires_grad_(False)
        self.layers = nn.ModuleList(Layer(width, count) for count in inner)

    def states(self, ids: Tensor, types: Tensor, real: Tensor) -> list[Tensor]:
        """The hidden states [batch, length, width] after every layer.

        Of the last layer only the first token is computed, as in the graph. ids, types: [batch, length]. real: the same
        shape, true where there is a token.
        """
        x = self.word[ids] + self.position[: ids.shape[1]] + self.token_type[types]
        x = self.norm(x)
        mask = real[:, None, None, :]
        hidden = []
        for number, layer in enumerate(self.layers, 1):
            # Layers at the bottom that are not trained need no gradient.
            trained = torch.is_grad_enabled() and (x.requires_grad or layer.projection.weight.requires_grad)
            with torch.set_grad_enabled(trained):
                x = layer(x, mask, first_only=number == len(self.layers))
            hidden.append(x)
        return hidden


class CrossEncoder(Encoder):
    """A cross-encoder with one logit."""

    def __init__(self, tables: dict[str, Tensor], inner: list[int]) -> None:
        super().__init__(tables, inner)
        width = tables["word"].shape[1]
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, 1)

    def forward(self, ids: Tensor, types: Tensor, real: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logits [batch], and the hidden states."""
        hidden = self.states(ids, types, real)
        pooled = torch.tanh(self.pooler(hidden[-1][:, 0]))
        return self.classifier(pooled)[:, 0], hidden


class Embedder(Encoder):
    """An embedder whose vector is the first token's state."""

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Unit vectors [batch, width]."""
        first = self.states(ids, torch.zeros_like(ids), real)[-1][:, 0]
        return functional.normalize(first.float(), dim=-1)


def read_shipped(path: pathlib.Path) -> CrossEncoder | Embedder:
    """The float model of a graph that graph.build wrote.

    The biases that graph.py leaves out are zero here: the model computes the same.
    """
    constants = {t.name: numpy_helper.to_array(t) for t in onnx.load(str(path)).graph.initializer}

    def table(name: str) -> Tensor:
        rows = constants[f"{name}.rows"].astype(np.float32) - np.float32(constants[f"{name}.zero"])
        return torch.from_numpy(rows * constants[f"{name}.scale"])

    def matrix(name: str) -> np.ndarray:
        return constants[f"{name}.weight"].astype(np.float32) * constants[f"{name}.scale"]

    def fill(linear: nn.Linear, weight: np.ndarray, bias: np.ndarray) -> None:
        linear.weight.copy_(torch.from_numpy(weight.T.copy()))
        linear.bias.copy_(torch.from_numpy(bias.copy()))

    def fill_norm(norm: nn.LayerNorm, name: str) -> None:
        norm.weight.copy_(torch.from_numpy(constants[f"{name}.weight"].copy()))
        norm.bias.copy_(torch.from_numpy(constants[f"{name}.bias"].copy()))

    count = len({name.split(".")[1] for name in constants if name.startswith("layer.")})
    inner = [constants[f"layer.{number}.intermediate.weight"].shape[1] for number in range(count)]
    kind = CrossEncoder if "classifier.weight" in constants else Embedder
    model = kind({name: table(name) for name in ("word", "position", "token_type")}, inner)
    width = model.norm.weight.shape[0]
    scale = np.float32(np.sqrt(width // HEADS))
    with torch.no_grad():
        fill_norm(model.norm, "embeddings.norm")
        for index, layer in enumerate(model.layers):
            name = f"layer.{index}"
            if f"{name}.query_key_value.weight" in constants:
                joined = matrix(f"{name}.query_key_value")
            else:
                joined = np.concatenate([matrix(f"{name}.query"), matrix(f"{name}.key_value")], axis=1)
            joined[:, :width] *= scale
            bias = np.concatenate([constants[f"{name}.query.bias"] * scale, np.zeros(2 * width, np.float32)])
            fill(layer.query_key_value, joined, bias)
            for part in ("projection", "intermediate", "output"):
                fill(getattr(layer, part), matrix(f"{name}.{part}"), constants[f"{name}.{part}.bias"])
            for part in ("attention_norm", "output_norm"):
                fill_norm(getattr(layer, part), f"{name}.{part}")
        if kind is CrossEncoder:
            for part in ("pooler", "classifier"):
                # The head is in floats, [inputs, outputs] as everything.
                fill(getattr(model, part), constants[f"{part}.weight"], constants[f"{part}.bias"])
    return model


def narrowed(layer: Layer, inner: int) -> dict[str, Tensor]:
    """The layer's weights with only the `inner` neurons of the feed-forward part that have the largest weights."""
    state = layer.state_dict()
    into, out = state["intermediate.weight"], state["output.weight"]
    kept = (into.norm(dim=1) * out.norm(dim=0)).topk(inner).indices.sort().values
    narrow = {"intermediate.weight": into[kept], "output.weight": out[:, kept]}
    return state | narrow | {"intermediate.bias": state["intermediate.bias"][kept]}


def from_teacher(teacher: CrossEncoder, chosen: list[int], inner: int | None = None) -> CrossEncoder:
    """A model with copies of the teacher's layers `chosen`, its embeddings and its head.

    inner: neurons of the feed-forward part of a layer; all of the teacher's if not given. The last layer keeps all: it
    computes the first token alone, so they cost next to nothing.
    """
    tables = {name: getattr(teacher, name) for name in ("word", "position", "token_type")}
    whole = teacher.layers[0].intermediate.out_features
    counts = [inner or whole] * (len(chosen) - 1) + [whole]
    student = CrossEncoder(tables, counts)
    for layer, source, count in zip(student.layers, chosen, counts):
        layer.load_state_dict(narrowed(teacher.layers[source], count))
    for name in ("norm", "pooler", "classifier"):
        getattr(student, name).load_state_dict(getattr(teacher, name).state_dict())
    return student


class Inputs:
    """Sums of x^T x over the inputs x of every matrix of a model, while it runs. Batches must not be padded."""

    def __init__(self, model: Encoder) -> None:
        self.sums: dict[nn.Module, np.ndarray] = {}
        self.hooks = []
        for layer in model.layers:
            # The joined matrix is not called as a module; its input is the layer's.
            self.watch(layer, layer.query_key_value)
            for part in (layer.projection, layer.intermediate, layer.output):
                self.watch(part, part)

    def watch(self, called: nn.Module, matrix: nn.Module) -> None:
        def add(_: nn.Module, given: tuple) -> None:
            rows = given[0].detach().float().reshape(-1, given[0].shape[-1])
            self.sums[matrix] = self.sums.get(matrix, 0) + (rows.T @ rows).double().numpy()

        self.hooks.append(called.register_forward_pre_hook(add))

    def close(self) -> None:
        for hook in self.hooks:
            hook.remove()


def as_bert(model: Encoder, inputs: Inputs | None = None) -> weights.Bert:
    """The model with int8 matrices and uint8 tables, as graph.build takes it; `inputs` for weights.quantize_for."""

    def array(tensor: Tensor) -> np.ndarray:
        return tensor.detach().float().cpu().numpy()

    def linear(weight: Tensor, bias: Tensor, matrix: nn.Module) -> weights.Linear:
        values = np.ascontiguousarray(array(weight).T), array(bias)
        return weights.quantize_for(inputs.sums[matrix], *values) if inputs else weights.quantize_linear(*values)

    def norm(module: nn.LayerNorm) -> weights.Norm:
        return weights.Norm(array(module.weight), array(module.bias))

    def layer(module: Layer) -> weights.Layer:
        joined = zip(module.query_key_value.weight.chunk(3), module.query_key_value.bias.chunk(3))
        linears = [linear(weight, bias, module.query_key_value) for weight, bias in joined]
        for part in (module.projection, module.intermediate, module.output):
            linears.append(linear(part.weight, part.bias, part))
        return weights.Layer(*linears, norm(module.attention_norm), norm(module.output_norm))

    parts = (model.pooler, model.classifier) if isinstance(model, CrossEncoder) else ()
    head = [(np.ascontiguousarray(array(part.weight).T), array(part.bias)) for part in parts] or None
    tables = [weights.quantize_table(array(getattr(model, name))) for name in ("word", "position", "token_type")]
    return weights.Bert(*tables, norm(model.norm), [layer(module) for module in model.layers], HEADS, head)


def onnx_file(model: Encoder, inputs: Inputs | None = None) -> bytes:
    return graph.build(as_bert(model, inputs), first_token_only=True, any_padding=True)


def write_folder(folder: pathlib.Path, file: bytes, tokenizer: pathlib.Path, beside: pathlib.Path) -> None:
    """The model's folder: the graph, the tokenizer, and what lies in `beside`: config.json, licence and notice."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (*beside.iterdir(), tokenizer):
        shutil.copyfile(path, folder / path.name)
    (folder / "model.onnx").write_bytes(file)
    print(f"model.onnx: {len(file) / 1e6:.1f} MB, sha256 {hashlib.sha256(file).hexdigest()}")
