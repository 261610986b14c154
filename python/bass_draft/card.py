"""`python -m bass_draft.card CARD.md REPORT.json...` writes what `bass-draft eval -o` found into a draft's card, between
two marks, so that the figures there are those of a command."""

import argparse
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bass_draft.errors import UserError
from bass_draft.files import file_errors, write_text

BEGIN = "<!-- acceptance: written by python -m bass_draft.card -->\n"
END = "<!-- acceptance: end -->\n"


def table(reports: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: a row for each task of each report, its "all" at the end where there are several tasks."""
    lines = ["| prompts | task | positions | temperature 1 | tokens a round | temperature 0 | tokens a round |",
             "|---|---|---|---|---|---|---|"]
    for report in reports:
        sampled, greedy = report["temperature_1"], report["temperature_0"]
        tasks = sorted(sampled, key=lambda task: (task == "all", task))
        if len(tasks) == 2:
            tasks.remove("all")  # the same again
        for task in tasks:
            cells = [pathlib.PurePath(report["prompts"]).name, task, str(sampled[task]["rows"])]
            for figures in (sampled[task], greedy[task]):
                cells.append(" ".join(f"{share:.2f}" for share in figures["acceptance"]))
                cells.append(f"{figures['tokens_per_round']:.2f}")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def with_table(card: str, text: str) -> str:
    """The card with `text` in the place of what stood between the marks."""
    before, mark, rest = card.partition(BEGIN)
    _, end_mark, after = rest.partition(END)
    if not mark or not end_mark:
        raise UserError(f"the card has no place for the table; put these two lines there:\n{BEGIN}{END}")
    return before + BEGIN + text + END + after


def _read_report(path: pathlib.Path) -> Mapping[str, Any]:
    with file_errors(path):
        text = path.read_text(encoding="utf-8")
    try:
        report = json.loads(text)
        table([report])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: is no report of `bass-draft eval -o FILE.json`") from error
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bass_draft.card", description=__doc__)
    parser.add_argument("card", type=pathlib.Path, help="Markdown file with the two marks")
    parser.add_argument("reports", type=pathlib.Path, nargs="+", help="of `bass-draft eval -o`")
    given = parser.parse_args(arguments)
    try:
        reports = [_read_report(path) for path in given.reports]
        with file_errors(given.card):
            card = given.card.read_text(encoding="utf-8")
        write_text(given.card, with_table(card, table(reports)))
        return 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
