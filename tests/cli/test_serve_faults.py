"""`bass serve`: what it refuses, who may call, and calls that do not come to their end."""
import http.client
import json
import signal
import time

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import CHAT, COMPLETIONS, MESSAGES, PATIENCE_S, server, serving  # noqa: F401 (a fixture)

# What is refused

BAD = [
    (CHAT, {}, '"messages" is missing'),
    (CHAT, {"messages": [{"role": "user"}]}, '"messages"[0]: "content" is missing'),
    (CHAT, {"messages": MESSAGES, "temprature": 1}, '"temprature": unknown key; did you mean "temperature"? If not, leave it out'),
    (CHAT, {"messages": MESSAGES, "system": "a"}, '"system": unknown key'),
    (CHAT, {"messages": MESSAGES, "max_batch": 4}, '"max_batch": unknown key'),
    (CHAT, {"messages": MESSAGES, "temperature": "hot"}, '"temperature" "hot": must be a number'),
    (CHAT, {"messages": MESSAGES, "top_p": -1}, '"top_p" -1: must be above 0'),
    (CHAT, {"messages": MESSAGES, "n": 0}, '"n" 0: must be'),
    (CHAT, {"messages": [{"role": "user", "content": "a b " * 10000}]}, "maximum context length"),
    (CHAT, {"messages": MESSAGES, "stream": "yes"}, '"stream" "yes": must be true or false'),
    (CHAT, {"messages": MESSAGES, "stream_options": {"include_usage": True}}, 'has no place without "stream": true'),
    (CHAT, {"messages": MESSAGES, "stream": True, "stream_options": {"usage": True}}, 'unknown key "usage"'),
    (CHAT, {"messages": MESSAGES, "tools": [{"type": "function"}]}, '[0]: must be like {"type": "function", "function"'),
    (CHAT, {"messages": MESSAGES, "tool_choice": "required"}, 'there is nothing to call without "tools"'),
    (CHAT, {"messages": MESSAGES, "functions": [{"name": "f"}]}, 'it is "tools" and "tool_choice" here; leave it out'),
    (COMPLETIONS, {"prompt": "a", "tools": [{"type": "function", "function": {"name": "f"}}]}, "only chats have tools"),
    (CHAT, {"messages": MESSAGES, "modalities": ["audio"]}, 'only text is supported here; leave it out'),
    (CHAT, {"messages": MESSAGES, "top_logprobs": 2}, '"top_logprobs": has no place without "logprobs": true'),
    (CHAT, {"messages": MESSAGES, "logprobs": True, "top_logprobs": 21}, '"top_logprobs" 21: must be a whole number from 0 to 20'),
    (CHAT, {"messages": MESSAGES, "logprobs": 1}, '"logprobs" 1: must be true or false'),
    (CHAT, {"messages": [{"role": "user", "content": None}]}, '"content" is missing'),
    (CHAT, {"messages": MESSAGES, "stop": 5}, '"stop" 5: must be'),
    (CHAT, {"messages": MESSAGES, "stop": ["a", ""]}, '"stop"'),
    (CHAT, {"messages": MESSAGES, "logit_bias": {"x": 1}}, '"logit_bias"'),
    (CHAT, {"messages": MESSAGES, "drafter": "model"}, None),  # smollm2's file by its path has no draft beside it
    (COMPLETIONS, {}, '"prompt" is missing'),
    (COMPLETIONS, {"prompt": ""}, '"prompt" is empty'),
    (COMPLETIONS, {"prompt": []}, '"prompt": must be a string, a list of token ids'),
    (COMPLETIONS, {"prompt": [[]]}, '"prompt": must be a string, a list of token ids'),
    (COMPLETIONS, {"prompt": [1, "a"]}, '"prompt" "a": must be a whole number'),
    (COMPLETIONS, {"prompt": [999999]}, "999999"),
    (COMPLETIONS, {"prompt": ["a", {}]}, '"prompt": must be a string'),
    (COMPLETIONS, {"prompt": "a", "n": 3, "best_of": 2}, '"best_of" 2: must be at least "n", which is 3'),
    (COMPLETIONS, {"prompt": "a", "best_of": 2, "stream": True}, '"best_of": which samples are best is known only at'),
    (COMPLETIONS, {"prompt": "a", "logprobs": 21}, '"logprobs" 21: must be a whole number from 0 to 20'),
    (COMPLETIONS, {"prompt": "a", "echo": 1}, '"echo" 1: must be true or false'),
    (COMPLETIONS, {"prompt": "a", "model": 5}, '"model": must be a string'),
]


@pytest.mark.parametrize("path, body, says", BAD)
def test_bad_calls_are_refused_with_a_sentence(server, path, body, says):
    status, answer = server.call("POST", path, body)
    if says is None and status == 200:
        pytest.skip("a draft is at hand")
    assert status == 400 and answer["error"]["type"] == "invalid_request_error", answer
    assert (says or "draft") in answer["error"]["message"]


@pytest.mark.parametrize("body, says", [(b"", "the body"), (b"[]", "must be a JSON object"), (b'{"prompt": "a"', "not valid JSON"),
                                        (b'{"prompt": "\xff"}', "not valid UTF-8 (at byte 12)"),
                                        (b'{"prompt": "a", "prompt": "b"}', "is there twice"),
                                        (b"[" * 100000, "nested deeper")])
def test_bodies_that_are_no_objects(server, body, says):
    status, answer = server.call("POST", COMPLETIONS, body)
    assert status == 400 and says in answer["error"]["message"], answer


def test_paths_and_sizes(server):
    assert server.call("GET", CHAT, None)[0] == 405
    for method, path in (("GET", "/"), ("POST", "/v1/embeddings"), ("GET", "/v1/models/other")):
        status, answer = server.call(method, path, "" if method == "POST" else None)
        assert status == 404 and answer["error"]["message"], (method, path, answer)
    status, answer = server.call("POST", COMPLETIONS, json.dumps({"prompt": "a" * (33 << 20)}))
    assert status == 413 and "32 MiB" in answer["error"]["message"]
    assert server.call("GET", "/health") == (200, {"status": "ok"})


def test_a_connection_serves_many_calls(server):
    connection = server.connect()
    for _ in range(3):
        connection.request("POST", COMPLETIONS, json.dumps({"prompt": "def f", "max_tokens": 2}))
        assert connection.getresponse().read()
        connection.request("POST", COMPLETIONS, "{")
        assert connection.getresponse().status == 400 and True
        connection.close()


def test_a_key(binary, smollm2):
    with serving(binary, "-m", smollm2, env={"BASS_API_KEY": "geheim"}) as server:
        client = server.client("other")
        for _ in range(10):  # on one connection: a body that nobody wanted is not taken for the next request
            with pytest.raises(openai.AuthenticationError):
                client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a" * 5000}])
        for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "geheim"}):
            status, answer = server.call("POST", CHAT, {"messages": MESSAGES}, headers)
            assert status == 401 and answer["error"]["code"] == "invalid_api_key"
            assert server.call("GET", "/metrics", None, headers)[0] == 401
        assert server.call("GET", "/health")[0] == 200
        assert [model.id for model in server.client("geheim").models.list()] == ["SmolLM2-135M-Instruct.Q4_1"]


def test_an_empty_key_is_no_key(run, tiny):
    done = run("serve", "-m", tiny, "--port", "0", env={"BASS_API_KEY": ""})
    assert done.code == 2 and "BASS_API_KEY is set and empty" in done.err


# Callers that go away, too many calls, the end

LONG = {"prompt": "def f", "max_tokens": 4000, "ignore_eos": True}


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_caller_that_goes_away_costs_nothing_more(binary, smollm2, is_streamed):
    with serving(binary, "-m", smollm2) as server:
        connection = server.begin(COMPLETIONS, **LONG, stream=is_streamed)
        server.wait_for("calls_running", 1)
        connection.close() if not is_streamed else connection.sock.close()
        server.wait_for("calls_running", 0)
        assert server.metric("calls_broken_total") == 1
        time.sleep(0.2)
        n_steps = server.metric("steps_total")
        assert n_steps < 500, "far from all 4000 tokens"
        time.sleep(0.3)
        assert server.metric("steps_total") == n_steps, "nothing runs any more"
        code, err = server.stop()
        assert code == 0 and "the caller has gone" in err


def test_metrics_as_prometheus_reads_them(binary, smollm2):
    def families(server):
        _, text = server.call("GET", "/metrics")
        return {family.name: family for family in text_string_to_metric_families(text)}

    def counted(server, name):
        samples = {sample.name: sample.value for sample in families(server)[name].samples if "le" not in sample.labels}
        return samples[f"{name}_count"], samples[f"{name}_sum"]

    with serving(binary, "-m", smollm2, "--max-batch", 1) as server:
        start = time.monotonic()
        for is_streamed in (False, True):
            server.post("/v1/completions", prompt=["Some text", "more"], max_tokens=4, ignore_eos=True, stream=is_streamed)
        took = time.monotonic() - start
        assert all(family.documentation for family in families(server).values())
        first_tokens, first_s = counted(server, "bass_time_to_first_token_seconds")
        samples, token_s = counted(server, "bass_time_per_output_token_seconds")
        calls, call_s = counted(server, "bass_call_duration_seconds")
        assert (first_tokens, samples, calls) == (4, 4, 2)
        assert 0 < 4 * token_s < call_s < took and 0 < first_s < 2 * call_s

        long = server.begin("/v1/completions", prompt="Some text", max_tokens=5000, ignore_eos=True, stream=True)
        server.wait_for("prompts_running", 1)
        other = server.begin("/v1/completions", prompt="more", max_tokens=4)
        server.wait_for("prompts_waiting", 1)
        assert server.metric("prompts_running") == 1
        for connection in (other, long):
            connection.close()
        server.wait_for("prompts_waiting", 0)
        server.wait_for("prompts_running", 0)
        assert counted(server, "bass_call_duration_seconds")[0] == 2, "nobody waited for the end of these"


def test_more_calls_than_allowed(binary, smollm2):
    with serving(binary, "-m", smollm2, "--max-calls", 1) as server:
        connection = server.begin(COMPLETIONS, **LONG, stream=True)
        server.wait_for("calls_running", 1)
        status, answer = server.post(COMPLETIONS, prompt="def f", max_tokens=2)
        assert status == 429 and "1 calls run or wait already" in answer["error"]["message"]
        assert server.call("GET", "/health")[0] == 200
        connection.sock.close()
        server.wait_for("calls_running", 0)
        assert server.post(COMPLETIONS, prompt="def f", max_tokens=2)[0] == 200


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_calls_that_run_may_end(binary, smollm2, signal_number):
    with serving(binary, "-m", smollm2, "--drain", PATIENCE_S) as server:
        connection = server.begin(COMPLETIONS, **{**LONG, "max_tokens": 300})
        server.wait_for("calls_running", 1)
        server.process.send_signal(signal_number)
        answer = json.loads(connection.getresponse().read())
        assert answer["usage"]["completion_tokens"] == 300
        assert server.process.wait(PATIENCE_S) == 0
        with pytest.raises(ConnectionError):
            server.post(COMPLETIONS, prompt="def f")


def test_calls_are_cut_when_their_time_is_over(binary, smollm2):
    with serving(binary, "-m", smollm2, "--drain", "0") as server:
        stream = server.begin(COMPLETIONS, **LONG, stream=True)
        whole = server.begin(COMPLETIONS, **LONG)
        server.wait_for("calls_running", 2)
        server.process.send_signal(signal.SIGTERM)
        response = stream.getresponse()
        with pytest.raises(http.client.IncompleteRead) as cut:
            response.read()
        assert b'data: {"error":{"message":"the server is ending"' in cut.value.partial
        assert b"[DONE]" not in cut.value.partial
        refused = whole.getresponse()
        assert refused.status == 503 and "the server is ending" in refused.read().decode()
        assert server.process.wait(PATIENCE_S) == 0


def test_a_port_that_is_taken(server, run, smollm2):
    done = run("serve", "-m", smollm2, "--port", server.port)
    assert done.code == 1 and f"127.0.0.1:{server.port}: cannot be listened on" in done.err


@pytest.mark.parametrize("arguments, says", [(["--port", "70000"], "--port: 70000: must be a whole number from 0 to 65535"),
                                             (["--host", "203.0.113.7"], "cannot be listened on"),
                                             (["--seed", "1"], "--seed"), (["--max-calls", "0"], "--max-calls"),
                                             (["--allow-origin", "chat.example"], "a page's address"),
                                             (["--allow-origin", "https://Chat.example"], "in lower case")])
def test_bad_options(run, tiny, arguments, says):
    done = run("serve", "-m", tiny, *arguments)
    assert done.code != 0 and says in done.err
