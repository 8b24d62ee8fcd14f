"""Distils the L-12 into fewer layers over lists, with labels where the data has them.

The loss of a list, with z the logits and target t = the teacher's logits, raised by LABEL_BONUS for a row that is
labelled as relevant and that the teacher, too, ranks in the better half:

    mean over temperatures T of T * KL(softmax(t / T) || softmax(z / T))
                                            the order: T = 1 of the best, 3 of the next ones too
    + SQUARED * mean w (z - t)^2            the scale: recall takes sigmoids and thresholds of logits;
                                            w from 1 to 1 + GOOD_ROWS, with the sigmoid of t: good rows are few
    + hidden_weight * mean squared difference of normalised hidden states, each layer's and a layer's of the teacher

For long statements the teacher is no good, so their lists have only KL to an even distribution over the labelled rows.
The hidden states say more than a logit does, so they count most while the layers find their new places, at first.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pathlib
import time

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import lessons
import lists as lists_file
import pairs
import student
import teacher

LABEL_BONUS = 2.0
TEMPERATURES = (1.0, 3.0)
SQUARED = 0.05
GOOD_ROWS = 3.0
HIDDEN = 3.0
LABEL_SMOOTHING = 0.1
WARM_UP = 0.05
LEAST_RATE = 0.02
WEIGHT_DECAY = 0.01
SAVE_SECONDS = 240
# The first report comes early: it shows a speed that is not worth waiting for.
FIRST_REPORT_SECONDS, REPORT_SECONDS = 20, 180
SYNCHRONISE = 20
LONG_STATEMENT = lists_file.KINDS.index("long_statement")


@dataclasses.dataclass
class Options:
    """layers: of the teacher, that the student begins with. inner: neurons of their feed-forward parts.
    batch: lists a step. part: tokens that are run together.

    passes: how often a list is used with what the teacher said of it. validated: held lists that are looked at.
    minutes: if given, the learning rate falls with the time and training ends with it, whatever `steps` says.
    start: the folder of a trained model to go on from, instead of copies of the teacher's layers.
    """

    layers: list[int]
    inner: int
    steps: int
    batch: int
    part: int
    rate: float
    passes: int
    device: str
    seed: int
    validated: int
    minutes: float | None = None
    start: str | None = None


def defaults(device: str) -> dict:
    """What suits the device: on a GPU the teacher costs next to nothing."""
    if device == "cuda":
        return {"steps": 12000, "batch": 64, "part": 65536, "rate": 5e-4, "passes": 1, "validated": 800}
    part = 2048 if torch.cpu._is_amx_tile_supported() else 1024
    return {"steps": 6000, "batch": 8, "part": part, "rate": 4e-4, "passes": 2, "validated": 120}


def working_type(device: str) -> torch.dtype:
    """bfloat16 where the device computes it faster than float32."""
    fast = device == "cuda" or torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if fast else torch.float32


def mixed(device: str) -> torch.autocast:
    """Weights stay float32, and products are of the working type."""
    return torch.autocast(device, dtype=torch.bfloat16, enabled=working_type(device) == torch.bfloat16)


def targets(count: int, of: int) -> list[int]:
    """The teacher's layers that `count` layers are to be like: evenly spaced, with the last one."""
    return [(number + 1) * of // count - 1 for number in range(count)]


def hidden_weight(done: float) -> float:
    return HIDDEN * max(0.1, 1 - done)


def rate_at(done: float, peak: float) -> float:
    """Linear warm-up, then a half cosine down to LEAST_RATE of the peak; `done` is the part of the run that is over."""
    if done < WARM_UP:
        return peak * max(done, 1e-4) / WARM_UP
    after = min(1.0, (done - WARM_UP) / (1 - WARM_UP))
    return peak * (LEAST_RATE + (1 - LEAST_RATE) * 0.5 * (1 + math.cos(math.pi * after)))


def list_loss(z: Tensor, logits: Tensor, label: Tensor, kind: Tensor) -> Tensor:
    """The mean loss of lists without the hidden states; all but `kind` [lists, LENGTH]."""
    better_half = logits >= logits.median(dim=1, keepdim=True).values
    target = logits + LABEL_BONUS * ((label == 1) & better_half)
    relevant = (label == 1).float()
    by_label = relevant / relevant.sum(dim=1, keepdim=True).clamp(min=1)
    by_label = by_label * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / label.shape[1]
    labels_only = (kind == LONG_STATEMENT)[:, None]
    divergence = torch.zeros(len(z), device=z.device)
    for temperature in TEMPERATURES:
        by_teacher = functional.softmax(target / temperature, dim=1)
        goal = torch.where(labels_only, by_label, by_teacher)
        logs = functional.log_softmax(z / temperature, dim=1)
        one = (goal * (goal.clamp(min=1e-9).log() - logs)).sum(dim=1)
        divergence = divergence + one * temperature / len(TEMPERATURES)
    weight = 1 + GOOD_ROWS * torch.sigmoid(target)
    squared = torch.where(labels_only, 0.0, weight * (z - target) ** 2).mean(dim=1)
    return (divergence + SQUARED * squared).mean()


def hidden_loss(mine: list[Tensor], teachers: list[Tensor], real: Tensor) -> Tensor:
    """Mean squared difference of the normalised hidden states of tokens that are not padding.

    Both have mean 0 and variance 1, so it is 2 less twice the mean of their product.
    """
    total = mine[0].new_zeros((), dtype=torch.float32)
    for one, other in zip(mine, teachers):
        counted = real[:, : one.shape[1]]
        product = (teacher.normalised(one) * other).mean(dim=-1, dtype=torch.float32)
        total = total + 2 - 2 * (product * counted).sum() / counted.sum()
    return total / len(mine)


class Trainer:
    """One training run with its checkpoints in `folder`."""

    def __init__(self, data: pathlib.Path, folder: pathlib.Path, teacher_graph: pathlib.Path, options: Options) -> None:
        self.options, self.folder = options, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.lists = pairs.Lists(data, options.device)
        whole = student.read_shipped(teacher_graph)
        if options.start:
            begun = student.read_shipped(pathlib.Path(options.start) / "model.onnx")
        else:
            begun = student.from_teacher(whole, options.layers, options.inner)
        self.model = begun.to(options.device).train()
        taught = teacher.teacher(teacher_graph, targets(len(begun.layers), len(whole.layers)), options.device)
        self.maker = lessons.Maker(self.lists, taught, options.batch, options.part)
        self.trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        decayed = [parameter for parameter in self.trained if parameter.dim() > 1]
        others = [parameter for parameter in self.trained if parameter.dim() == 1]
        groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98), fused=True)
        self.step = 0
        self.seconds = 0.0
        self.held_lessons: list[lessons.Lesson] = []
        self.resume()
        # The copy that computes; the optimizer changes the weights in full precision.
        self.working = copy.deepcopy(self.model).to(working_type(options.device))
        self.computing = [parameter for parameter in self.working.parameters() if parameter.requires_grad]
        # After an interruption the lists come in another order: what was waiting is not kept.
        made = self.maker.endless([options.seed, self.step])
        made = lessons.ahead(made) if isinstance(taught, teacher.InRuntime) else made
        self.lessons = lessons.repeated(made, options.passes, [options.seed, self.step])

    @property
    def checkpoint(self) -> pathlib.Path:
        return self.folder / "checkpoint.pt"

    def resume(self) -> None:
        if self.checkpoint.exists():
            state = torch.load(self.checkpoint, map_location=self.options.device, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step, self.seconds = state["step"], state["seconds"]
            print(f"resumed at step {self.step}", flush=True)

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
        }
        torch.save(state, self.checkpoint.with_suffix(".new"))
        self.checkpoint.with_suffix(".new").replace(self.checkpoint)

    def forward(self, lesson: lessons.Lesson) -> tuple[Tensor, Tensor]:
        """(logits of the lists, hidden loss)."""
        count = lesson.logits.numel()
        hidden = torch.zeros((), device=self.options.device)
        found = []
        for part in lesson.parts:
            logits, mine = self.working(part.ids, part.types, part.real)
            hidden = hidden + hidden_loss(mine, part.hidden, part.real) * len(part.positions) / count
            found.append(logits.float())
        order = torch.argsort(torch.cat([part.positions for part in lesson.parts]))
        return torch.cat(found)[order].view(lesson.logits.shape), hidden

    def done(self) -> float:
        """The part of the run that is over."""
        if self.options.minutes:
            return self.seconds / (60 * self.options.minutes)
        return self.step / self.options.steps

    def train_step(self) -> tuple[Tensor, Tensor]:
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.done(), self.options.rate)
        lesson = next(self.lessons)
        z, hidden = self.forward(lesson)
        loss = list_loss(z, lesson.logits, lesson.label, lesson.kind)
        (loss + hidden_weight(self.done()) * hidden).backward()
        for parameter, computing in zip(self.trained, self.computing):
            parameter.grad, computing.grad = computing.grad.float(), None
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        with torch.no_grad():
            for parameter, computing in zip(self.trained, self.computing):
                computing.copy_(parameter)
        self.step += 1
        return loss.detach(), hidden.detach()

    def run(self, until: int | None = None) -> None:
        """Trains to the end, or to the step `until`; prints and saves on the way."""
        saved = reported = time.monotonic()
        first, losses, wait = self.step, [], FIRST_REPORT_SECONDS
        while self.done() < 1:
            started = time.monotonic()
            losses.append(self.train_step())
            if self.step % SYNCHRONISE == 0:
                float(losses[-1][0])
            now = time.monotonic()
            self.seconds += now - started
            over = self.done() >= 1 or self.step == until
            if over or now - reported > wait:
                speed = (self.step - first) * self.options.batch * self.lists.length / (now - reported)
                self.report(losses, speed)
                first, losses, reported, wait = self.step, [], time.monotonic(), REPORT_SECONDS
            if over or now - saved > SAVE_SECONDS:
                self.save()
                saved = time.monotonic()
            if over:
                break

    def report(self, losses: list[tuple[Tensor, Tensor]], speed: float) -> None:
        loss, hidden = (float(sum(values)) / len(losses) for values in zip(*losses))
        record = {"step": self.step, "done": round(self.done(), 3), "loss": round(loss, 4), "hidden": round(hidden, 4)}
        record |= self.validate() | {"pairs_per_second": round(speed), "seconds": round(self.seconds)}
        print(json.dumps(record), flush=True)
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps(record) + "\n")

    def held(self) -> list[lessons.Lesson]:
        """Lists that are not trained on."""
        if not self.held_lessons:
            chosen = torch.from_numpy(np.flatnonzero(self.lists.held)[: self.options.validated])
            parts = chosen.split(self.options.batch)
            self.held_lessons = [self.maker.as_stored(numbers) for numbers in parts if len(numbers)]
        return self.held_lessons

    def inputs(self) -> student.Inputs:
        """What the matrices of the model, on a CPU, are given by the held lists."""
        inputs = student.Inputs(self.model)
        with torch.no_grad():
            for part in (part for lesson in self.held() for part in lesson.parts):
                lengths = part.real.sum(dim=1)
                for length in lengths.unique():
                    given = (part.ids, part.types, part.real)
                    self.model(*(values[lengths == length, :length].cpu() for values in given))
        inputs.close()
        return inputs

    def validate(self) -> dict[str, float]:
        """On held lists: loss, agreement with the teacher, and rank of the labelled rows."""
        held = self.held()
        if not held:
            return {}
        with torch.no_grad():
            z = torch.cat([self.forward(lesson)[0] for lesson in held])
        target, label, kind = (
            torch.cat([getattr(lesson, name) for lesson in held]) for name in ("logits", "label", "kind")
        )
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
