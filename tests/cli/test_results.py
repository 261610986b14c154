"""`bass generate --results`: a line for each prompt as soon as it has ended, and runs that go on where one was stopped."""
import json
import os
import resource
import signal
import subprocess
import time

import jsonschema
import pytest
from result_schema import SCHEMA

N = 40


def write_prompts(path, n=N):
    lines = [{"prompt": f"Tell me about number {i}.", "id": f"p{i}"} for i in range(n)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read_results(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def arguments_of(model, *more):
    return ["generate", "-m", model, "--prompts", "prompts.jsonl", "--seed", "1", "-n", "2", "--max-tokens", "24",
            "--max-batch", "4", *more]


def by_index(results):
    return sorted(results, key=lambda result: result["index"])


@pytest.fixture(name="whole")
def fixture_whole(run, tiny, tmp_path):
    """The lines of a run that nothing disturbed, by index."""
    write_prompts(tmp_path / "prompts.jsonl")
    done = run(*arguments_of(tiny, "--results", "whole.jsonl"))
    assert done.code == 0 and done.out == "", done.err
    assert f"{N} of {N} prompts are in whole.jsonl" in done.err and "tokens/s" in done.err
    return by_index(read_results(tmp_path / "whole.jsonl"))


def test_lines_are_what_json_prints(run, tiny, tmp_path, whole):
    schema = {"$defs": SCHEMA["$defs"], "$ref": "#/$defs/prompt"}
    printed = run(*arguments_of(tiny, "--json")).json()["prompts"]
    for line, prompt in zip(whole, printed, strict=True):
        assert len(line.pop("request")) == 16
        jsonschema.validate(line, schema, cls=jsonschema.Draft202012Validator)
        assert line == prompt and line["id"] == f"p{line['index']}"


def test_a_run_that_was_killed_is_gone_on_with(binary, run, tiny, tmp_path, whole):
    path = tmp_path / "results.jsonl"
    n_kills = 0
    for _ in range(3):
        n_before = len(read_results(path)) if path.exists() else 0
        with subprocess.Popen([binary, *arguments_of(tiny, "--results", "results.jsonl")], cwd=tmp_path,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            while child.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < n_before + 2):
                time.sleep(0.001)
            child.send_signal(signal.SIGKILL)
            n_kills += child.wait() == -signal.SIGKILL
    assert n_kills > 0 and 0 < len(read_results(path))
    with path.open("ab") as file:
        file.write(b'{"index":39,"id":"p39","reque')
    n_there = path.read_bytes().count(b"\n")
    done = run(*arguments_of(tiny, "--results", "results.jsonl"))
    assert done.code == 0 and f"{n_there} of {N} prompts are already in results.jsonl" in done.err
    results = read_results(path)
    assert len(results) == N, "no prompt twice, none left out"
    assert by_index(results) == whole, "the same bytes as without the kills"


def test_another_seed_is_told_from_this_one(run, tiny, tmp_path, whole):
    before = (tmp_path / "whole.jsonl").read_bytes()
    done = run(*arguments_of(tiny, "--results", "whole.jsonl", "--seed", "2"))
    assert done.code == 2 and "whole.jsonl:1: prompt" in done.err and "had other options" in done.err
    assert (tmp_path / "whole.jsonl").read_bytes() == before
    other = run(*arguments_of(tiny, "--json", "--seed", "2")).json()["prompts"]
    assert [prompt["choices"] for prompt in other] != [line["choices"] for line in whole]


def test_prompts_of_tokens_are_told_apart(run, tiny, tmp_path):
    def results(*tokens):
        lines = "".join(json.dumps({"prompt_tokens": ids}) + "\n" for ids in tokens)
        (tmp_path / "tokens.jsonl").write_text(lines)
        return run("generate", "-m", tiny, "--prompts", "tokens.jsonl", "--max-tokens", "4", "--results", "t.jsonl")

    assert results([5, 6, 7], [8]).code == 0
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert sorted(line["n_prompt_tokens"] for line in lines) == [1, 3]
    assert results([5, 6, 7], [8]).code == 0
    assert results([5, 6, 7], [9]).code == 2


def test_what_was_thought_is_a_part_of_the_question(run, tiny, tmp_path):
    chat = lambda thought: {"messages": [{"role": "assistant", "content": "a", "reasoning_content": thought}, {"role": "user", "content": "b"}],
                            "max_tokens": 2, "seed": 1}
    file = tmp_path / "prompts.jsonl"
    for thought, code in (("x", 0), ("x", 0), ("y", 2)):
        file.write_text(json.dumps(chat(thought)))
        assert run("generate", "-m", tiny, "--prompts", file, "--results", "r.jsonl").code == code, thought


def test_when_all_is_there_nothing_is_run(run, tiny, tmp_path, whole):
    before = (tmp_path / "whole.jsonl").read_bytes()
    done = run(*arguments_of(tiny, "--results", "whole.jsonl", "--drafter", "off", "--threads", "1"))
    assert done.code == 0 and done.out == "" and done.err == f"note: {N} of {N} prompts are already in whole.jsonl\n"
    (tmp_path / "saved.json").write_text("of the run before")
    printed = run(*arguments_of(tiny, "--results", "whole.jsonl", "--json", "--explain-speculation", "--save",
                                "saved.json")).json()
    assert (tmp_path / "saved.json").read_text() == "of the run before"
    assert printed["prompts"] == [] and printed["usage"]["total_tokens"] == 0
    assert (tmp_path / "whole.jsonl").read_bytes() == before
    assert len(whole) == N


def test_prompts_that_were_added_are_run(run, tiny, tmp_path, whole):
    write_prompts(tmp_path / "prompts.jsonl", N + 3)
    done = run(*arguments_of(tiny, "--results", "whole.jsonl", "--json"))
    assert done.code == 0 and [prompt["index"] for prompt in done.json()["prompts"]] == [N, N + 1, N + 2]
    results = by_index(read_results(tmp_path / "whole.jsonl"))
    assert len(results) == N + 3 and results[:N] == whole


def test_standard_output(run, tiny, tmp_path, whole):
    done = run(*arguments_of(tiny, "--results", "-", "--quiet"))
    assert done.code == 0 and done.err == ""
    assert by_index(json.loads(line) for line in done.out.splitlines()) == whole
    assert run(*arguments_of(tiny, "--results", "-", "--json")).code == 2
    assert {path.name for path in tmp_path.iterdir()} == {"prompts.jsonl", "whole.jsonl"}


def test_an_interrupted_run_keeps_what_had_ended(binary, run, smollm2, tmp_path):
    write_prompts(tmp_path / "prompts.jsonl")
    path = tmp_path / "results.jsonl"
    arguments = arguments_of(smollm2, "--results", "results.jsonl", "--ignore-eos")
    with subprocess.Popen([binary, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        while child.poll() is None and (not path.exists() or b"\n" not in path.read_bytes()):
            time.sleep(0.005)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 130 and out == b""
    kept = read_results(path)
    assert 0 < len(kept) < N and f"{len(kept)} of {N} prompts are in results.jsonl".encode() in err
    assert all(choice["finish_reason"] == "length" for line in kept for choice in line["choices"])
    assert run(*arguments).code == 0
    assert [line["index"] for line in by_index(read_results(path))] == list(range(N))


def test_a_full_disk_ends_the_run_and_loses_nothing(binary, run, tiny, tmp_path, whole):
    limit = 3 * len(json.dumps(whole[0]))
    done = subprocess.run([binary, *arguments_of(tiny, "--results", "results.jsonl")], cwd=tmp_path, check=False,
                          capture_output=True, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert done.returncode == 1
    assert b"--results results.jsonl: cannot be written: File too large; what is there stays" in done.stderr
    text = (tmp_path / "results.jsonl").read_bytes()
    assert text.endswith(b"\n") and 1 <= text.count(b"\n") < N
    assert run(*arguments_of(tiny, "--results", "results.jsonl")).code == 0
    assert by_index(read_results(tmp_path / "results.jsonl")) == whole


@pytest.mark.parametrize(("path", "words"), [
    ("none/r.jsonl", ["--results none/r.jsonl: cannot be written: No such file", "a folder that is there"]),
    (".", ["--results .: cannot be written: Is a directory"]),
    ("prompts.jsonl", ["--results prompts.jsonl:1: is no line that --results has written"]),
])
def test_files_that_will_not_do(run, tiny, tmp_path, path, words):
    write_prompts(tmp_path / "prompts.jsonl")
    before = (tmp_path / "prompts.jsonl").read_bytes()
    done = run(*arguments_of(tiny, "--results", path))
    assert done.code == 2 and done.cpu_seconds < 1
    for word in words:
        assert word in done.err
    assert os.listdir(tmp_path) == ["prompts.jsonl"] and (tmp_path / "prompts.jsonl").read_bytes() == before


def test_save_cannot_replace_the_results(run, tiny, tmp_path, whole):
    before = (tmp_path / "whole.jsonl").read_bytes()
    for save in ("whole.jsonl", "./whole.jsonl", tmp_path / "whole.jsonl"):
        done = run(*arguments_of(tiny, "--results", "whole.jsonl", "--save", save))
        assert done.code == 2 and "is the file of --results, which it would replace" in done.err
    done = run(*arguments_of(tiny, "--results", "new.jsonl", "--save", "./new.jsonl"))
    assert done.code == 2 and not (tmp_path / "new.jsonl").exists()
    assert (tmp_path / "whole.jsonl").read_bytes() == before and whole


def test_a_pipe_that_nobody_reads_does_not_keep_a_run_that_is_to_end(binary, tiny, tmp_path):
    write_prompts(tmp_path / "prompts.jsonl", 400)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen([binary, *arguments_of(tiny, "--results", "pipe")], cwd=tmp_path, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
        time.sleep(1.5)  # 64 KiB are full
        assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=20)
    os.close(reader)
    assert child.returncode == 130


def test_a_run_that_fails_at_once_leaves_no_file(run, tiny, tmp_path):
    write_prompts(tmp_path / "prompts.jsonl")
    done = run(*arguments_of(tiny, "--results", "results.jsonl", "--logit-bias", "99999999:1"))
    assert done.code == 2 and not (tmp_path / "results.jsonl").exists()
