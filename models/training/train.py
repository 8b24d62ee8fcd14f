"""Distils the L-12 into fewer layers over lists, with labels where the data has them.

The loss of a list, with z the logits and target t = the teacher's logits, raised by LABEL_BONUS for a row that is
labelled as relevant and that the teacher, too, ranks in the better half:

    KL(softmax(t) || softmax(z))            the order, most of all of the best
    + SQUARED * mean (z - t)^2              the scale: recall takes sigmoids and thresholds of logits
    + HIDDEN * mean squared difference of normalised hidden states, each layer and the teacher's that it is a copy of

For long statements the teacher is no good, so their lists have only KL to an even distribution over the labelled rows.
The hidden states need the teacher beside the student: the default on a GPU. On a CPU its logits come from label.py.
With the teacher at hand, part of each list is drawn anew every time, and some rows serve as queries: no two passes over
the lists are the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import pathlib
import time

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import lists as lists_file
import pairs
import student

LABEL_BONUS = 2.0
SQUARED = 0.05
HIDDEN = 1.0
TEMPERATURE = 1.0
LABEL_SMOOTHING = 0.1
WARM_UP = 0.05
LEAST_RATE = 0.02
DROPOUT = 0.0
WEIGHT_DECAY = 0.01
SAVE_SECONDS = 240
REPORT_SECONDS = 30
SYNCHRONISE = 20
# With the teacher beside the student: rows of a list that are drawn anew, lists whose query is a row, lists whose rows
# are several turns in a row (turns of the data are shorter than what is remembered).
FRESH_ROWS = 5
ROW_AS_QUERY = 0.15
LONGER_ROWS = 0.35
LONG_STATEMENT = lists_file.KINDS.index("long_statement")


@dataclasses.dataclass
class Options:
    """batch: lists a step. part: pairs that are run together. online: the teacher runs beside the student.

    validated: held lists that are looked at now and then.
    minutes: if given, the learning rate falls with the time and training ends with it, whatever `steps` says.
    """

    layers: list[int]
    steps: int
    batch: int
    part: int
    rate: float
    online: bool
    device: str
    seed: int
    validated: int
    minutes: float | None = None


def defaults(device: str) -> dict:
    """What suits the device: a GPU takes large steps, with the teacher beside it."""
    if device == "cuda":
        return {"steps": 12000, "batch": 128, "part": 1024, "rate": 4e-4, "online": True, "validated": 800}
    return {"steps": 4000, "batch": 4, "part": 16, "rate": 1.5e-4, "online": False, "validated": 40}


def mixed(device: str, precision: torch.dtype):
    """Half precision on a GPU: bfloat16 to train in, float16, which is finer, for the teacher."""
    return torch.autocast("cuda", dtype=precision) if device == "cuda" else contextlib.nullcontext()


def rate_at(done: float, peak: float) -> float:
    """Linear warm-up, then a half cosine down to LEAST_RATE of the peak; `done` is the part of the run that is over."""
    if done < WARM_UP:
        return peak * max(done, 1e-4) / WARM_UP
    after = min(1.0, (done - WARM_UP) / (1 - WARM_UP))
    return peak * (LEAST_RATE + (1 - LEAST_RATE) * 0.5 * (1 + math.cos(math.pi * after)))


def list_loss(z: Tensor, teacher: Tensor, label: Tensor, kind: Tensor) -> Tensor:
    """The mean loss of lists without the hidden states; all but `kind` [lists, LENGTH]."""
    better_half = teacher >= teacher.median(dim=1, keepdim=True).values
    target = teacher + LABEL_BONUS * ((label == 1) & better_half)
    by_teacher = functional.softmax(target / TEMPERATURE, dim=1)
    relevant = (label == 1).float()
    by_label = relevant / relevant.sum(dim=1, keepdim=True).clamp(min=1)
    by_label = by_label * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / label.shape[1]
    labels_only = (kind == LONG_STATEMENT)[:, None]
    goal = torch.where(labels_only, by_label, by_teacher)
    logs = functional.log_softmax(z / TEMPERATURE, dim=1)
    divergence = (goal * (goal.clamp(min=1e-9).log() - logs)).sum(dim=1)
    squared = torch.where(labels_only, 0.0, (z - target) ** 2).mean(dim=1)
    return (divergence + SQUARED * squared).mean()


def hidden_loss(mine: list[Tensor], teachers: list[Tensor], real: Tensor) -> Tensor:
    """Mean squared difference of the normalised hidden states of tokens that are not padding.

    Of the last layer only the first token counts: the graph computes no other.
    """
    total = mine[0].new_zeros((), dtype=torch.float32)
    width = mine[0].shape[-1:]
    first = torch.zeros_like(real)
    first[:, 0] = True
    for number, (one, other) in enumerate(zip(mine, teachers), 1):
        counted = first if number == len(mine) else real
        difference = functional.layer_norm(one.float(), width) - functional.layer_norm(other.float(), width)
        total = total + (difference.square().mean(dim=-1) * counted).sum() / counted.sum()
    return total / len(mine)


@dataclasses.dataclass
class Batch:
    """numbers, query, kind: [lists]; rows, spans (texts that make a row), label: [lists, LENGTH]."""

    numbers: Tensor
    query: Tensor
    rows: Tensor
    spans: Tensor
    label: Tensor
    kind: Tensor


class Trainer:
    """One training run with its checkpoints in `folder`."""

    def __init__(self, data: pathlib.Path, folder: pathlib.Path, teacher_graph: pathlib.Path, options: Options) -> None:
        self.options, self.folder = options, folder
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(options.seed)
        self.lists = pairs.Lists(data, options.device)
        self.logits = None if options.online else pairs.TeacherLogits(data, len(self.lists.held), self.lists.length)
        teacher = student.read_shipped(teacher_graph).eval().requires_grad_(False)
        self.model = student.from_teacher(teacher, options.layers).to(options.device).train()
        self.model.dropout = DROPOUT
        self.teacher = teacher.to(options.device) if options.online else None
        decayed = [parameter for parameter in self.model.parameters() if parameter.dim() > 1]
        others = [parameter for parameter in self.model.parameters() if parameter.dim() == 1]
        groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98), fused=True)
        self.step = 0
        self.seconds = 0.0
        self.random = np.random.default_rng(options.seed)
        self.waiting: list[int] = []
        self.resume()

    @property
    def checkpoint(self) -> pathlib.Path:
        return self.folder / "checkpoint.pt"

    def resume(self) -> None:
        if self.checkpoint.exists():
            state = torch.load(self.checkpoint, map_location=self.options.device, weights_only=False)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step, self.seconds, self.waiting = state["step"], state["seconds"], state["waiting"]
            self.random.bit_generator.state = state["random"]
            if self.logits is not None:
                labelled = self.logits.labelled()
                self.waiting = [number for number in self.waiting if labelled[number]]
            print(f"resumed at step {self.step}", flush=True)

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "waiting": self.waiting,
            "random": self.random.bit_generator.state,
        }
        torch.save(state, self.checkpoint.with_suffix(".new"))
        self.checkpoint.with_suffix(".new").replace(self.checkpoint)

    def usable(self) -> np.ndarray:
        known = ~self.lists.held
        return np.flatnonzero(known if self.logits is None else known & self.logits.labelled())

    def next_numbers(self) -> Tensor:
        """The lists of the next step; every list once before any comes again."""
        while len(self.waiting) < self.options.batch:
            self.waiting = self.random.permutation(self.usable()).tolist() + self.waiting
        chosen = [self.waiting.pop() for _ in range(self.options.batch)]
        return torch.tensor(chosen, device=self.options.device)

    def teacher_logits(self, numbers: Tensor) -> Tensor:
        values = torch.from_numpy(self.logits.values[numbers.cpu().numpy()].astype(np.float32))
        return values.to(self.options.device)

    def drawn(self, numbers: Tensor) -> Batch:
        """The lists, with what is drawn anew if the teacher is at hand and nobody labelled them."""
        batch = self.as_stored(numbers)
        if self.teacher is None:
            return batch
        nobody_said = (batch.label < 0).all(dim=1)

        def some(share: float) -> Tensor:
            return nobody_said & (torch.rand(len(numbers), device=self.lists.device) < share)

        rows = batch.rows.clone()
        fresh = self.lists.any_rows(numbers, FRESH_ROWS)
        rows[:, -FRESH_ROWS:] = torch.where(nobody_said[:, None], fresh, rows[:, -FRESH_ROWS:])
        query = torch.where(some(ROW_AS_QUERY), self.lists.any_rows(numbers, 1)[:, 0], batch.query)
        spans = torch.where(some(LONGER_ROWS)[:, None], self.lists.any_spans(rows), batch.spans)
        return dataclasses.replace(batch, query=query, rows=rows, spans=spans)

    def as_stored(self, numbers: Tensor) -> Batch:
        lists, rows = self.lists, self.lists.rows[numbers]
        label, kind = lists.label[numbers], lists.kind[numbers]
        return Batch(numbers, lists.query[numbers], rows, torch.ones_like(rows), label, kind)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """(student's logits, teacher's logits, hidden loss) of the lists."""
        rows, count = batch.rows, batch.rows.numel()
        target = torch.empty(count, device=self.options.device)
        hidden = torch.zeros((), device=self.options.device)
        found, positions = [], []
        for part, (ids, types, real) in self.lists.parts(batch.query, rows, self.options.part, batch.spans):
            with mixed(self.options.device, torch.bfloat16):
                logits, mine = self.model(ids, types, real)
            if self.teacher is not None:
                with torch.no_grad(), mixed(self.options.device, torch.float16):
                    logits_of_teacher, theirs = self.teacher(ids, types, real)
                target[part] = logits_of_teacher.float()
                matched = [theirs[layer] for layer in self.options.layers]
                hidden = hidden + hidden_loss(mine, matched, real) * len(part) / count
            found.append(logits.float())
            positions.append(part)
        z = torch.cat(found)[torch.argsort(torch.cat(positions))].view(rows.shape)
        if self.teacher is None:
            return z, self.teacher_logits(batch.numbers), hidden
        return z, target.view(rows.shape), hidden

    def done(self) -> float:
        """The part of the run that is over."""
        if self.options.minutes:
            return self.seconds / (60 * self.options.minutes)
        return self.step / self.options.steps

    def train_step(self) -> tuple[Tensor, Tensor]:
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.done(), self.options.rate)
        batch = self.drawn(self.next_numbers())
        z, target, hidden = self.forward(batch)
        loss = list_loss(z, target, batch.label, batch.kind)
        self.optimizer.zero_grad(set_to_none=True)
        (loss + HIDDEN * hidden).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return loss.detach(), hidden.detach()

    def run(self, until: int | None = None) -> None:
        """Trains to the end, or to the step `until`; prints and saves on the way."""
        saved = reported = time.monotonic()
        first, losses = self.step, []
        while True:
            started = time.monotonic()
            losses.append(self.train_step())
            if self.step % SYNCHRONISE == 0:
                float(losses[-1][0])
            now = time.monotonic()
            self.seconds += now - started
            over = self.done() >= 1 or self.step == until
            if over or now - reported > REPORT_SECONDS:
                speed = (self.step - first) * self.options.batch * self.lists.length / (now - reported)
                self.report(losses, speed)
                first, losses, reported = self.step, [], time.monotonic()
            if over or now - saved > SAVE_SECONDS:
                self.save()
                saved = time.monotonic()
            if over:
                return

    def report(self, losses: list[tuple[Tensor, Tensor]], speed: float) -> None:
        loss, hidden = (float(sum(values)) / len(losses) for values in zip(*losses))
        record = {"step": self.step, "done": round(self.done(), 3), "loss": round(loss, 4), "hidden": round(hidden, 4)}
        record |= self.validate() | {"pairs_per_second": round(speed), "seconds": round(self.seconds)}
        print(json.dumps(record), flush=True)
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps(record) + "\n")

    def validate(self) -> dict[str, float]:
        """On lists that are held: loss, agreement with the teacher, and rank of the labelled rows."""
        numbers = self.lists.held if self.logits is None else self.lists.held & self.logits.labelled()
        chosen = np.flatnonzero(numbers)[: self.options.validated]
        if not len(chosen):
            return {}
        self.model.eval()
        mine, theirs = [], []
        with torch.no_grad():
            for start in range(0, len(chosen), self.options.batch):
                numbers = torch.tensor(chosen[start : start + self.options.batch], device=self.options.device)
                z, target, _ = self.forward(self.as_stored(numbers))
                mine.append(z)
                theirs.append(target)
        self.model.train()
        z, target = torch.cat(mine), torch.cat(theirs)
        at = torch.tensor(chosen, device=self.options.device)
        label, kind = self.lists.label[at], self.lists.kind[at]
        result = {"held_loss": list_loss(z, target, label, kind), "same_best": same_best(z, target, kind)}
        result["correlation"] = correlation(z, target, kind)
        labelled = (label == 1).any(dim=1)
        if labelled.any():
            result["reciprocal_rank"] = reciprocal_rank(z[labelled], label[labelled])
            result["reciprocal_rank_of_teacher"] = reciprocal_rank(target[labelled], label[labelled])
        return {name: round(float(value), 4) for name, value in result.items()}


def same_best(z: Tensor, target: Tensor, kind: Tensor) -> Tensor:
    trusted = kind != LONG_STATEMENT
    return (z.argmax(dim=1) == target.argmax(dim=1))[trusted].float().mean()


def correlation(z: Tensor, target: Tensor, kind: Tensor) -> Tensor:
    """The mean over lists of the correlation of the two models' logits."""
    z, target = (x[kind != LONG_STATEMENT] for x in (z, target))
    z, target = (x - x.mean(dim=1, keepdim=True) for x in (z, target))
    return ((z * target).sum(dim=1) / (z.norm(dim=1) * target.norm(dim=1)).clamp(min=1e-6)).mean()


def reciprocal_rank(z: Tensor, label: Tensor) -> Tensor:
    best = z.masked_fill(label != 1, -math.inf).max(dim=1).values
    return (1 / (1 + (z > best[:, None]).sum(dim=1))).mean()
