"""What an engine answers. The names are those of `bass generate --json` (docs/command_line.md)."""

import dataclasses
from typing import Any


@dataclasses.dataclass
class Choice:
    """A sample of a prompt."""

    index: int
    rank: int
    """1 is the best of the prompt: finished before unfinished, then by mean_logprob."""
    text: str
    token_ids: list[int]
    """Without a final end token."""
    logprobs: list[float]
    """Of each of token_ids: the main model's at temperature 1, before all processors, natural logarithm."""
    mean_logprob: float | None
    """None without tokens."""
    finish_reason: str
    """stop, length, deadline, cancelled or error."""
    error: str | None = None
    """With the finish reason error: what went wrong."""
    top_logprobs: list[list[tuple[int, float]]] | None = None
    """Where top_logprobs was asked for: of each token the most probable ones in its place."""


@dataclasses.dataclass
class Completion:
    """A prompt's samples."""

    index: int
    """The prompt's place in what was asked."""
    n_prompt_tokens: int
    prompt_token_ids: list[int]
    """Of the prompt as the model read it, a chat template's among them; empty where it was cancelled before that."""
    choices: list[Choice]
    """By their index."""
    id: Any = None
    """What the prompt's own "id" was."""

    @property
    def best(self) -> Choice:
        """The sample of rank 1."""
        return min(self.choices, key=lambda choice: choice.rank)

    @property
    def ranked(self) -> list[Choice]:
        """The samples, the best first."""
        return sorted(self.choices, key=lambda choice: choice.rank)


@dataclasses.dataclass
class Piece:
    """What is new of one sample. All texts of a sample together are its text."""

    prompt_index: int
    choice_index: int
    text: str
    """Whole characters; it may be a few tokens late, and ends before a stop text."""
    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str | None
    """None while the sample goes on."""
    error: str | None = None
    """With the finish reason error: what went wrong."""


@dataclasses.dataclass
class Score:
    """Of a text's tokens."""

    ids: list[int]
    logprobs: list[float | None]
    """As many; nothing precedes the first token, whose is None."""
    last_top5: list[tuple[int, float]]
    """The most probable tokens behind the text."""
    perplexity: float | None
    """None for one token."""


def completion_of(values: dict) -> Completion:
    """Of the object of a prompt in the command line's JSON."""
    choices = [Choice(**choice) for choice in values.pop("choices")]
    for choice in choices:
        if choice.top_logprobs is not None:
            choice.top_logprobs = [[(token_id, logprob) for token_id, logprob in of_token]
                                   for of_token in choice.top_logprobs]
    return Completion(choices=choices, **values)


def score_of(values: dict) -> Score:
    """Of the object of `bass score --json`."""
    values["last_top5"] = [(token_id, logprob) for token_id, logprob in values["last_top5"]]
    return Score(**values)
