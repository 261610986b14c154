"""The table of options, which the command line has too, as names, checks and documentation for Python."""

import difflib
import json
import math
import operator
import textwrap

from bass import _engine
from bass.errors import InvalidArgumentError

_ROWS = json.loads(_engine.options_json())
REQUEST_OPTIONS = {row["name"]: row for row in _ROWS if row["is_per_request"]}
_OF_THE_PROGRAM = {"Prompts", "Output"}  # groups; what of them is per request is a prompt's
ENGINE_OPTIONS = {
    row["name"]: row for row in _ROWS if not row["is_per_request"] and row["group"] not in _OF_THE_PROGRAM
}
PROMPT_KEYS = ("prompt", "messages", "prompt_tokens", "id")
# of a prompt that is read, and not answered
READ_KEYS = (*PROMPT_KEYS, "chat", "system", "tools", "chat_template_kwargs", "continue_final_message")


def check_names(names, known, where):
    """InvalidArgumentError, with the nearest known name, where one of the names is not known."""
    for name in names:
        if name in known:
            continue
        if name in ENGINE_OPTIONS:
            raise InvalidArgumentError(f"{name}: is the engine's; give it to bass.Engine(...), not to {where}")
        near = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean {near[0]}?" if near else "help(bass.Engine) lists them"
        raise InvalidArgumentError(f"{name}: {where} has no such option; {hint}")


def dumps(values, origin=""):
    """JSON of a dict that a caller has passed. origin: in front of messages"""
    parts = []
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidArgumentError(f"{origin}{name}: {value} is no number that it can be")
        if isinstance(value, int) and not -2**63 <= value < 2**64:
            raise InvalidArgumentError(f"{origin}{name}: {value} is more than 64 bits hold, {2**64 - 1}")
        try:
            part = json.dumps({name: value}, ensure_ascii=False, allow_nan=False, default=_number)
            part.encode("utf-8")  # half of a surrogate pair is no character
        except (TypeError, ValueError, RecursionError) as error:
            # A single prompt is called as its only key.
            where = name if origin == f"{name}: " else f"{origin}{name}"
            raise InvalidArgumentError(f"{where}: {error}") from error
        parts.append(part[1:-1])
    return "{" + ",".join(parts) + "}"


def utf8_of(text, name):
    """Of a text that a caller has passed."""
    if not isinstance(text, str):
        raise TypeError(f"{name}: must be a str, not {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{name}: {error}") from error


def is_token_id(value):
    """Whether it is a whole number that a token id may be."""
    return hasattr(value, "__index__") and not isinstance(value, bool) and 0 <= operator.index(value) < 2**31


def token_ids_of(values):
    """As a list of whole numbers that a token id may be."""
    ids = [operator.index(value) for value in values]
    for token_id in ids:
        if not is_token_id(token_id):
            raise InvalidArgumentError(f"{token_id} is no token id")
    return ids


def _number(value):
    """Numbers of NumPy and PyTorch, and arrays of them, are no JSON by themselves."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is neither text nor a number, nor a list or dict of these")


def described(rows):
    """A docstring's list of options."""
    lines = []
    for row in rows.values():
        value = f"{row['range']}; " if row["range"] else f"{row['value']}; " if "|" in row["value"] else ""
        text = f"{row['name']}: {row['help']} ({value}default: {row['default']})"
        lines += textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="        ")
    return "\n".join(lines)
