"""A bar on standard error: of time or of a count, whichever bounds the stage."""

import contextlib
import sys
from collections.abc import Iterator

import tqdm

from bass_draft.budget import Budget


class ProgressBar:
    def __init__(self, bar: tqdm.tqdm, budget: Budget):
        self._bar = bar
        self._budget = budget

    def update_to(self, used_s: float, n_done: int, note: str = "") -> None:
        self._bar.set_postfix_str(f"{n_done} {self._budget.unit}, {n_done / max(used_s, 1e-9):.0f}/s {note}".rstrip(),
                                  refresh=False)
        self._bar.update(100 * self._budget.fraction(used_s, n_done) - self._bar.n)


@contextlib.contextmanager
def progress_bar(title: str, budget: Budget, used_s: float, n_done: int) -> Iterator[ProgressBar]:
    form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
    # Where nobody watches, a line every half minute is enough.
    interval_s = 0.5 if sys.stderr.isatty() else 30.0
    start = 100 * budget.fraction(used_s, n_done)
    with tqdm.tqdm(total=100.0, initial=start, desc=title, bar_format=form, mininterval=interval_s) as bar:
        yield ProgressBar(bar, budget)


def say(text: str) -> None:
    """A line on standard error, above the bar if there is one."""
    tqdm.tqdm.write(text, file=sys.stderr)
