"""The word lists in words/: one entry a line, `\\n` in it a line feed. A field {topic} of a template is an entry of
topics.txt; {topic2} is another one of the same list."""

import functools
import importlib.resources
import itertools
import re

_FILES = {
    "animal": "animals", "attribute": "attributes", "audience": "audiences", "city": "cities",
    "code_task": "code_tasks", "code_wish": "code_wishes", "country": "countries", "food": "foods",
    "function": "functions", "human_language": "human_languages", "import": "imports", "item": "items",
    "language": "languages", "name": "names", "noun": "nouns", "role": "roles", "tone": "tones", "topic": "topics",
    "code_function": "code_functions", "pattern_function": "pattern_functions",
}
_NUMBERS = {"digit": range(2, 10), "small": range(3, 25), "medium": range(26, 100), "large": range(120, 1000, 4)}
_SENTENCES = ("english", "german", "french", "spanish")


@functools.cache
def lines_of(file: str) -> tuple[str, ...]:
    text = importlib.resources.files(__package__).joinpath("words", file + ".txt").read_text(encoding="utf-8")
    return tuple(line.replace("\\n", "\n") for line in text.splitlines() if line)


@functools.cache
def words_of(field: str) -> tuple[str, ...]:
    """What may stand for {field} in a template."""
    kind = field.rstrip("2")
    if kind in _NUMBERS:
        return tuple(map(str, _NUMBERS[kind]))
    if kind in _SENTENCES:
        parts = [line.split("|") for line in lines_of(kind + "_parts")]
        return tuple(" ".join(combination) for combination in itertools.product(*parts))
    return lines_of(_FILES[kind])


def fields_of(template: str) -> list[str]:
    """The different fields, in the order of their first occurrence. {{ and }} are braces, as in str.format."""
    plain = template.replace("{{", "").replace("}}", "")
    return list(dict.fromkeys(re.findall(r"{(\w+)}", plain)))
