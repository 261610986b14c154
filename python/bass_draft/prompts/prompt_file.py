"""--prompts FILE.jsonl: a user's own prompts."""

import contextlib
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from bass_draft.errors import UserError
from bass_draft.files import read_jsonl
from bass_draft.prompts.generator import Prompt

_KEYS = {"prompt": str, "task": str, "chat": bool, "temperature": (int, float), "max_tokens": int, "id": object}
# What the engine would refuse, but only when it comes to that prompt: after hours, maybe.
_RANGES = (("temperature", lambda value: 0 <= value <= 1e6, "a number from 0 (greedy) to 1000000"),
           ("max_tokens", lambda value: value >= 1, "at least 1"))
_ENGINES_LINE = re.compile(r"standard input:(\d+)")


def read_prompt_file(path: pathlib.Path, temperatures: tuple[float, ...], seed: int) -> list[Prompt]:
    """A line is {"prompt": TEXT, "task"?, "chat"? (true), "temperature"?, "max_tokens"?}. Prompts without a temperature
    take those given by turns, and prompt i has the seed `seed` + i."""
    prompts = []
    for place, line in read_jsonl(path):
        _check(place, line)
        number = len(prompts)
        prompts.append(Prompt(line.get("task", "prompts"), line["prompt"], line.get("chat", True),
                              float(line.get("temperature", temperatures[number % len(temperatures)])), seed + number,
                              line.get("max_tokens")))
    if not prompts:
        raise UserError(f'{path}: holds no prompts; a line is {{"prompt": "..."}}')
    return prompts


@contextlib.contextmanager
def named_in_errors(path: pathlib.Path | None, prompts: Sequence[Prompt], first: int = 0) -> Iterator[None]:
    """The engine names a line of what it is given, prompts from `first` on: it is one of the user's file, if that made it."""
    try:
        yield
    except UserError as error:
        found = _ENGINES_LINE.search(str(error))
        number = first + int(found[1]) - 1 if found else len(prompts)
        if number >= len(prompts):
            raise
        place = f"{path}: prompt {number + 1} ({prompts[number].text[:40]!r})"
        raise UserError(str(error).replace(found[0], place), error.exit_code) from error


def _check(place: str, line: dict[str, Any]) -> None:
    for key, value in line.items():
        if key not in _KEYS:
            raise UserError(f'{place}: unknown key "{key}"; known are {", ".join(_KEYS)}')
        if not isinstance(value, _KEYS[key]) or (isinstance(value, bool) and key not in ("chat", "id")):
            raise UserError(f'{place}: "{key}" has the wrong type')
    if not line.get("prompt"):
        raise UserError(f'{place}: "prompt" is missing or empty')
    for key, is_valid, words in _RANGES:
        if key in line and not is_valid(line[key]):
            raise UserError(f'{place}: "{key}" {line[key]}: must be {words}')
    for key in ("prompt", "task"):
        if any("\ud800" <= letter <= "\udfff" for letter in line.get(key, "")):
            raise UserError(f'{place}: "{key}" holds half of a surrogate pair (\\ud800 to \\udfff): no text')
