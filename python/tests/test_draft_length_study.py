"""The statistics and the plan of experiments/draft_length."""

import argparse
import json
import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "experiments" / "draft_length"))
import analysis  # noqa: E402
import cells  # noqa: E402
import engine  # noqa: E402
import replays  # noqa: E402
import rules  # noqa: E402


def rounds_of(speeds, n=8, noise=0.03, seed=1):
    """n rounds of {policy: tokens/s}; the machine's speed moves from round to round, and each run has its own noise."""
    generator = random.Random(seed)
    rounds = {}
    for number in range(n):
        machine = generator.uniform(0.5, 1.5)
        rounds[number] = {policy: machine * speed * generator.gauss(1, noise) for policy, speed in speeds.items()}
    return rounds


def test_ratios_are_within_a_round():
    rounds = rounds_of({"off": 100, "goodput": 150}, noise=0)
    assert analysis.ratios(rounds, "goodput", "off") == pytest.approx([1.5] * 8)
    del rounds[3]["off"]
    assert len(analysis.ratios(rounds, "goodput", "off")) == 7


def test_results_are_of_decoding_or_of_all_steps():
    row = {"cell": "c", "round": 0, "policy": "off", "tokens_per_s": 5.0}
    lines = [json.dumps(row), json.dumps({**row, "round": 1, "total_tokens_per_s": 3.0}), '{"cell": "c", "rou']
    assert analysis.read_results(lines) == {"c": {0: {"off": 5.0}, 1: {"off": 5.0}}}
    assert analysis.read_results(lines, is_total=True) == {"c": {1: {"off": 3.0}}}


def test_intervals_hold_the_truth_as_often_as_they_say():
    held = 0
    for seed in range(100):
        values = analysis.ratios(rounds_of({"off": 100, "goodput": 120}, seed=seed, n=12), "goodput", "off")
        median, low, high = analysis.bootstrap(values, n=400, seed=seed)
        assert low <= median <= high
        held += low <= 1.2 <= high
    assert held >= 85
    assert analysis.bootstrap([]) == (None, None, None)


def test_the_best_length_is_chosen_on_other_rounds_than_it_is_judged_on():
    # All lengths are equally good: the one that was lucky on all rounds looks better than the policy, which it is not.
    speeds = {"off": 100, "goodput": 100} | {policy: 100 for policy in cells.FIXED}
    fair = [analysis.cell_summary(rounds_of(speeds, n=6, noise=0.1, seed=seed), "goodput")["to_best_fixed"][0]
            for seed in range(60)]
    lucky = []
    for seed in range(60):
        rounds = rounds_of(speeds, n=6, noise=0.1, seed=seed)
        lucky.append(analysis.bootstrap(analysis.ratios(rounds, "goodput", analysis.best_fixed(rounds)))[0])
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    assert mean(fair) == pytest.approx(1, abs=0.03)
    assert mean(lucky) < mean(fair) - 0.02


def test_verdicts():
    good = analysis.cell_summary(rounds_of({"off": 100, "fixed:3": 150, "bass": 120, "goodput": 149}), "goodput")
    assert good["best_fixed"] == "fixed:3" and not good["is_slower"] and not good["is_far_from_best"]
    assert good["to_bass"][0] == pytest.approx(149 / 120, rel=0.05)
    bad = analysis.cell_summary(rounds_of({"off": 100, "fixed:3": 150, "goodput": 90}), "goodput")
    assert bad["is_slower"] and bad["is_far_from_best"]


def test_over_algorithm_1_counts_cells_where_drafting_pays():
    results = {"pays": rounds_of({"off": 100, "fixed:2": 150, "bass": 110, "goodput": 143}, noise=0.001),
               "does not": rounds_of({"off": 100, "fixed:2": 50, "bass": 40, "goodput": 100}, noise=0.001)}
    mean, low, high = analysis.over_bass(results, "goodput")
    assert low <= mean <= high and mean == pytest.approx(1.3, rel=0.01)
    assert analysis.over_bass(results)[0] == pytest.approx(150 / 110, rel=0.01)  # the best length's
    assert analysis.over_bass({"does not": results["does not"]}, "goodput") == (None, None, None)


def test_lengths_far_behind_are_left_out_and_nothing_else():
    speeds = {"off": 100, "fixed:1": 130, "fixed:2": 150, "fixed:8": 60, "bass": 50, "goodput": 40}
    assert analysis.pruned({}, list(speeds)) == list(speeds)
    # One round may be wrong by more than several.
    for n, left in (1, ["off", "fixed:1", "fixed:2", "bass", "goodput"]), (2, ["off", "fixed:2", "bass", "goodput"]):
        assert analysis.pruned(rounds_of(speeds, n=n, noise=0.001), list(speeds)) == left


def test_results_are_read_by_cell_and_round():
    lines = [json.dumps({"cell": "a", "round": number, "policy": policy, "tokens_per_s": 10.0 * number})
             for number in (0, 1) for policy in ("off", "bass")]
    assert analysis.read_results(lines) == {"a": {0: {"off": 0.0, "bass": 0.0}, 1: {"off": 10.0, "bass": 10.0}}}


def test_the_plan_has_the_cells_that_were_asked_for():
    plan = cells.all_cells()
    assert len({cell.name for cell in plan}) == len(plan)
    tasks = [cell for cell in plan if cell.task in cells.TASKS and cell.draft == "shipped"]
    assert {(cell.task, cell.batch, cell.temperature) for cell in tasks} == {
        (task, batch, temperature) for task in ("code", "chat", "summarisation", "translation") for batch in (1, 4, 8, 32)
        for temperature in (0.0, 0.8)}
    assert {(cell.draft, cell.batch) for cell in plan if cell.draft != "shipped"} == {
        (draft, batch) for draft in ("poor", "none") for batch in (1, 8, 32)}
    assert {cell.batch for cell in plan if cell.task == "long"} == {8, 32}
    assert {f"fixed:{length}" for length in range(1, 9)} | {"off", "bass", "goodput"} <= set(cells.POLICIES)


def test_long_prompts_differ_and_have_their_length():
    prompts = [line["prompt"] for line in cells.long_prompts([f"Passage {i}. " + "word " * 400 for i in range(40)])]
    assert len(set(prompts)) == 64 and {10000 < len(prompt) < 17600 for prompt in prompts} == {True}


def test_rounds_have_prompts_of_their_own():
    by_task = {"code": [{"prompt": str(i), "chat": False} for i in range(100)]}
    cell = cells.Cell("code", 8, 0.0)
    first, second = (cells.prompts_of(cell, by_task, number) for number in (0, 1))
    assert [line["prompt"] for line in first] == [str(i) for i in range(8)]
    assert {line["id"] for line in first}.isdisjoint(line["id"] for line in second)
    assert all(line["id"].startswith("code/") for line in first)


def test_more_rows_never_cost_less():
    pytest.importorskip("gguf")
    costs = __import__("costs")
    assert costs.curve({1: [1.0, 3.0, 2.0], 2: [5.0], 4: [3.0], 8: [6.0]}) == [[1, 2.0], [2, 4.0], [4, 4.0], [8, 6.0]]
    assert costs.mean_length(8, 24) == pytest.approx((15 * 8 + sum(range(8))) / 23)


def test_replays_are_summed_up_by_cell():
    lines = [{"machine": "m", "temperature": 0.8, "task": task, "batch": 8, "policy": policy, "tokens_per_s": speed}
             for task, fast in (("a", 2.0), ("b", 0.5))
             for policy, speed in {"fixed:0": 100, "fixed:1": 100 * fast, **dict.fromkeys(replays.POLICIES, 110),
                                   "bass": 55}.items()]
    found = replays.speeds(lines)
    assert [replays.best_fixed(found["m", 0.8, task, 8]) for task in "ab"] == [(200, 1), (100, 0)]
    assert "| `goodput` | 1.100 | 1.10 | 0.550 | 0.778 |" in replays.summary_table(found)
    assert replays.batch_table(found).endswith("| m | 0.8 | 8 | 1.41 | 1.10 | 1.10 | 0.55 | 1.10 | 1.10 |")
    assert replays.over_algorithm_1(found) == (pytest.approx(2.0), 1)


def test_traces_name_the_draft_that_comes_with_the_model():
    options = argparse.Namespace(model="smollm2", draft=None)
    assert replays.draft_arguments(options) == ["-d", engine.SHIPPED]
    assert replays.draft_arguments(options, "poor.gguf") == ["-d", "poor.gguf"]
    assert replays.draft_arguments(argparse.Namespace(model="other.gguf", draft=None)) == []
    assert replays.draft_arguments(argparse.Namespace(model="other.gguf", draft="its.gguf")) == ["-d", "its.gguf"]


def test_cells_where_block_accepts_less_are_found():
    row = {"draft": "shipped", "task": "chat", "drafter": "model", "length": 2, "rejection": 0.5, "block": 0.49,
           "block_given_prefix": 0.55}
    rows = [row, {**row, "length": 3}, {**row, "drafter": "ngram", "block_given_prefix": 0.5}]
    assert rules.worse_cells(rows) == []
    assert rules.table(rows).splitlines()[2:] == ["| shipped | chat | 2 | 0.500 | 0.550 | 10.0 % | 0.490 |"]
    worse = {**row, "block_given_prefix": 0.499}
    assert rules.worse_cells([*rows, worse]) == [worse]
