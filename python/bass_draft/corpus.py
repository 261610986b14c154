"""The texts of a work folder as training examples, shard by shard, in an order that a seed fixes."""

import pathlib
import random
from collections.abc import Iterator

from bass_draft import text_shards
from bass_draft.batches import Example, pack
from bass_draft.errors import UserError
from bass_draft.features import FeatureStore
from bass_draft.text_shards import Text

_HELD_OUT_EVERY = 6  # of the first shard


class Corpus:
    """Training batches and held-out examples. Texts are cut to `max_text_len` tokens, their beginnings kept; those that have
    no token of the answer then are left out."""

    def __init__(self, directory: pathlib.Path, store: FeatureStore, max_text_len: int):
        self._directory = directory
        self._store = store
        self._max_text_len = max_text_len
        self.n_shards = text_shards.n_shards(directory)
        if self.n_shards == 0:
            raise UserError(f"{directory}: there is no text yet; run `bass-draft generate` first")

    def texts(self) -> Iterator[Text]:
        for shard in text_shards.read_all(self._directory):
            yield from shard

    def held_out(self) -> list[tuple[str, Example]]:
        """(task, example) of the texts that are not trained on."""
        texts = text_shards.read_shard(self._directory, 0)
        return [(texts[i].task, example) for i, example in self._examples(0) if i % _HELD_OUT_EVERY == 0]

    def shard_groups(self, epoch: int, shard: int, seed: int, max_rows: int) -> Iterator[list[Example]]:
        """Texts of a shard that make a batch."""
        examples = [example for i, example in self._examples(shard) if shard > 0 or i % _HELD_OUT_EVERY != 0]
        random.Random(f"{seed} epoch {epoch} shard {shard}").shuffle(examples)
        yield from pack(examples, max_rows)
        del examples
        self._store.release(f"{shard:05d}")

    def _examples(self, shard: int) -> list[tuple[int, Example]]:
        """With the text's number in the shard. Row prompt_len - 1 predicts the first token of the answer."""
        texts = [text for text in text_shards.read_shard(self._directory, shard)]
        cut = [text.tokens[:self._max_text_len] for text in texts]
        first_of = lambda i: max(len(texts[i].prompt_ids) - 1, 0)
        kept = [i for i, tokens in enumerate(cut) if first_of(i) < len(tokens)]  # others have no row of the answer
        if not kept:
            return []
        first = [first_of(i) for i in kept]
        features = self._store.load(f"{shard:05d}", [cut[i] for i in kept], first)
        return list(zip(kept, map(Example, features)))
