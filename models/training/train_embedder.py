"""Trains the embedder on the units of embedder_data.py.

The loss of a question, with s the cosines to all rows of its unit times a scale that is learnt, t the teacher's logits
(UNSCORED where it was not asked), raised by LABEL_BONUS for a labelled row that it, too, ranks in the better half:

    weight * KL(softmax(t) || softmax(s))   the order; weight falls where the teacher finds no answer
    + KEPT * (1 - cosine to the embedding before training)

A part NARROW_SHARE of the KL is that of the first NARROW numbers of the vectors (Matryoshka): they can be cut.

For a long statement the goal is an even distribution over the labelled rows among those of its list. The rows of a unit
are of one memory, so those that nobody scored are hard negatives too. The word embeddings and the first `frozen` layers
are not trained.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import time

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import embedder_data
import student
import train

UNSCORED = -11.0
FIRST_SCALE = 30.0
KEPT = 0.3
NARROW = 128
NARROW_SHARE = 0.2
# A unit that nobody saw is made before every FRESH steps, beside those that are there at the start.
FRESH = 6
# Of the trained weights, the rest being those before (see `mixed`); chosen through the learned ranking, see README.md.
SHARE = 0.6
SAVE_SECONDS = 120


@dataclasses.dataclass
class Options:
    """minutes: the rate falls with the time, and training ends with it. frozen: layers at the bottom left as they are."""

    minutes: float
    rate: float
    frozen: int
    seed: int


def goal(unit: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """(distribution over the rows [questions, rows], weight [questions]) that the teacher and the labels want."""
    chosen, logit, label = unit["chosen"], unit["logit"].float(), unit["label"]
    known = chosen >= 0
    by_label = logit.isnan().all(dim=1)
    middle = logit.nanmedian(dim=1, keepdim=True).values
    raised = logit + train.LABEL_BONUS * ((label == 1) & (logit >= middle))
    scores = torch.full((len(chosen), len(unit["row"])), UNSCORED)
    relevant = torch.zeros_like(scores)
    for line in range(len(chosen)):
        at = chosen[line][known[line]]
        if not by_label[line]:
            scores[line, at] = raised[line][known[line]]
        relevant[line, at] = (label[line][known[line]] == 1).float()
    relevant = relevant / relevant.sum(dim=1, keepdim=True).clamp(min=1)
    best = raised.nan_to_num(UNSCORED).max(dim=1).values
    weight = torch.where(by_label, relevant.sum(dim=1), ((best + 8) / 8).clamp(0.1, 1))
    return torch.where(by_label[:, None], relevant, scores.softmax(dim=1)), weight


def narrowed(unit: dict[str, Tensor]) -> dict[str, Tensor]:
    """The unit with only the rows that are candidates of some question: the others are easy, and most of the work."""
    used = unit["chosen"][unit["chosen"] >= 0].unique()
    place = torch.full((len(unit["row"]) + 1,), -1)
    place[used] = torch.arange(len(used))
    rows = {name: unit[name][used] for name in ("row", "span", "told")}
    return unit | rows | {"chosen": place[unit["chosen"]]}


def divergence(similarity: Tensor, wanted: Tensor, weight: Tensor, inside: Tensor) -> Tensor:
    """inside: [questions, rows], the rows that count."""
    logs = similarity.masked_fill(~inside, -1e4).log_softmax(dim=1)
    found = (wanted * (wanted.clamp(min=1e-9).log() - logs)).sum(dim=1)
    return (weight * found).sum() / weight.sum()


def inside_of(unit: dict[str, Tensor]) -> Tensor:
    """All rows; of a long statement those that are in its list, since others may answer it too; never the question."""
    inside = torch.ones((len(unit["chosen"]), len(unit["row"])), dtype=torch.bool)
    for line in unit["logit"].isnan().all(dim=1).nonzero()[:, 0].tolist():
        inside[line] = False
        inside[line, unit["chosen"][line][unit["chosen"][line] >= 0]] = True
    return inside


class Trainer:
    """One run with its checkpoints in `folder`."""

    def __init__(
        self,
        graph: pathlib.Path,
        maker: embedder_data.Maker,
        held: list[pathlib.Path],
        folder: pathlib.Path,
        options: Options,
    ) -> None:
        self.texts, self.maker, self.options, self.folder = maker.texts, maker, options, folder
        self.device = maker.texts.lists.device
        folder.mkdir(parents=True, exist_ok=True)
        self.model = student.read_shipped(graph).to(self.device)
        for layer in self.model.layers[: options.frozen]:
            layer.requires_grad_(False)
        self.scale = torch.nn.Parameter(torch.tensor(np.log(FIRST_SCALE), dtype=torch.float32, device=self.device))
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.trained = trained
        # The rate of the scale is that of one number, not of a matrix.
        groups = [
            {"params": [p for p in trained if p.dim() > 1], "weight_decay": train.WEIGHT_DECAY, "share": 1.0},
            {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0, "share": 1.0},
            {"params": [self.scale], "weight_decay": 0.0, "share": 100.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98), fused=True)
        self.step, self.seconds = 0, 0.0
        self.held = [narrowed(torch.load(path)) for path in held]
        self.resume()
        self.random = np.random.default_rng([options.seed, self.step])
        self.waiting: list[pathlib.Path] = []

    def resume(self) -> None:
        path = self.folder / "checkpoint.pt"
        if path.exists():
            state = torch.load(path, map_location=self.device, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.scale.data.copy_(state["scale"])
            self.step, self.seconds = state["step"], state["seconds"]
            print(f"resumed at step {self.step}", flush=True)

    def save(self) -> None:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "scale": self.scale.data}
        path = self.folder / "checkpoint.pt"
        torch.save(state | {"step": self.step, "seconds": self.seconds}, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def next_unit(self) -> dict[str, Tensor]:
        """A fresh one now and then; of those that are there every one once before any comes again."""
        fresh = self.maker.fresh() if self.step % FRESH == 0 else None
        if fresh:
            return narrowed(torch.load(fresh))
        if not self.waiting:
            paths = sorted(self.maker.folder.glob("*.pt"))
            self.waiting = [paths[at] for at in self.random.permutation(len(paths))]
        return narrowed(torch.load(self.waiting.pop()))

    def loss(self, unit: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """(divergence, distance from the embeddings before, vectors' agreement with the teacher's best row)."""
        asked = self.texts.embed(self.model, unit["query"], prefixed=True)
        told = self.texts.embed(self.model, unit["row"], unit["span"])
        wanted, weight, inside = (values.to(self.device) for values in (*goal(unit), inside_of(unit)))
        scale = self.scale.exp()
        similarity = asked @ told.T
        found = divergence(scale * similarity, wanted, weight, inside)
        first = [functional.normalize(vectors[:, :NARROW], dim=-1) for vectors in (asked, told)]
        narrow = divergence(scale * first[0] @ first[1].T, wanted, weight, inside)
        found = (1 - NARROW_SHARE) * found + NARROW_SHARE * narrow
        before = [functional.normalize(unit[name].to(self.device).float(), dim=-1) for name in ("asked", "told")]
        moved = 1 - (asked * before[0]).sum(dim=-1).mean() / 2 - (told * before[1]).sum(dim=-1).mean() / 2
        best = similarity.detach().masked_fill(~inside, -9).argmax(dim=1)
        same = (weight * (best == wanted.argmax(dim=1))).sum() / weight.sum()
        return found, moved, same

    def done(self) -> float:
        return self.seconds / (60 * self.options.minutes)

    def train_step(self) -> tuple[float, float, float]:
        for group in self.optimizer.param_groups:
            group["lr"] = train.rate_at(self.done(), self.options.rate) * group["share"]
        found, moved, same = self.loss(self.next_unit())
        self.optimizer.zero_grad(set_to_none=True)
        (found + KEPT * moved).backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        self.step += 1
        return found.item(), moved.item(), same.item()

    def run(self, report_seconds: float = 120) -> None:
        saved = reported = time.monotonic()
        values = []
        self.report([self.validate()])
        while self.done() < 1:
            started = time.monotonic()
            values.append(self.train_step())
            now = time.monotonic()
            self.seconds += now - started
            if now - reported > report_seconds or self.done() >= 1:
                self.report(values)
                values, reported = [], time.monotonic()
            if now - saved > SAVE_SECONDS or self.done() >= 1:
                self.save()
                saved = time.monotonic()

    def validate(self) -> tuple[float, float, float]:
        with torch.no_grad():
            found = [[value.item() for value in self.loss(unit)] for unit in self.held]
        return tuple(np.mean(found, axis=0)) if found else (0.0, 0.0, 0.0)

    def report(self, values: list[tuple[float, float, float]]) -> None:
        names = ("loss", "moved", "same_best")
        record = {"step": self.step, "done": round(self.done(), 3), "scale": round(self.scale.exp().item(), 1)}
        record |= {name: round(float(value), 4) for name, value in zip(names, np.mean(values, axis=0))}
        if self.step:
            record |= {f"held_{name}": round(float(value), 4) for name, value in zip(names, self.validate())}
        record |= {"seconds": round(self.seconds), "cpu": round(time.process_time())}
        print(json.dumps(record), flush=True)
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps(record) + "\n")


def read_checkpoint(path: pathlib.Path, graph: pathlib.Path) -> student.Embedder:
    model = student.read_shipped(graph)
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["model"])
    return model.eval()


def mixed(before: student.Embedder, after: student.Embedder, share: float) -> student.Embedder:
    """The mean of the weights, `share` of them of `after` (WiSE-FT): what was learnt without losing what was known."""
    state, other = before.state_dict(), after.state_dict()
    before.load_state_dict({name: (1 - share) * state[name] + share * other[name] for name in state})
    return before
