"""The main model's own text on disk: shards, each a JSONL file that is complete or absent."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Iterator

from bass_draft.errors import UserError
from bass_draft.files import read_jsonl, write_text


@dataclasses.dataclass(frozen=True)
class Text:
    """A prompt and one answer to it, as the tokens that the main model saw and emitted (without an end token)."""

    task: str
    prompt_ids: list[int]
    ids: list[int]
    temperature: float
    answer: str  # the answer as text: later prompts are about it

    @property
    def tokens(self) -> list[int]:
        return self.prompt_ids + self.ids


def shard_path(directory: pathlib.Path, index: int) -> pathlib.Path:
    return directory / f"{index:05d}.jsonl"


def n_shards(directory: pathlib.Path) -> int:
    """Shards are made in order, so those that are there are 0..n-1."""
    n = 0
    while shard_path(directory, n).exists():
        n += 1
    return n


def write_shard(directory: pathlib.Path, index: int, texts: Iterable[Text]) -> None:
    lines = (json.dumps(dataclasses.asdict(text), ensure_ascii=False) + "\n" for text in texts)
    write_text(shard_path(directory, index), "".join(lines))


def read_shard(directory: pathlib.Path, index: int) -> list[Text]:
    path = shard_path(directory, index)
    try:
        return [Text(**line) for _, line in read_jsonl(path)]
    except TypeError as error:
        raise UserError(f"{path}: not a shard of texts ({error}); delete it and run `bass-draft generate`") from error


def read_all(directory: pathlib.Path) -> Iterator[list[Text]]:
    for index in range(n_shards(directory)):
        yield read_shard(directory, index)
