"""`bass-draft make`: text, training and file in one go."""

import argparse
import math
import pathlib

from bass_draft.budget import Budget
from bass_draft.device import choose_device
from bass_draft.errors import UserError
from bass_draft.progress import say
from bass_draft.stages import Stages

# Part of the time in which text is made: about as much as is then trained on once. Text that is new is worth more than
# text that comes again; a GPU trains much faster, and the text comes from the engine all the same.
_TEXT_SHARES = {"cpu": 0.3, "cuda": 0.75}
_DEFAULT_HOURS = 2.0
_DEFAULT_EPOCHS = 4


def make(options: argparse.Namespace) -> None:
    """--hours H bounds both stages; --tokens N is how much text is generated, and trained on a few times over; --positions N
    alone generates as much as is then trained on as often. With several, what is reached first ends a stage."""
    hours = options.hours or (None if options.tokens or options.positions else _DEFAULT_HOURS)
    if options.text_share and not hours:
        raise UserError("--text-share: is a part of the time; give --hours too")
    seconds = hours * 3600 if hours else None
    n_wanted = options.tokens or (None if hours else math.ceil(options.positions / _DEFAULT_EPOCHS))
    share = options.text_share or _TEXT_SHARES[choose_device(options.device)]
    stages, out = Stages(options), pathlib.Path(options.output)
    stages.check(out)  # what is refused leaves no work folder
    with stages.lock():
        n_tokens = stages.generate(Budget(seconds and seconds * share, n_wanted, "tokens"))
        say(f"text: {n_tokens} tokens in {stages.work / 'text'}")
        n_positions = options.positions or (options.tokens and n_tokens * _DEFAULT_EPOCHS)
        stages.train(Budget(seconds and seconds * (1 - share), n_positions or None, "positions"))
        stages.export(out)
