#!/usr/bin/env python3
"""Tokens of a round if drafts came from a draft model, from n-grams, or from both, on the main model's own answers: what
mixing them could bring. Reads prompts as prompts.py writes them; prints Markdown tables. Needs what
`pip install './python[draft]'` brings.

`model` and `ngram` draft alone; `order >= N` takes the n-gram's draft where so many tokens match, else the model's; `best
of both` takes at each drafted position whichever is likelier to be accepted there, as if that were known: no policy can
choose better. Two means: over the rounds of a run (tokens over expected rounds), and over all positions of the answers as
beginnings of a round, as `bass-draft eval` prints it, where text that is easy to draft counts for more. The n-grams are the engine's
(orders 2 to 5 of prompt and answer, the latest occurrence of the longest match), without siblings' answers."""

import argparse
import collections
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "python")]

import numpy as np  # noqa: E402

from bass_draft.engine import Engine, find_bass  # noqa: E402
from bass_draft.evaluate import EvalOptions, answer_examples, load_draft  # noqa: E402
from bass_draft.main_model import load_main_model  # noqa: E402
from bass_draft.measure import measured_rows  # noqa: E402

_MIN_ORDER, _MAX_ORDER = 2, 5
_ORDERS = (2, 3, 4, 5)  # from which on the mixtures prefer n-grams


class Ngrams:
    """Where each n-gram of a growing text last ended."""

    def __init__(self):
        self._ends = {}

    def learn(self, text, end):
        for order in range(_MIN_ORDER, min(_MAX_ORDER, end + 1) + 1):
            self._ends[tuple(text[end - order + 1:end + 1])] = end

    def draft(self, known, length):
        """(order of the match, what followed it); behind the end of the text it repeats itself."""
        for order in range(min(_MAX_ORDER, len(known)), _MIN_ORDER - 1, -1):
            end = self._ends.get(tuple(known[-order:]))
            if end is not None:
                text = list(known)
                for place in range(end + 1, end + 1 + length):
                    text.append(text[place])
                return order, text[len(known):]
        return 0, []


def tokens_of_rounds(chances):
    """Of the round that begins at each position: 1 + P(first accepted) + P(first two accepted) + ... -> [n_positions]"""
    return 1 + np.cumprod(chances, axis=1).sum(axis=1)


def expected_rounds(chances):
    """Of a run from the first position to behind the last one. chances [n_positions, length]: that the j-th drafted token
    of a round that begins there is accepted if all before it are."""
    n_positions, length = chances.shape
    rounds = np.zeros(n_positions + length + 1)
    for begin in range(n_positions - 1, -1, -1):
        reached = np.concatenate([[1], np.cumprod(chances[begin]), [0]])
        rounds[begin] = 1 + (reached[:-1] - reached[1:]) @ rounds[begin + 1:begin + 2 + length]
    return float(rounds[0])


def chances_by_column(tokens, first, model_chances, length):
    """Of each column [n_positions, length]. model_chances: [length, rows], step s of row p is of token p + 1; 0 behind the
    end of the text."""
    ngrams = Ngrams()
    for end in range(first):
        ngrams.learn(tokens, end)
    n_positions = len(tokens) - 1 - first
    model, hits, orders = np.zeros((n_positions, length)), np.zeros((n_positions, length)), np.zeros((n_positions, 1))
    for place, begin in enumerate(range(first, len(tokens) - 1)):
        orders[place], proposed = ngrams.draft(tokens[:begin + 1], length)
        ngrams.learn(tokens, begin)
        for j in range(min(length, n_positions - place)):
            model[place, j] = model_chances[j, begin + j]
            hits[place, j] = j < len(proposed) and proposed[j] == tokens[begin + 1 + j]
    mixed = {f"order >= {least}": np.where(orders >= least, hits, model) for least in _ORDERS}
    return {"model": model, "ngram": hits, **mixed, "best of both": np.maximum(model, hits)}


class Sums:
    """Of the texts of a task."""

    def __init__(self):
        self.n_positions = 0
        self.rounds = collections.Counter()
        self.tokens = collections.Counter()

    def add(self, columns):
        for column, chances in columns.items():
            self.rounds[column] += expected_rounds(chances)
            self.tokens[column] += float(tokens_of_rounds(chances).sum())
        self.n_positions += len(chances)

    def over_rounds(self, column):
        return self.n_positions / self.rounds[column]

    def over_positions(self, column):
        return self.tokens[column] / self.n_positions


def print_table(title, by_task, figure):
    columns = list(by_task["all"].rounds)
    print(f"\n{title}\n\n| task | positions | {' | '.join(columns)} |\n" + "|---" * (len(columns) + 2) + "|")
    for task, sums in by_task.items():
        print(f"| {task} | {sums.n_positions} | " + " | ".join(f"{figure(sums, column):.2f}" for column in columns) + " |",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("prompts", type=pathlib.Path, metavar="PROMPTS.jsonl")
    add("-d", "--draft", type=pathlib.Path, required=True, metavar="DRAFT.gguf", help="of the kind that bass-draft makes")
    add("-m", "--model", default="smollm2")
    add("--bass", default=None)
    add("--draft-length", type=int, default=4)
    add("--max-tokens", type=int, default=128)
    options = parser.parse_args()
    engine = Engine(find_bass(options.bass), options.model)
    main_model = load_main_model(engine)
    shape, model, indices = load_draft(main_model, options.draft, 1)
    for temperature in (0.0, 1.0):
        by_task, total = collections.defaultdict(Sums), Sums()
        for task, example in answer_examples(engine, main_model, options.prompts, temperature, shape.tap_layers,
                                             EvalOptions(max_tokens=options.max_tokens)):
            (accepted, is_best, is_valid), = measured_rows(model, [example], indices, options.draft_length, "cpu")
            tokens = [int(token) for token in example.features.tokens]
            if len(tokens) - 1 <= example.first:
                continue  # an empty answer
            columns = chances_by_column(tokens, example.first, (is_best if temperature == 0 else accepted) * is_valid,
                                        options.draft_length)
            by_task[task].add(columns)
            total.add(columns)
        by_task = {**dict(sorted(by_task.items())), "all": total}
        print_table(f"Temperature {temperature:.0f}, over rounds", by_task, Sums.over_rounds)
        print_table(f"Temperature {temperature:.0f}, over positions", by_task, Sums.over_positions)


if __name__ == "__main__":
    main()
