"""The measurements of `bass bench`: the shape of their output, never their figures."""
import json

import pytest

MACHINE = {"isa", "n_threads", "bandwidth_gb_s", "peak_tops"}
CLASSES = {"int8_dot", "int16_dot", "f32_fma"}


def rows_of(done):
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def check_machine(machine):
    assert MACHINE <= set(machine) and set(machine["peak_tops"]) == CLASSES
    assert machine["bandwidth_gb_s"] > 0 and all(peak > 0 for peak in machine["peak_tops"].values())


def test_machine(run):
    rows = rows_of(run("bench", "machine", "--threads", "1,2", "--memory", "1", "--json"))
    assert [row["n_threads"] for row in rows] == [1, 2]
    for row in rows:
        check_machine(row)
        assert row["processor"] and row["memory_mib"] == 1
        assert {"F32", "Q4_1", "Q8_0"} <= {ceiling["format"] for ceiling in row["ceilings"]}
        for ceiling in row["ceilings"]:
            assert set(ceiling) == {"format", "rows", "tops", "class", "peak_fraction"}
            assert ceiling["rows"] in (12, 32) and ceiling["tops"] > 0 and ceiling["class"] in CLASSES


def test_machine_obeys_the_instruction_set(run):
    done = run("bench", "machine", "--threads", "1", "--memory", "1", env={"BASS_FORCE_ISA": "avx2"})
    assert done.code == 0, done.err
    assert "avx2, 1 thread: " in done.out and "Q4_1" in done.out


def test_step(run, tiny):
    arguments = ["bench", "step", "-m", tiny, "--batch", "1,3", "--prompt-tokens", "16", "--generate-tokens", "12"]
    rows = rows_of(run(*arguments, "--json"))
    assert [row["batch"] for row in rows] == [1, 3]
    for row in rows:
        assert list(row) == ["batch", "prompt_tokens", "generate_tokens", "mode", "n_steps", "step", "parts", "draft_pass", "machine",
                             "model"]
        assert (row["prompt_tokens"], row["generate_tokens"], row["mode"]) == (16, 12, "regular")
        assert row["n_steps"] >= 11  # the first token's step carries the prompt
        check_machine(row["machine"])
        parts = {part["name"]: part for part in row["parts"]}
        assert list(parts) == ["schedule", "embed", "norm and quantise", "qkv", "rope, write kv", "attention", "output",
                               "gate, up", "down", "head", "sample", "commit"]
        assert sum(part["s"] for part in parts.values()) == pytest.approx(row["step"]["s"])
        assert sum(part["share"] for part in parts.values()) == pytest.approx(1)
        for name in ("qkv", "output", "gate, up", "down", "head"):
            assert parts[name]["bytes"] > 0 and parts[name]["operations"]["int8_dot"] > 0
            assert parts[name]["limit_fraction"] == pytest.approx(parts[name]["limit_s"] / parts[name]["s"])
        assert parts["attention"]["operations"]["int16_dot"] > 0 == parts["attention"]["operations"]["int8_dot"]
    text = run(*arguments)
    assert text.code == 0 and "3 sequences, 16 prompt tokens, 12 generated, regular" in text.out
    assert "GB/s" in text.err and "gate, up" in text.out


def test_step_with_a_draft_model_and_sampling(run, tiny):
    rows = rows_of(run("bench", "step", "-m", tiny, "-d", tiny, "--draft-length", "fixed:2", "--batch", "2", "--temperature",
                       "0.8", "--top-p", "0.9", "--prompt-tokens", "8", "--generate-tokens", "12", "--json"))
    assert [row["mode"] for row in rows] == ["regular", "speculative"]
    drafts = [[part for part in row["parts"] if part["name"] == "draft"] for row in rows]
    assert drafts[0] == [] and drafts[1][0]["operations"]["int8_dot"] > 0
    assert rows[0]["draft_pass"] == {"first_s": None, "later_s": None}
    assert rows[1]["draft_pass"]["first_s"] > 0 < rows[1]["draft_pass"]["later_s"]


def test_prompt(run, tiny):
    arguments = ["bench", "prompt", "-m", tiny, "--prompt-tokens", "8,33", "--batch", "2"]
    rows = rows_of(run(*arguments, "--json"))
    assert [(row["prompt_tokens"], row["batch"]) for row in rows] == [(8, 2), (33, 2)]
    for row in rows:
        assert list(row) == ["prompt_tokens", "batch", "s", "tokens_per_s", "limit_fraction", "ceiling_fraction", "machine", "model"]
        assert row["tokens_per_s"] == pytest.approx(2 * row["prompt_tokens"] / row["s"])
        assert row["ceiling_fraction"] > 0
        check_machine(row["machine"])
    assert "ceiling %" in run(*arguments).out


@pytest.mark.parametrize("activations", ["int8", "int16"])
def test_ops(run, tiny, activations):
    arguments = ["bench", "ops", "-m", tiny, "--rows", "1,5", "--context", "40", "--activations", activations]
    rows = rows_of(run(*arguments, "--check", "--json"))
    names = [row["op"] for row in rows if row["rows"] == 5]
    assert {"matmul", "norm and quantise", "silu", "rope", "write kv", "row_stats", "gumbel_argmax", "top-k 40", "top-p 0.95",
            "residual_argmax", "attention"} == set(names)
    for row in rows:
        assert list(row) == ["op", "shape", "rows", "s", "gb_s", "gop_s", "bytes", "operations", "limit_fraction", "is_checked",
                             "isa", "n_threads", "model"]
        assert row["s"] > 0 and row["is_checked"] == (row["op"] != "attention")
    shapes = [row["shape"] for row in rows if row["op"] == "matmul" and row["rows"] == 1]
    assert len(shapes) == len(set(shapes)) and all(shape.startswith("Q4_1 ") for shape in shapes)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_attention(run, device):
    arguments = ["bench", "attention", "--heads", "4,8", "--group", "2", "--head-dim", "16", "--batch", "1,3", "--context", "40",
                 "--queries", "2", "--device", device]
    rows = rows_of(run(*arguments, "--json", env={"BASS_EMULATE_GPU": "1"}))
    layouts = {row["attention"] for row in rows}
    assert {"pad", "split", "fused"} <= layouts
    cells = [(row["n_heads"], row["lengths"], row["batch"], row["attention"]) for row in rows]
    assert len(cells) == len(set(cells)) == 2 * 3 * 2 * len(layouts)
    facts = ["n_threads"] if device == "cpu" else []
    for row in rows:
        assert list(row) == ["attention", "n_heads", "n_kv_heads", "head_dim", "kv_type", "lengths", "batch", "context", "queries", "s",
                             "bytes", "operations", "limit_s", "limit_fraction", "bandwidth_gb_s", "device", *facts]
        assert (row["device"] == "cpu") == (device == "cpu")
        assert row["n_kv_heads"] * 2 == row["n_heads"] and row["s"] > 0 and row["limit_s"] > 0
        assert row["limit_fraction"] == pytest.approx(row["limit_s"] / row["s"])
        assert row["lengths"] in ("uniform", "bimodal", "exponential")
    if device == "cuda":  # a token of a head of 16 numbers: K and V in int16, and a scale each
        uniform = [row for row in rows if row["lengths"] == "uniform" and row["n_heads"] == 4 and row["attention"] == "split"]
        assert [row["bytes"] for row in uniform] == [40 * 2 * 72, (13 + 40 + 67) * 2 * 72]


def test_attention_of_heads_that_a_gpu_lacks(run):
    done = run("bench", "attention", "--heads", "4", "--head-dim", "512", "--device", "cuda", env={"BASS_EMULATE_GPU": "1"})
    assert done.code == 2 and "--head-dim 512" in done.err and "256" in done.err


def test_attention_prints_a_table(run):
    assert "limit %" in run("bench", "attention", "--heads", "4", "--batch", "1", "--context", "40").out


def test_rows(run):
    arguments = ["bench", "rows", "--vocabulary", "99", "--batch", "2", "--drafts", "0,3"]
    rows = rows_of(run(*arguments, "--device", "cuda", "--json", env={"BASS_EMULATE_GPU": "1"}))
    assert len({(row["rule"], row["n_drafts"]) for row in rows}) == len(rows) == 6 * 2
    for row in rows:
        assert row["verify_s"] > 0 and (row["draft_s"] > 0) == (row["n_drafts"] > 0)
        assert (row["judge_s"] > 0) == (row["rule"] == "block")
    done = run(*arguments, "--device", "cpu")
    assert done.code == 2 and "bench ops" in done.err


@pytest.mark.parametrize("kv_type", ["int16", "int8"])
def test_context(run, tiny, kv_type):
    arguments = ["bench", "context", "-m", tiny, "--batch", "1,3", "--context", "40,100", "--kv-type", kv_type]
    rows = rows_of(run(*arguments, "--json"))
    assert [(row["context"], row["batch"]) for row in rows] == [(40, 1), (40, 3), (100, 1), (100, 3)]
    for row in rows:
        assert row["tokens_per_s"] == pytest.approx(row["batch"] / row["s"])
        assert row["limit_fraction"] == pytest.approx(row["limit_s"] / row["s"])
        check_machine(row["machine"])
    shared = rows_of(run(*arguments, "--shared", "--json"))
    assert [row["shared"] for row in shared] == [True] * 4
    # One sequence reads the same either way; three read one prompt's whole pages once.
    assert shared[2]["bytes"] == rows[2]["bytes"] and shared[3]["bytes"] < rows[3]["bytes"]
    assert shared[3]["operations"]["int16_dot"] == rows[3]["operations"]["int16_dot"]


def test_context_leaves_out_what_does_not_fit(run, tiny):
    done = run("bench", "context", "-m", tiny, "--batch", "1,4096", "--context", "200", "--kv-memory", "1", "--json")
    assert done.code == 0 and len(done.out.splitlines()) == 1
    assert "4096 sequences of 200 tokens are left out" in done.err
    refused = run("bench", "context", "-m", tiny, "--context", "256")
    assert refused.code == 2 and "was trained for 256 tokens" in refused.err


def test_paper(run, tiny):
    arguments = ["bench", "paper", "-m", tiny, "-d", tiny, "--batch", "1,3", "--layouts", "pad,split-grouped", "--draft-lengths",
                 "off,fixed:3,bass:l0=2,inc=1", "--prompt-tokens", "8", "--generate-tokens", "200", "--rounds", "1"]
    for acceptance in (0, 0.5, 1):
        rows = rows_of(run(*arguments, "--acceptance", str(acceptance), "--peak-tops", "1", "--json"))
        assert len(rows) == 2 * 2 * 3
        for row in rows:
            assert row["scripted_acceptance"] == acceptance and row["utilisation"] > 0
            assert row["device"] == "cpu" and row["draft"] == row["model"] == str(tiny) and row["activations"] == "int8"
            # Of three sequences the one between first and last may have begun later, and be a little out of these bounds.
            assert 0.8 * min(row["first_ms"], row["last_ms"]) <= row["all_ms"] <= 1.25 * max(row["first_ms"], row["last_ms"])
            assert ("acceptance" in row) == (row["draft_length"] != "off")
        for row in rows:
            if row["draft_length"] == "fixed:3":
                # Of three drafted tokens a, a^2 and a^3 are accepted; the tiny model as its own draft would have all.
                expected = sum(acceptance ** k for k in (1, 2, 3)) / 3
                assert row["acceptance"] == pytest.approx(expected, abs=0.15)
                assert row["tokens_per_step"] == pytest.approx(1 + 3 * row["acceptance"], abs=0.1)
        for batch in (1, 3):
            regular = [row["tokens_per_s"] for row in rows if row["batch"] == batch and row["draft_length"] == "off"]
            for row in rows:
                if row["batch"] == batch:
                    assert row["regular_ratio"] == pytest.approx(row["tokens_per_s"] / max(regular))
    shown = run(*arguments, "--acceptance", "0.5")
    assert "scripted acceptance 0.5" in shown.err and "/regular" in shown.out


def test_paper_leaves_out_batches_that_do_not_run_together(run, tiny):
    arguments = ["bench", "paper", "-m", tiny, "-d", tiny, "--batch", "1,256", "--layouts", "fused", "--draft-lengths", "off",
                 "--prompt-tokens", "100", "--generate-tokens", "100", "--kv-memory", "1", "--rounds", "1"]
    refused = run(*arguments)
    assert refused.code != 0 and "--batch 256, off: the first sequences had ended" in refused.err
    assert len(refused.out.splitlines()) == 2, "the table's head and the batch that could be measured"


def test_paper_script_does_not_depend_on_the_sampling(run, tiny, tmp_path):
    arguments = ["bench", "paper", "-m", tiny, "-d", tiny, "--batch", "5", "--layouts", "fused", "--draft-lengths", "bass,fixed:4",
                 "--prompt-tokens", "8", "--generate-tokens", "80", "--rounds", "1", "--json"]
    cache = tmp_path / "cache"
    found = [[(row["acceptance"], row["tokens_per_step"]) for row in rows_of(run(*arguments, "--temperature", temperature,
                                                                              env={"XDG_CACHE_HOME": str(cache)}))]
             for temperature in ("0", "1")]
    assert found[0] == found[1]  # Algorithm 1 is one for the whole batch, with seeds too
    assert not list(cache.rglob("costs/*")), "scripted steps cost what no others do"


@pytest.mark.parametrize("wrong, told", [(["--layouts", "padded"], "--layouts: --attention padded: must be"),
                                         (["--context", "60"], "--context 60: a sequence has 64 prompt tokens and 128 generated"),
                                         (["--draft-lengths", "off,long"], "--draft-lengths: "),
                                         (["--acceptance", "1.5"], "--acceptance")])
def test_paper_refuses(run, tiny, wrong, told):
    refused = run("bench", "paper", "-m", tiny, "-d", tiny, *wrong)
    assert refused.code == 2 and told in refused.err


def test_policies(run, tiny, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"one two three {i} one two"}) + "\n" for i in range(3)))
    arguments = ["bench", "policies", "-m", tiny, "-d", tiny, "--prompts", prompts, "--max-tokens", "12", "--ignore-eos",
                 "--temperature", "0", "--draft-lengths", "off,bass:l0=3,inc=1,fixed:2", "--rounds", "2"]
    rows = rows_of(run(*arguments, "--prompts-per-round", "2", "--json"))
    assert [(row["round"], row["policy"]) for row in rows] == [
        (number, policy) for number in (0, 1) for policy in ("off", "bass:l0=3,inc=1", "fixed:2")]
    for row in rows:
        assert row["tokens_per_s"] > 0 and row["decode_s"] > 0
        assert row["first_ratio"] == pytest.approx(row["tokens_per_s"] / rows[3 * row["round"]]["tokens_per_s"])
        assert (row["drafted"] > 0) == (row["policy"] != "off")
        assert (row["accepted"] > 0) == (row["policy"] != "off") and row["accepted"] <= row["drafted"]
        assert (row["sequence_steps"] == 24) == (row["policy"] == "off")
    table = run(*arguments, "--drafter", "model")
    assert table.code == 0 and table.out.count("median") == 3


def test_policies_explain_themselves(run, tiny):
    arguments = ["bench", "policies", "-m", tiny, "-d", tiny, "-p", "one two one two", "-n", "2", "--max-tokens", "12", "--ignore-eos",
                 "--draft-lengths", "off,fixed:2", "--rounds", "2"]
    rows = rows_of(run(*arguments, "--json", "--explain-speculation"))
    for row in rows:  # of its round alone
        steps = row["explanation"]["steps"]
        assert sum(kind["steps"] for kind in steps.values()) * 2 >= row["sequence_steps"] - 4 > 0
        assert (steps["model"]["steps"] + steps["ngram"]["steps"] > 0) == (row["policy"] != "off")
    assert all("explanation" not in row for row in rows_of(run(*arguments, "--json")))
    table = run(*arguments, "--explain-speculation")
    assert table.err.count(", the last round:\n") == 2 and "decode time" in table.err
    assert "the last round" not in run(*arguments).err


def test_policies_total_counts_the_prompts(run, tiny):
    rows = [json.loads(line) for line in run(
        "bench", "policies", "-m", tiny, "-p", "The cat sat on the mat. " * 8, "--max-tokens", "6", "--ignore-eos",
        "--draft-lengths", "off,goodput", "--rounds", "1", "--json").out.splitlines()]
    assert [row["policy"] for row in rows] == ["off", "goodput"]
    for row in rows:
        assert row["total_tokens_per_s"] > 0
        assert row["total_ratio"] == pytest.approx(row["total_tokens_per_s"] / rows[0]["total_tokens_per_s"], rel=1e-3)


def test_policies_that_are_none(run, tiny):
    done = run("bench", "policies", "-m", tiny, "-p", "a", "--draft-lengths", "off,fixed:x")
    assert done.code != 0 and "--draft-lengths" in done.err and "fixed" in done.err
    done = run("bench", "policies", "-m", tiny, "-p", "a", "--drafter", "off")
    assert done.code != 0 and "--drafter off" in done.err
