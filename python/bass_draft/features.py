"""What a draft learns from: the main model's hidden states and next-token distributions, a file for each shard.

They take about 5.5 KB a token, so they are made when they are needed and kept only as far as the disk budget allows."""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from bass_draft.engine import Engine
from bass_draft.errors import UserError
from bass_draft.files import remove_partial_files, remove_unlocked
from bass_draft.progress import say
from bass_draft.tensor_file import read_tensors


@dataclasses.dataclass(frozen=True)
class TextFeatures:
    """Of one text with n tokens: views into a file.
    taps: bfloat16 bits [n, n_taps, main_width] or None; top_ids, top_logprobs: [n - first, n_top], likeliest first, of
    the positions from `first` on, which predict tokens of the answer."""

    tokens: np.ndarray
    taps: np.ndarray | None
    top_ids: np.ndarray
    top_logprobs: np.ndarray

    @property
    def first(self) -> int:
        return len(self.tokens) - len(self.top_ids)


class FeatureStore:
    """Makes features by `bass features` and keeps the files in `directory`, up to `max_bytes` of them."""

    def __init__(self, engine: Engine, directory: pathlib.Path, layers: Sequence[int], n_top: int, max_bytes: int):
        self._engine = engine
        self._directory = directory
        self._layers = list(layers)
        self._n_top = n_top
        self._max_bytes = max_bytes
        remove_partial_files(directory)
        remove_unlocked(directory.glob("*.bass-tmp"))  # of a killed engine, as large as the file that it was to be
        # Those with other likely tokens nobody would read or remove; other layers are other drafts'.
        for path in {*directory.glob(self._path("*", "*").name)} - {*directory.glob(self._path("*").name)}:
            path.unlink()

    def load(self, name: str, texts: Sequence[Sequence[int]], first: Sequence[int]) -> list[TextFeatures]:
        """The features of `texts` (token ids), which always come under the same name. first: [n_texts], the position
        from which on the likely next tokens of each are needed."""
        path = self._path(name)
        if not path.exists():
            say(f"hidden states of {sum(map(len, texts))} tokens ({name}) are made")  # it takes minutes
            self._engine.features(texts, first, self._layers, self._n_top, path)
        return self._split(path, texts, first)

    def release(self, name: str) -> None:
        """The features of `name` are not needed for now: they go if all files together are too large."""
        total = sum(path.stat().st_size for path in self._directory.glob("*.safetensors"))
        if total > self._max_bytes:
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str, tokens: str | None = None) -> pathlib.Path:
        layers = "_".join(map(str, self._layers)) or "none"
        return self._directory / f"{name}.layers_{layers}.{tokens or f'answered_top_{self._n_top}'}.safetensors"

    def _split(self, path: pathlib.Path, texts: Sequence[Sequence[int]], first: Sequence[int]) -> list[TextFeatures]:
        tensors, _ = read_tensors(path)
        tokens, taps = tensors["tokens"], tensors.get("taps")
        starts = np.cumsum([0, *map(len, texts)])
        top_starts = np.cumsum([0, *(len(text) - at for text, at in zip(texts, first))])
        flat = np.fromiter((token for text in texts for token in text), np.int32)
        found = [tokens, tensors["starts"], tensors.get("top_starts", ())]
        if not all(map(np.array_equal, found, [flat, starts, top_starts])):
            raise UserError(f"{path}: is of other texts; delete it and run the command again")
        return [TextFeatures(tokens[begin:end], taps[begin:end] if taps is not None else None,
                             tensors["top_ids"][top_begin:top_end], tensors["top_logprobs"][top_begin:top_end])
                for begin, end, top_begin, top_end in zip(starts, starts[1:], top_starts, top_starts[1:])]
