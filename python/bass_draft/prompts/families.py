"""Kinds of prompts. Each numbers its prompts: which template, then which combination of words, without repetition."""

import dataclasses
import math
import random
import re
from collections.abc import Callable, Sequence

from bass_draft.prompts.word_lists import fields_of, lines_of, words_of

PASSAGE_FIELDS = ("passage", "passage2")


@dataclasses.dataclass(frozen=True)
class Family:
    task: str
    weight: int  # of the prompts in a round through all families
    templates: Sequence[str]
    is_chat: bool = True
    finish: Callable[[str, int], str] = lambda text, _: text  # (text, number of the prompt) -> the prompt

    @property
    def needs_passages(self) -> bool:
        return any(field in PASSAGE_FIELDS for field in fields_of(self.templates[0]))


def fill(template: str, number: int, rng: random.Random, passages: Sequence[str]) -> str:
    """The `number`-th combination of words in an order of `rng`; they differ as long as there are any left."""
    fields = [field for field in fields_of(template) if field not in PASSAGE_FIELDS]
    lists = [words_of(field) for field in fields]
    n_combinations = math.prod(map(len, lists))
    place = _permuted(number, n_combinations, rng)
    values = {}
    for field, words in zip(fields, lists):
        place, index = divmod(place, len(words))
        values[field] = _other(words, index, values.get(field.removesuffix("2")), number)
    for field in PASSAGE_FIELDS:
        values[field] = passages[rng.randrange(len(passages))] if passages else ""
    return _with_articles(template, values).format(**values)


def _with_articles(template: str, values: dict[str, str]) -> str:
    """"an" for "a" in front of a field whose word wants it."""
    return re.sub(r"\b([Aa]) (?={(\w+)})", lambda match: match[1] + (
        "n " if values[match[2]][0] in "aeioAEIO" else " "), template)


def _permuted(number: int, n: int, rng: random.Random) -> int:
    """A permutation of 0..n-1 (n > 0), at number mod n."""
    step = rng.randrange(n) | 1
    while math.gcd(step, n) != 1:
        step += 1
    return (number * step + rng.randrange(n)) % n


def _other(words: Sequence[str], index: int, taken: str | None, number: int) -> str:
    """words[index], or some other word if that one is taken already: nothing is compared with itself."""
    word = words[index]
    return word if word != taken else words[(index + 1 + number % (len(words) - 1)) % len(words)]


def _source_file(line: str, number: int) -> str:
    """`signature|description` as the beginning of a Python file, in one of several styles."""
    signature, description = line.split("|")
    name = signature.split("(")[0]
    heads = ["", *(line + "\n\n\n" for line in words_of("import"))]
    bodies = [
        f'def {signature}:\n    """{description}"""\n',
        f'def {signature}:\n    """ {description}\n    """\n',
        f"# {description}\ndef {signature}:\n",
        f'def {signature}:\n    """\n    {description}\n\n    Examples:\n    >>> {name}(',
        f"# Python 3\n\ndef {signature}:\n    '''\n    {description}\n    '''\n",
    ]
    return heads[number // len(bodies) % len(heads)] + bodies[number % len(bodies)]


def _code_in_chat(line: str, number: int) -> str:
    return "Complete the following Python function.\n\n```python\n" + _source_file(line, number) + "```"


def _opening(text: str, _: int) -> str:
    """A text that is continued as it is ends within a sentence."""
    return text.rstrip(".?!")


def all_families() -> list[Family]:
    return [
        Family("question", 5, lines_of("topic_asks")),
        Family("short question", 3, lines_of("short_asks")),
        Family("writing", 4, lines_of("writing_asks")),
        Family("coding", 4, lines_of("task_asks")),
        Family("library function", 3, lines_of("function_asks")),
        Family("maths", 4, lines_of("maths_asks")),
        Family("translation", 3, lines_of("translation_asks")),
        Family("passage", 9, lines_of("passage_asks")),
        Family("code completion", 2, ["{code_function}"], is_chat=False, finish=_source_file),
        Family("code completion", 3, lines_of("pattern_functions"), is_chat=False, finish=_source_file),
        Family("code in chat", 2, ["{code_function}"], finish=_code_in_chat),
        Family("text completion", 2, lines_of("text_openings"), is_chat=False, finish=_opening),
    ]
