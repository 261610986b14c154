"""Which prompt has which number."""

import dataclasses
import random
from collections.abc import Sequence

from bass_draft.prompts.families import Family, all_families, fill

TEMPERATURES = (0.0, 0.7, 1.0)
_MAX_SEED = 2**63


@dataclasses.dataclass(frozen=True)
class Prompt:
    """A prompt and how its answer is sampled. Lengths in tokens."""

    task: str
    text: str
    is_chat: bool
    temperature: float
    seed: int
    max_tokens: int | None = None  # None: the command's


class PromptGenerator:
    """An endless list of prompts, fixed by its seed: the same number is always the same prompt.

    Families take turns by their weights; within one the templates take turns, and each goes through its combinations
    of words in a shuffled order. So nothing repeats until a template has used up all of them.
    """

    def __init__(self, seed: int):
        self._seed = seed
        self._families = all_families()
        self._round = [i for i, family in enumerate(self._families) for _ in range(family.weight)]
        random.Random(f"{seed} round").shuffle(self._round)
        self._ranks = [self._round[:place].count(index) for place, index in enumerate(self._round)]

    def prompt(self, number: int, passages: Sequence[str] = ()) -> Prompt:
        """Prompt `number` (from 0). `passages` are texts for those prompts that are about a text; without any, a
        question of the first family stands in for such a prompt, from the other end of its order."""
        n_rounds, place = divmod(number, len(self._round))
        index = self._round[place]
        family = self._families[index]
        rank = n_rounds * family.weight + self._ranks[place]
        if family.needs_passages and not passages:
            index, family, rank = 0, self._families[0], -1 - rank
        rng = random.Random(f"{self._seed} prompt {number}")
        return Prompt(family.task, self._text(index, family, rank, passages, rng), family.is_chat,
                      rng.choice(TEMPERATURES), rng.randrange(_MAX_SEED))

    def _text(self, index: int, family: Family, rank: int, passages: Sequence[str], rng: random.Random) -> str:
        n_turns, which = divmod(rank, len(family.templates))
        template = family.templates[which]
        if family.needs_passages:
            return fill(template, n_turns, rng, passages)
        # One order for all prompts of a template.
        text = fill(template, n_turns, random.Random(f"{self._seed} {index} {which}"), ())
        return family.finish(text, rank)
