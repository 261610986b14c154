"""What is minimised, and what is measured. The teacher is known by its likeliest tokens and the mass of all others."""

import dataclasses

import torch

from bass_draft.batches import Batch


@dataclasses.dataclass
class StepResult:
    """Of the rows of one unrolled step."""

    loss: torch.Tensor  # mean over rows
    acceptance: torch.Tensor  # [n_rows]: sum of min(p, q) at temperature 1 (the tail left out)


def step_result(logits: torch.Tensor, batch: Batch, rows: torch.Tensor, kind: str) -> StepResult:
    """logits: [n, n_draft_vocab] of the rows `rows` [n] of the batch. kind: "kl" or "tv"."""
    log_q = torch.log_softmax(logits.float(), -1)
    log_q_top = log_q.gather(1, batch.top[rows])
    # Another text's prompt may have brought a token into the head that this row cannot propose.
    p = torch.where(log_q_top > -torch.inf, batch.top_probabilities[rows], 0)
    acceptance = torch.minimum(p, log_q_top.exp()).sum(1)
    loss = (1 - acceptance).mean() if kind == "tv" else _forward_kl(p, log_q_top, batch.tail[rows])
    return StepResult(loss, acceptance.detach())


def likeliest_agree(logits: torch.Tensor, batch: Batch, rows: torch.Tensor) -> torch.Tensor:
    """[n]: whether draft and main model find the same token likeliest. As for step_result()."""
    return logits.argmax(-1) == batch.best[rows]


def _forward_kl(p: torch.Tensor, log_q: torch.Tensor, tail: torch.Tensor) -> torch.Tensor:
    """Mean over rows of KL(p || q) on the tokens that draft and teacher's list share, and one more outcome: all others.

    That keeps q from putting everything on the list. p is renormalised by what is left of it in the draft's vocabulary;
    a row counts by that mass, since where the main model goes elsewhere, nothing that the draft says is accepted."""
    shared = p > 0
    mass = p.sum(1) + tail
    q_shared = torch.where(shared, log_q.exp(), torch.zeros_like(log_q)).sum(1)
    log_q_rest = torch.log((1 - q_shared).clamp_min(1e-6))
    scale = mass.clamp_min(1e-6)
    target, rest = p / scale[:, None], tail / scale
    divergence = (torch.xlogy(target, target) - torch.where(shared, target * log_q, torch.zeros_like(p))).sum(1)
    divergence = divergence + torch.xlogy(rest, rest) - rest * log_q_rest
    return (mass * divergence).mean()


def answer_rows(batch: Batch, step: int) -> torch.Tensor:
    """Rows that count in step `step` (from 1): they predict the answer, and their drafts have begun in the text."""
    return (batch.is_answer & (batch.positions >= step - 1)).nonzero().flatten()
