"""`bass batch`: files of calls as OpenAI's batches have them."""
import json
import signal
import subprocess
import time

import pytest

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def call(custom_id, url=COMPLETIONS, **body):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def write(path, calls):
    path.write_text("".join(json.dumps(one) + "\n" for one in calls), encoding="utf-8")
    return path


def answers_of(text):
    """{custom_id: response}"""
    answers = {}
    for line in text.splitlines():
        answer = json.loads(line)
        assert list(answer) == ["id", "custom_id", "response", "error"] and answer["error"] is None
        assert list(answer["response"]) == ["status_code", "request_id", "body"]
        assert answer["id"].startswith("batch_req_") and answer["custom_id"] not in answers
        answers[answer["custom_id"]] = answer["response"]
    return answers


def many(n):
    return [call(f"call {i}", prompt=f"Once upon {i}", max_tokens=4 + i % 5, seed=i, ignore_eos=True) for i in range(n)]


def texts_of(answers):
    return {name: [choice["text"] for choice in answer["body"]["choices"]] for name, answer in answers.items()}


def test_answers_are_the_servers(run, smollm2, tmp_path):
    question = [{"role": "user", "content": "What is the capital of France?"}]
    calls = write(tmp_path / "calls.jsonl", [
        call("chat", CHAT, messages=question, max_tokens=12, seed=1, n=2, logprobs=True),
        call("prompts", prompt=["def f(n):", "Once"], max_tokens=6, seed=2, model="gpt"),
        call("wrong", CHAT, messages=question, temprature=1),
        call("stream", CHAT, messages=question, stream=True),
        call("response", "/v1/responses", input=question, max_output_tokens=12, seed=1),
        call("long", prompt="a " * 5000, max_tokens=5)])
    done = run("batch", "-m", smollm2, "--model-name", "gpt", "--context", "1024", "-i", calls, "-o", tmp_path / "answers.jsonl")
    assert done.code == 0, done.err
    assert "6 of 6 calls are in" in done.err and "(refused: 3;" in done.err
    answers = answers_of((tmp_path / "answers.jsonl").read_text(encoding="utf-8"))
    assert {name: answer["status_code"] for name, answer in answers.items()} == {
        "chat": 200, "response": 200, "prompts": 200, "wrong": 400, "stream": 400, "long": 400}
    chat = answers["chat"]["body"]
    assert chat["object"] == "chat.completion" and chat["model"] == "gpt" and chat["id"] == answers["chat"]["request_id"]
    response = answers["response"]["body"]
    assert response["output"][0]["content"][0]["text"] == chat["choices"][0]["message"]["content"]
    assert response["object"] == "response" and response["id"] == answers["response"]["request_id"]
    assert len(chat["choices"]) == 2 and "Paris" in chat["choices"][0]["message"]["content"]
    assert len(chat["choices"][0]["logprobs"]["content"]) > 3 and chat["usage"]["completion_tokens"] > 10
    assert [choice["index"] for choice in answers["prompts"]["body"]["choices"]] == [0, 1]
    assert 'did you mean "temperature"?' in answers["wrong"]["body"]["error"]["message"]
    assert answers["long"]["body"]["error"]["code"] == "context_length_exceeded"
    assert '"stream"' in answers["stream"]["body"]["error"]["message"]


def test_many_calls_run_together_and_give_what_each_gives_alone(run, tiny, tmp_path):
    calls = write(tmp_path / "calls.jsonl", many(60))
    together = answers_of(run("batch", "-m", tiny, "--max-batch", "8", "-i", calls, "-o", "-").out)
    assert len(together) == 60
    alone = answers_of(run("batch", "-m", tiny, "--max-batch", "1", "--drafter", "off", "-i", calls, "-o", "-").out)
    assert texts_of(together) == texts_of(alone)


def test_calls_may_come_from_a_pipe(run, tiny):
    done = run("batch", "-m", tiny, "-i", "-", "-o", "-", stdin=("\n" + json.dumps(call("a", prompt="Once", max_tokens=3)) + "\n\n").encode())
    assert done.code == 0 and list(answers_of(done.out)) == ["a"]


def test_a_run_that_was_stopped_goes_on(binary, run, smollm2, tmp_path):
    lines = [call(f"call {i}", prompt=f"Once upon {i}", max_tokens=60, seed=i, ignore_eos=True) for i in range(40)]
    calls, path = write(tmp_path / "calls.jsonl", lines), tmp_path / "answers.jsonl"
    arguments = ["batch", "-m", smollm2, "--max-batch", "4", "-i", calls, "-o", path]
    for stop, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        with subprocess.Popen([binary, *arguments], stderr=subprocess.PIPE, text=True) as process:
            n_before, until = len(path.read_text().splitlines()) if path.exists() else 0, time.monotonic() + 60
            while (len(path.read_text().splitlines()) if path.exists() else 0) < n_before + 3:
                assert time.monotonic() < until and process.poll() is None
                time.sleep(0.02)
            process.send_signal(stop)
            error = process.stderr.read()
            assert process.wait(60) == code, error
            if stop == signal.SIGINT:
                assert "the same command goes on" in error
    n_before = len(path.read_text().splitlines())
    with path.open("a") as file:
        file.write('{"id":"batch_req_00')  # as a sudden end leaves it
    done = run(*arguments)
    assert done.code == 0 and f"{n_before} of 40 calls are already in" in done.err, done.err
    answers = answers_of(path.read_text(encoding="utf-8"))
    assert len(answers) == 40 and all(answer["status_code"] == 200 for answer in answers.values())
    anew = answers_of(run("batch", "-m", smollm2, "-i", calls, "-o", "-").out)
    assert texts_of(answers) == texts_of(anew)
    again = run(*arguments)
    assert again.code == 0 and "40 of 40 calls are already in" in again.err


def test_answers_to_other_calls_are_not_taken_for_these(run, tiny, tmp_path):
    calls, path = write(tmp_path / "calls.jsonl", many(3)), tmp_path / "answers.jsonl"
    arguments = ["batch", "-m", tiny, "-i", calls, "-o", path]
    assert run(*arguments).code == 0
    before = path.read_bytes()

    def refusal(*more):
        done = run(*arguments, *more)
        assert done.code == 2 and path.read_bytes() == before
        return done.err

    assert "was another one then" in refusal("--temperature", "0.5")
    write(calls, [*many(2), call("call 2", prompt="Twice")])
    assert 'call "call 2" was another one then' in refusal()
    write(calls, many(2))
    assert 'is of call "call 2", which is not there' in refusal()
    write(calls, many(4))
    assert run(*arguments).code == 0 and len(answers_of(path.read_text())) == 4
    path.write_text('{"index": 0}\n')
    before = path.read_bytes()
    assert "is no line that this command has written" in refusal()


def test_what_was_refused_by_the_engine_is_asked_again_of_another(run, tiny, tmp_path):
    calls, path = write(tmp_path / "calls.jsonl", [*many(2), call("drafted", prompt="Once", max_tokens=3, drafter="model")]), tmp_path / "answers.jsonl"
    arguments = ["batch", "-m", tiny, "-i", calls, "-o", path]
    assert run(*arguments).code == 0 and answers_of(path.read_text())["drafted"]["status_code"] == 400
    assert run(*arguments, "--threads", "1").code == 0  # nothing that it may be refused by
    done = run(*arguments, "-d", tiny)
    assert done.code == 2 and 'call "drafted" was another one then, had other options' in done.err
    path.write_text("".join(line + "\n" for line in path.read_text().splitlines() if "drafted" not in line))
    assert run(*arguments, "-d", tiny).code == 0
    assert {answer["status_code"] for answer in answers_of(path.read_text()).values()} == {200}


def test_lines_are_lines_to_everybody(run, tiny, tmp_path):
    names = ["a\u2028b", "c\u0085d", "e\u2029f", 'g"h\\i\nj', ""]
    calls = write(tmp_path / "calls.jsonl", [call(name, prompt="Once", max_tokens=2) for name in names])
    assert list(answers_of(run("batch", "-m", tiny, "-i", calls, "-o", "-", "--max-batch", "1").out)) == names


@pytest.mark.parametrize(("text", "message"), [
    ("", ": has no calls"),
    ("5\n", ":1: must be an object like"),
    ('{"custom_id": "a"\n', ":1: not valid JSON"),
    (json.dumps(call("a", prompt="b")) + '\n{"custom_id": 5}\n', ":2: must be an object like"),
    (json.dumps(call("a", "/v1/embeddings", input="b")), ':1: "url" "/v1/embeddings": must be "/v1/chat/completions"'),
    (json.dumps({**call("a", prompt="b"), "method": "GET"}), ':1: "method" "GET": must be "POST"'),
    (json.dumps({**call("a"), "body": []}), ':1: "body": must be an object'),
    (json.dumps(call("a", prompt="b")) + "\n" + json.dumps(call("a", prompt="c")), ':2: "custom_id" "a": is that of'),
    (json.dumps(call("a", prompt="b", model="gpt-9")), ':1: "model" "gpt-9": is not the one that is there'),
])
def test_a_file_that_is_none_of_calls(run, tiny, tmp_path, text, message):
    calls = tmp_path / "calls.jsonl"
    calls.write_text(text)
    done = run("batch", "-m", tiny, "-i", calls, "-o", tmp_path / "answers.jsonl")
    assert done.code == 2 and f"{calls}{message}" in done.err and not (tmp_path / "answers.jsonl").exists(), done.err


def test_files_must_be_named_and_differ(run, tiny, tmp_path):
    calls = write(tmp_path / "calls.jsonl", many(1))
    assert "-i FILE: missing" in run("batch", "-m", tiny, "-o", "-").err
    assert "-o FILE: missing" in run("batch", "-m", tiny, "-i", calls).err
    done = run("batch", "-m", tiny, "-i", calls, "-o", calls)
    assert done.code == 2 and "is the file of calls" in done.err
    missing = run("batch", "-m", tiny, "-i", tmp_path / "none.jsonl", "-o", "-")
    assert missing.code == 2 and "none.jsonl" in missing.err
    full = run("batch", "-m", tiny, "-i", calls, "-o", "/dev/full")
    assert full.code == 1 and "/dev/full" in full.err


def test_a_name_is_not_empty(run, tiny, tmp_path):
    calls = write(tmp_path / "calls.jsonl", many(1))
    refused = run("batch", "-m", tiny, "--model-name", "", "-i", calls, "-o", "-")
    assert refused.code == 2 and "--model-name" in refused.err and "not empty" in refused.err
