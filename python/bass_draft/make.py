"""`bass-draft make`: text, training and file in one go."""

import argparse
import pathlib

from bass_draft.budget import Budget
from bass_draft.progress import say
from bass_draft.stages import Stages

# Of the time: unique text is worth more than more training on it.
_GENERATE_SHARE, _TRAIN_SHARE = 0.55, 0.45
_DEFAULT_HOURS = 2.0
_DEFAULT_EPOCHS = 4


def make(options: argparse.Namespace) -> None:
    """--hours H bounds both stages; --tokens N is how much text is generated, and trained on a few times over. With
    both, what is reached first ends a stage."""
    hours = options.hours if options.hours or options.tokens else _DEFAULT_HOURS
    seconds = hours * 3600 if hours else None
    stages = Stages(options)
    n_tokens = stages.generate(Budget(seconds and seconds * _GENERATE_SHARE, options.tokens, "tokens"))
    say(f"text: {n_tokens} tokens in {stages.work / 'text'}")
    n_positions = options.positions or (options.tokens and n_tokens * _DEFAULT_EPOCHS)
    stages.train(Budget(seconds and seconds * _TRAIN_SHARE, n_positions or None, "positions"))
    stages.export(pathlib.Path(options.output))
