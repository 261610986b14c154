"""`bass bench trace` and `bass bench replay`: what is recorded, and what comes of it."""
import json
import signal
import subprocess
import time

import pytest

COSTS = {"step_seconds": [[1, 0.01], [8, 0.012], [64, 0.05]], "draft_pass_seconds": [[1, 0.0005]]}
PROMPTS = [{"prompt": "The river rose in the night", "id": "prose/0"}, {"prompt": "def mean(values):", "id": "code/0"},
           {"prompt": "one two three one two three one", "id": "prose/1", "n": 2}]


@pytest.fixture
def trace(run, tiny, tmp_path):
    def make(*arguments):
        lines = "".join(json.dumps(line) + "\n" for line in PROMPTS)
        done = run("bench", "trace", "-m", tiny, "-d", tiny, "--prompts", "-", "--max-tokens", "20", "--max-drafts", "5",
                   *arguments, stdin=lines.encode())
        assert done.code == 0, done.err
        path = tmp_path / "a.trace"
        path.write_text(done.out)
        header, *sequences = map(json.loads, done.out.splitlines())
        return path, header, sequences

    return make


def replay(run, tmp_path, path, *arguments, costs=None):
    file = tmp_path / "costs.json"
    file.write_text(json.dumps(costs or COSTS))
    done = run("bench", "replay", "--trace", path, "--costs", file, "--json", *arguments)
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_a_trace_has_every_position_of_every_sequence(trace):
    _, header, sequences = trace("--temperature", "0.9")
    assert header["trace"] == 1 and header["max_drafts"] == 5 and header["verify"] == "rejection"
    assert header["temperature"] == pytest.approx(0.9)
    assert [sequence["task"] for sequence in sequences] == ["prose", "code", "prose", "prose"]
    for sequence in sequences:
        assert len(sequence["rounds"]) - sequence["tokens"] in (0, 1)
        for left, record in enumerate(reversed(sequence["rounds"])):
            drafts = record.get("model")
            assert (drafts is None) == (left == 0 and sequence["tokens"] == 20)
            if drafts is None:
                continue
            assert len({len(drafts[key]) for key in ("p", "q", "overlap", "block")}) == 1
            # The draft is the main model: nearly always the same probabilities (q is rounded to f16).
            assert drafts["p"] == pytest.approx(drafts["q"], rel=0.02)
            assert all(overlap > 0.99 for overlap in drafts["overlap"])


def test_a_greedy_trace_says_which_tokens_are_equal(trace):
    _, header, sequences = trace("--temperature", "0")
    assert header["verify"] == "match"
    drafts = [record["model"] for sequence in sequences for record in sequence["rounds"] if "model" in record]
    assert drafts and all(set(draft) == {"p", "confidence"} and set(draft["p"]) == {1.0} for draft in drafts)
    assert all(0 < confidence <= 1 for draft in drafts for confidence in draft["confidence"])
    ngrams = [record["ngram"] for sequence in sequences for record in sequence["rounds"] if "ngram" in record]
    assert ngrams and all(set(draft["p"]) <= {0.0, 1.0} and 2 <= draft["order"] <= 5 for draft in ngrams)


def test_traces_repeat_and_text_is_that_of_regular_decoding(run, trace, tiny):
    path, _, sequences = trace("--temperature", "0.9", "--seed", "7")
    first = path.read_text()
    assert trace("--temperature", "0.9", "--seed", "7")[0].read_text() == first
    lines = "".join(json.dumps(line) + "\n" for line in PROMPTS)
    regular = run("generate", "-m", tiny, "--prompts", "-", "--max-tokens", "20", "--temperature", "0.9", "--seed", "7",
                  "--drafter", "off", "--json", stdin=lines.encode()).json()
    lengths = [len(choice["token_ids"]) for prompt in regular["prompts"]
               for choice in sorted(prompt["choices"], key=lambda choice: choice["index"])]
    assert [sequence["tokens"] for sequence in sequences] == lengths


def test_replay_compares_policies(run, trace, tmp_path):
    path, _, _ = trace("--temperature", "0.9")
    rows = replay(run, tmp_path, path, "--batch", "1,4", "--draft-length", "goodput,bass:l0=3,inc=1,fixed:2", "--steps", "400",
                  "--drafter", "model")
    assert {row["batch"] for row in rows} == {1, 4}
    assert [row["policy"] for row in rows[:9]] == [f"fixed:{length}" for length in range(6)] + ["goodput", "bass:l0=3,inc=1",
                                                                                             "fixed:2"]
    by_policy = {row["policy"]: row for row in rows if row["batch"] == 1}
    assert by_policy["fixed:0"]["tokens_per_round"] == 1 and by_policy["fixed:0"]["mean_length"] == 0
    assert by_policy["fixed:2"]["tokens_per_round"] == pytest.approx(2.8, abs=0.3)  # nearly everything is accepted
    assert by_policy["goodput"]["regular_ratio"] > 1.5
    assert max(row["best_fixed_ratio"] for row in rows if row["policy"].startswith("fixed")) == 1


@pytest.mark.parametrize("length", [1, 3, 5])
def test_a_greedy_replay_has_the_steps_of_the_real_run(run, tiny, tmp_path, length):
    lines = "".join(json.dumps({"prompt": line["prompt"]}) + "\n" for line in PROMPTS).encode()
    arguments = ["-m", tiny, "--prompts", "-", "--temperature", "0", "--max-tokens", "40", "--drafter", "ngram"]
    path = tmp_path / "greedy.trace"
    path.write_text(run("bench", "trace", *arguments, stdin=lines).out)
    real = run("generate", *arguments, "--draft-length", f"fixed:{length}", "--json", stdin=lines).json()
    rows = replay(run, tmp_path, path, "--steps", "0", "--batch", "3", "--drafter", "ngram")
    found = next(row for row in rows if row["policy"] == f"fixed:{length}")
    n_steps = sum(real["speculation"]["draft_length_histogram"].values())
    assert found["tokens_per_round"] == pytest.approx(real["usage"]["completion_tokens"] / n_steps)
    assert found["mean_length"] == pytest.approx(real["speculation"]["drafted"] / n_steps)
    assert real["speculation"]["accepted"] > 0, "the test proves nothing"


def test_replay_of_a_machine_by_name_and_of_a_kept_table(run, trace, tmp_path):
    path, _, _ = trace("--temperature", "0")
    rows = replay(run, tmp_path, path, "--machine", "fast", "--steps", "50", "--noise", "0",
                  costs={"machines": {"slow": COSTS, "fast": {"step_seconds": [[1, 0.001]]}}})
    assert rows[0]["tokens_per_s"] == pytest.approx(1000)
    kept = {"key": "a machine", "step_seconds": [[n, 0.02 if n != 5 else 9.0] for n in range(1, 40)],
            "draft_step_seconds": [0.001] + [0] * 9}
    rows = replay(run, tmp_path, path, "--batch", "5", "--steps", "50", "--noise", "0", costs=kept)
    assert rows[0]["tokens_per_s"] == pytest.approx(250), "one disturbed entry is none of the machine's"
    # Attention that takes all of the time: three rows of a sequence cost as much as one where three are free.
    attention = {"step_seconds": [[1, 1e-9], [99, 1e-9]], "draft_pass_seconds": [[1, 1e-9]],
                 "attention_seconds": [0, 1e-3, 1e-3]}
    found = {}
    for free_rows in (1, 3):
        rows = replay(run, tmp_path, path, "--batch", "1", "--steps", "0", "--noise", "0", "--drafter", "model",
                      costs={**attention, "attention_free_rows": free_rows})
        found[free_rows] = {row["policy"]: row["tokens_per_s"] for row in rows}
    assert found[3]["fixed:0"] == pytest.approx(found[1]["fixed:0"])
    assert found[3]["fixed:2"] > 2 * found[3]["fixed:0"]  # nearly everything is accepted
    assert found[1]["fixed:2"] < 1.1 * found[1]["fixed:0"]


def test_block_accepts_at_least_as_much_as_rejection(run, trace):
    path, _, _ = trace("--temperature", "0.9")
    done = run("bench", "replay", "--trace", path, "--acceptance", "--by-task", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert {(row["task"], row["drafter"]) for row in rows} >= {("prose", "model"), ("code", "model"), ("prose", "ngram")}
    assert all(row["block_given_prefix"] >= row["rejection"] - 1e-9 for row in rows)
    assert {row["length"] for row in rows} == set(range(1, 6))


@pytest.mark.parametrize("text, words", [
    ("", "holds no generated text"), ("{}\n", "first line"), ("7\n", "no line of a trace"),
    ('{"trace": 1, "max_drafts": 99}\n', "max_drafts"), ('{"trace": 1, "max_drafts": 8}\n{"task": 1}\n', "no sequence"),
    ('{"trace":1,"max_drafts":8}\n{"task":"","prompt_tokens":1,"tokens":1,"rounds":[{"model":{"p":[2]}}]}\n', "damaged"),
    ('{"trace":1,"max_drafts":8}\n{"task":"","prompt_tokens":1,"tokens":1,"rounds":[{"model":{"p":[1],"q":[0]}}]}\n',
     "damaged"),
    ('{"trace":1,"max_drafts":8}\n{"task":"","prompt_tokens":1,"tokens":9,"rounds":[{}]}\n', "tokens")])
def test_damaged_traces(run, tmp_path, text, words):
    path = tmp_path / "damaged.trace"
    path.write_text(text)
    done = run("bench", "replay", "--trace", path, "--acceptance")
    assert done.code == 2 and "damaged.trace" in done.err and words in done.err


@pytest.mark.parametrize("costs, words", [
    ("[]", "step_seconds"), ("{", "damaged.json"), ('{"step_seconds": [[2, 1], [1, 1]]}', "ascending"),
    ('{"step_seconds": [[1, 0]]}', "step_seconds"), ('{"machines": {"a": {}}}', "one of: a"),
    ('{"step_seconds": [[1, 1]], "attention_seconds": [0, 1]}', "attention_seconds"),
    ('{"step_seconds": [[1, 1]], "attention_seconds": [0, 1, 1], "attention_free_rows": 0}', "attention_free_rows")])
def test_damaged_costs(run, trace, tmp_path, costs, words):
    path, _, _ = trace("--temperature", "0")
    file = tmp_path / "damaged.json"
    file.write_text(costs)
    done = run("bench", "replay", "--trace", path, "--costs", file)
    assert done.code == 2 and words in done.err


def test_lines_that_would_make_runs_differ(run, tiny):
    """Each drafter repeats the run: a line's own seed counts, none means the trace's, and a deadline is refused."""
    traced = lambda line: run("bench", "trace", "-m", tiny, "-d", tiny, "--prompts", "-", "--max-tokens", "8",
                              "--temperature", "1", stdin=(json.dumps(line) + "\n").encode())
    plain, unseeded = traced({"prompt": "a b"}), traced({"prompt": "a b", "seed": None, "draft_length": "fixed:1"})
    assert plain.code == unseeded.code == 0, unseeded.err
    assert plain.out == unseeded.out != traced({"prompt": "a b", "seed": 2}).out
    refused = traced({"prompt": "a b", "time_budget": 1e-9})
    assert refused.code == 2 and '"time_budget": a trace runs to the end' in refused.err
    single = traced({"prompt": "a b", "max_tokens": 1})
    assert single.code == 0 and json.loads(single.out.splitlines()[1])["rounds"] == [{}], single.err


@pytest.mark.parametrize("command", [["machine"], ["replay", "--trace", "a.trace", "--costs", "costs.json", "--steps", "10000000"]])
def test_an_interrupted_bench_says_so(binary, trace, tmp_path, command):
    trace("--temperature", "0.9")
    (tmp_path / "costs.json").write_text(json.dumps({"step_seconds": [[1, 0.01], [64, 0.02]]}))
    with subprocess.Popen([binary, "bench", *command], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        time.sleep(0.5)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
    assert child.returncode == 130
