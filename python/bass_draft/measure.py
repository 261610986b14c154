"""Acceptance of drafted positions, measured by the torch model on the main model's own text."""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from bass_draft.batches import Example, pack
from bass_draft.extension import make_extended_batch
from bass_draft.loss import answer_rows, likeliest_agree, step_result
from bass_draft.model import DraftModel

_MAX_ROWS = 1024


@dataclasses.dataclass
class Acceptance:
    """Means over rows: [n_steps] each. `per_round`: tokens of a round that drafts n_steps tokens, the main model's own
    one included, averaged over all positions of the text as beginnings of a round."""

    at_temperature_1: list[float]
    at_temperature_0: list[float]
    per_round_1: float
    per_round_0: float
    n_rows: int

    def as_json(self) -> dict[str, Any]:
        rounded = lambda values: [round(value, 4) for value in values]
        return {"temperature_1": rounded(self.at_temperature_1), "temperature_0": rounded(self.at_temperature_0),
                "tokens_per_round_1": round(self.per_round_1, 3), "tokens_per_round_0": round(self.per_round_0, 3),
                "rows": self.n_rows}


class Meter:
    """Collects rows and averages them."""

    def __init__(self, n_steps: int):
        self._sums = np.zeros((2, n_steps))
        self._counts = np.zeros(n_steps)
        self._rounds = np.zeros(2)
        self._n_rounds = 0

    def add(self, accepted: np.ndarray, is_best: np.ndarray, is_valid: np.ndarray) -> None:
        """[n_steps, n_rows] each, of one text: step s of row p. A round that begins at row p uses row p + s - 1 of
        step s; where the text ends it ends too."""
        n_steps, n_rows = accepted.shape
        for kind, values in enumerate((accepted, is_best)):
            self._sums[kind] += (values * is_valid).sum(1)
            chance, reached = np.ones(n_rows), np.ones(n_rows)
            for step in range(n_steps):
                along = np.zeros(n_rows)
                n_along = max(n_rows - step, 0)  # a text may be shorter than a round
                along[:n_along] = (values[step] * is_valid[step])[step:]
                chance = chance * along
                reached = reached + chance
            self._rounds[kind] += reached[is_valid[0]].sum()
        self._counts += is_valid.sum(1)
        self._n_rounds += int(is_valid[0].sum())

    def result(self) -> Acceptance:
        means = self._sums / np.maximum(self._counts, 1)
        rounds = self._rounds / max(self._n_rounds, 1)
        return Acceptance(means[0].tolist(), means[1].tolist(), float(rounds[0]), float(rounds[1]), self._n_rounds)


@torch.no_grad()
def measure(model: DraftModel, examples: Iterable[tuple[str, Example]], indices: np.ndarray, n_steps: int,
            device: str = "cpu", precision: Callable | None = None) -> dict[str, Acceptance]:
    """By task, and "all". As in the engine, a text's own prompt joins the head where that is the main model's. Without
    taps all steps are equal, since the drafted tokens are the text's own."""
    meters: dict[str, Meter] = collections.defaultdict(lambda: Meter(n_steps))
    by_task: dict[str, list[Example]] = collections.defaultdict(list)
    for task, example in examples:
        by_task[task].append(example)
    for task, group in by_task.items():
        for packed in pack(group, _MAX_ROWS):
            for rows in measured_rows(model, packed, indices, n_steps, device, precision):
                for name in {task, "all"}:  # a task may be called so
                    meters[name].add(*rows)
    return {task: meter.result() for task, meter in sorted(meters.items())}


@torch.no_grad()
def measured_rows(model: DraftModel, packed: Sequence[Example], indices: np.ndarray, n_steps: int, device: str,
                  precision: Callable | None = None) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Of each text: sum min(p, q), whether both find the same token likeliest, and whether it was looked at;
    [n_steps, n_rows] each, as Meter.add takes them."""
    extended = make_extended_batch(model, packed, indices, device)
    batch = extended.batch
    n_rows = len(batch.tokens)
    accepted, is_best = np.zeros((n_steps, n_rows)), np.zeros((n_steps, n_rows))
    is_valid = np.zeros((n_steps, n_rows), bool)
    with (precision or torch.no_grad)():
        states = model.unroll(batch.tokens, batch.positions, batch.texts, batch.taps,
                              n_steps if batch.taps is not None else 1, batch.is_answer)
        for step in range(1, n_steps + 1):
            rows = answer_rows(batch, step)
            logits = extended.logits(model, states[min(step, len(states)) - 1], rows)
            result = step_result(logits, batch, rows, "tv")
            places = rows.cpu().numpy()
            accepted[step - 1, places] = result.acceptance.float().cpu().numpy()
            is_best[step - 1, places] = likeliest_agree(logits, batch, rows).cpu().numpy()
            is_valid[step - 1, places] = True
    texts = batch.texts.cpu().numpy()
    for text in range(len(packed)):
        chosen = texts == text
        yield accepted[:, chosen], is_best[:, chosen], is_valid[:, chosen]
