"""`bass-draft train`: the loop. All that it needs to go on after a kill is in the checkpoint."""

import dataclasses
import itertools
import json
import math
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bass_draft.batches import Example, draft_indices
from bass_draft.budget import Budget
from bass_draft.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from bass_draft.corpus import Corpus
from bass_draft.device import choose_dtype, precision
from bass_draft.errors import Interrupted, UserError
from bass_draft.extension import make_extended_batch
from bass_draft.files import file_errors
from bass_draft.loss import StepResult, answer_rows, step_result
from bass_draft.measure import Acceptance, measure
from bass_draft.model import DraftModel
from bass_draft.progress import progress_bar, say
from bass_draft.rounding import ROUNDED_TYPES, rounded_matrices
from bass_draft.signals import Stop


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """n_steps: how many of its own outputs the draft learns to build on. Lengths in rows (positions)."""

    seed: int = 1
    n_steps: int = 4
    batch_rows: int = 256
    learning_rate: float = 1e-3
    step_decay: float = 0.8  # weight of a step against the one before: later ones are reached less often
    tv_fraction: float = 0.25  # of the budget, at its end: total variation in place of forward KL
    matrix_type: str | None = None  # of the file; where rounding.py knows it, rounded to meanwhile. None: as before
    before: str = ""  # what the draft that this one begins with was made from, in words
    main: str = ""  # the main model's fingerprint
    checkpoint_s: float = 180.0
    measure_s: float = 600.0
    device: str = "cpu"


class Trainer:
    """Trains `model` in place. `directory` holds checkpoint.pt and log.jsonl."""

    def __init__(self, model: DraftModel, vocabulary: np.ndarray, corpus: Corpus, directory: pathlib.Path,
                 options: TrainOptions, budget: Budget):
        self._options = options
        self._budget = budget
        self._corpus = corpus
        self._directory = directory
        self._indices = draft_indices(vocabulary, model.shape.main_n_vocab)
        self._dtype = choose_dtype(options.device, model.shape.width)
        self._precision = precision(options.device, self._dtype)
        self._model = model.to(options.device)
        if self._dtype != torch.float32 and not model.shape.has_head:
            model.main_head = model.main_head.to(self._dtype)
        self._optimizer = make_optimizer(model, options.learning_rate)
        self._n_steps = options.n_steps if model.shape.n_taps else 1
        self.checkpoint = self._start(vocabulary)
        self._recent: list[list[float]] = []

    def _start(self, vocabulary: np.ndarray) -> Checkpoint:
        state = load_checkpoint(self._directory, self._model, self._optimizer, vocabulary)
        wanted = self._options.matrix_type or state.matrix_type
        if state.n_updates > 0 and wanted != state.matrix_type:
            raise UserError(f"{self._directory}: was begun for --type {state.matrix_type}; give the same again, or another "
                            f"--work folder (`bass-draft export --type {wanted}` rounds what is trained already)")
        state.matrix_type = wanted
        if state.n_updates == 0:  # else it began with something else
            state.before = self._options.before
        state.main, state.shape = self._options.main, self._model.shape.as_json()
        state.loss = loss_in_words(self._n_steps, self._options.tv_fraction, wanted)
        return state

    def run(self) -> Checkpoint:
        """Until the budget is spent; a signal saves and raises Interrupted."""
        state = self.checkpoint
        held_out = self._corpus.held_out()
        say(f"training: {self._corpus.n_shards} shards, {self._options.device}, {self._dtype}".replace("torch.", ""))
        self._saved_at = self._measured_at = time.monotonic()
        with Stop() as stop, progress_bar("training", self._budget, state.seconds, state.n_positions) as bar:
            for group in self._groups(stop):
                self._timed_step(group)
                bar.update_to(state.seconds, state.n_positions, f"loss {self._recent[-1][0]:.3f}")
                if self._budget.is_spent(state.seconds, state.n_positions):
                    break
                self._keep(held_out, stop)
            self._end_if_asked(stop)
            self._finish(held_out)
            self._end_if_asked(stop)
        return state

    def _finish(self, held_out: list) -> None:
        """The measurement takes a while, in which the process may be killed."""
        if self.checkpoint.n_updates == 0:
            raise UserError("--hours is too short: making the hidden states took all of the training's time; give more, they "
                            "are kept")
        self._save()
        self._report(held_out)
        self.checkpoint.is_done = True
        self._save()

    def _groups(self, stop: Stop) -> Iterator[list[Example]]:
        """From where the checkpoint stands, without end. The time that it takes to make features counts."""
        state = self.checkpoint
        n_empty = 0
        while n_empty < self._corpus.n_shards:
            state.begin_shard(self._corpus.n_shards, self._options.seed)
            start, skip = time.monotonic(), state.n_batches
            n_empty += 1
            for group in self._shard(stop):
                n_empty = 0
                if skip > 0:
                    skip -= 1
                    continue
                state.seconds += time.monotonic() - start
                if self._budget.is_spent(state.seconds, state.n_positions):
                    return
                state.n_batches += 1
                yield group
                start = time.monotonic()
            state.end_shard()
        raise UserError("there is too little text to train on beside the held-out one; generate more")

    def _shard(self, stop: Stop) -> Iterator[list[Example]]:
        state = self.checkpoint
        try:
            yield from self._corpus.shard_groups(state.epoch, state.shard, self._options.seed, self._options.batch_rows)
        except UserError as error:
            # The signal also ends the engine.
            if stop.signal_number is None:
                raise
            self._end(stop.signal_number, error)

    def _timed_step(self, group: list[Example]) -> None:
        start = time.monotonic()
        state = self.checkpoint
        fraction = self._budget.fraction(state.seconds, state.n_positions)
        kind = "tv" if fraction >= 1 - self._options.tv_fraction else "kl"
        rate = learning_rate(fraction, state.n_updates, self._options.learning_rate)
        for parameters in self._optimizer.param_groups:
            parameters["lr"] = rate
        self._recent.append(self._step(group, kind))
        state.n_updates += 1
        state.n_positions += sum(example.n_rows - example.first for example in group)
        state.seconds += time.monotonic() - start

    def _step(self, group: list[Example], kind: str) -> list[float]:
        """One update. Returns the loss, then the acceptance of each step."""
        with rounded_matrices(self._model, self.checkpoint.matrix_type if kind == "tv" else "f32"):
            results = self._unrolled(group, kind)
            if not results:
                return self._recent[-1] if self._recent else [math.nan]
            weights = [self._options.step_decay**step for step in range(len(results))]
            loss = sum(weight * result.loss for weight, result in zip(weights, results)) / sum(weights)
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.step()
        if not math.isfinite(loss.item()):
            raise self._diverged()
        return [loss.item(), *(float(result.acceptance.mean()) for result in results)]

    def _unrolled(self, group: list[Example], kind: str) -> list[StepResult]:
        """Of each step that has rows."""
        extended = make_extended_batch(self._model, group, self._indices, self._options.device)
        batch = extended.batch
        results = []
        with self._precision():
            n_steps = steps_of_update(self.checkpoint.n_updates, self._n_steps)
            states = self._model.unroll(batch.tokens, batch.positions, batch.texts, batch.taps, n_steps,
                                        batch.is_answer)
            for step, h in enumerate(states, 1):
                rows = answer_rows(batch, step)
                if len(rows) > 0:
                    results.append(step_result(extended.logits(self._model, h, rows), batch, rows, kind))
        return results

    def _keep(self, held_out: list, stop: Stop) -> None:
        """What is due: a measurement, a checkpoint, the end."""
        self._end_if_asked(stop)
        now = time.monotonic()
        if now - self._measured_at >= self._options.measure_s:
            start = time.monotonic()
            self._report(held_out)
            self._measured_at = time.monotonic()
            self.checkpoint.seconds += self._measured_at - start
        if now - self._saved_at >= self._options.checkpoint_s:
            self._save()

    def _end_if_asked(self, stop: Stop) -> None:
        if stop.signal_number is not None:
            self._end(stop.signal_number)

    def _end(self, signal_number: int, cause: Exception | None = None) -> None:
        self._save()
        say(f"training: stopped; the checkpoint in {self._directory} is up to date")
        raise Interrupted(signal_number) from cause

    def _diverged(self) -> UserError:
        return UserError(f"{self._directory}: the training has diverged at update {self.checkpoint.n_updates} (weights or loss "
                         "are no numbers any more); give a lower --learning-rate: it goes on from the last good checkpoint", 1)

    def _save(self) -> None:
        if not all(bool(values.isfinite().all()) for values in self._model.parameters()):
            raise self._diverged()
        save_checkpoint(self._directory, self._model, self._optimizer, self.checkpoint)
        self._saved_at = time.monotonic()

    def _report(self, held_out: list) -> None:
        """Measures on held-out texts what a file would be; a line to the log and to the terminal."""
        with rounded_matrices(self._model, self.checkpoint.matrix_type):
            found = measure(self._model, held_out, self._indices, self._options.n_steps, self._options.device,
                            self._precision)
        state = self.checkpoint
        state.acceptance = {task: acceptance.as_json() for task, acceptance in found.items()}
        columns = itertools.zip_longest(*self._recent, fillvalue=math.nan)  # not every update has every step
        recent = [float(np.nanmean(column)) for column in columns] or [math.nan]  # after a stop at the very end
        self._recent.clear()
        rounded = [round(value, 4) if math.isfinite(value) else None for value in recent]  # JSON has no NaN
        log = {"seconds": round(state.seconds, 1), "positions": state.n_positions, "loss": rounded[0],
               "train_acceptance": rounded[1:], "held_out": state.acceptance}
        try:
            line = json.dumps(log, allow_nan=False)
        except ValueError:
            raise self._diverged() from None
        with file_errors(self._directory), open(self._directory / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(line + "\n")
        if "all" in found:
            say(report_line(state, recent[0], found["all"]))


def report_line(state: Checkpoint, loss: float, found: Acceptance) -> str:
    told = f"{loss:.3f}" if math.isfinite(loss) else "-"
    numbers = lambda values: " ".join(f"{value:.3f}" for value in values)
    return (f"{state.seconds / 60:6.1f} min {state.n_positions:9d} positions  loss {told}  held out: "
            f"acceptance {numbers(found.at_temperature_1)}  top-1 {numbers(found.at_temperature_0)}  "
            f"tokens a round {found.per_round_1:.2f} {found.per_round_0:.2f}")


def loss_in_words(n_steps: int, tv_fraction: float, matrix_type: str) -> str:
    steps = f"; {n_steps} steps unrolled" if n_steps > 1 else ""
    rounded = f", with matrices rounded to {matrix_type}" if matrix_type in ROUNDED_TYPES and tv_fraction > 0 else ""
    return f"forward KL to the main model, then total variation for the last {tv_fraction:.0%}{rounded}{steps}"


def steps_of_update(n_updates: int, n_steps: int) -> int:
    """How far a batch is unrolled: all the way in one of four, on average half as far. A step costs as much as the
    first one, and what it teaches is mostly what the first one teaches of more text."""
    return (n_steps, 1, (n_steps + 1) // 2, 1)[n_updates % 4]


def learning_rate(fraction: float, n_updates: int, peak: float) -> float:
    """A short warm-up, then a cosine down to 5 % at the end of the budget."""
    warm = min(1.0, (n_updates + 1) / 50)
    return peak * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * fraction)))


def make_optimizer(model: DraftModel, rate: float) -> torch.optim.Optimizer:
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    groups: list[dict[str, Any]] = [{
        "params": matrices,
        "weight_decay": 0.01
    }, {
        "params": vectors,
        "weight_decay": 0.0
    }]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), **_fused())


def _fused() -> dict[str, bool]:
    """One pass over the weights instead of a dozen, which take a tenth of a small batch's time. CPUs have it since
    PyTorch 2.4."""
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    return {"fused": True} if version >= (2, 4) else {}
