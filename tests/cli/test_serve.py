"""`bass serve`: the answers of the OpenAI-compatible API over HTTP, to OpenAI's own client and to bare connections."""
import concurrent.futures
import json
import time

import openai
import pytest
from serving import CHAT, COMPLETIONS, MESSAGES, server  # noqa: F401 (a fixture)


@pytest.fixture
def generate(run, smollm2):
    def call(*arguments):
        done = run("generate", "-m", smollm2, "--temperature", "1", "--json", *arguments)
        assert done.code == 0, done.err
        return done.json()["prompts"][0]["choices"]

    return call


def events_of(text):
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def tokens_of(usage):
    """Without what depends on the calls before."""
    return {name: n for name, n in usage.items() if name != "prompt_tokens_details"}


# Answers

def test_a_chat_is_answered_as_generate_does(server, generate):
    expected = generate("--chat", "-p", MESSAGES[0]["content"], "--seed", 7, "--max-tokens", 40, "-n", 3)
    status, answer = server.post(CHAT, messages=MESSAGES, seed=7, max_tokens=40, n=3, model="smollm2")
    assert status == 200
    by_index = sorted(expected, key=lambda choice: choice["index"])
    assert [choice["message"]["content"] for choice in answer["choices"]] == [choice["text"] for choice in by_index]
    assert [choice["finish_reason"] for choice in answer["choices"]] == [choice["finish_reason"] for choice in by_index]
    assert answer["object"] == "chat.completion" and answer["model"] == "smollm2"
    assert answer["usage"]["completion_tokens"] == sum(len(choice["token_ids"]) for choice in expected)
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"]


def test_a_conversation_is_not_read_again(server):
    messages = [{"role": "user", "content": "Tell me a long story about a cat that went to sea. " * 4}]
    said = {"temperature": 0, "max_tokens": 50}
    first = server.post(CHAT, messages=messages, **said)[1]
    messages += [first["choices"][0]["message"], {"role": "user", "content": "And then?"}]
    second = server.post(CHAT, messages=messages, **said)[1]
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    n_fed = first["usage"]["total_tokens"] - 1
    assert first["usage"]["prompt_tokens"] + 32 <= n_fed // 32 * 32 <= cached < second["usage"]["prompt_tokens"]
    again = server.post(CHAT, messages=messages, **said)[1]
    assert again["choices"] == second["choices"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= cached
    assert server.metric("cached_prompt_tokens_total") >= 2 * cached


def test_answers_do_not_depend_on_other_calls(server, generate):
    prompts = [f"The number {i} is" for i in range(12)]
    alone = {prompt: generate("-p", prompt, "--seed", 5, "--max-tokens", 30)[0]["text"] for prompt in prompts[:3]}

    def complete(prompt):
        return server.post(COMPLETIONS, prompt=prompt, seed=5, max_tokens=30)[1]["choices"][0]["text"]

    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        together = dict(zip(prompts, pool.map(complete, prompts)))
    assert {prompt: together[prompt] for prompt in alone} == alone
    assert len(set(together.values())) > 6


@pytest.mark.parametrize("path, prompt", [(CHAT, {"messages": MESSAGES}), (COMPLETIONS, {"prompt": "def fib(n):"})])
def test_a_stream_is_the_whole_answer_in_pieces(server, path, prompt):
    said = {**prompt, "seed": 3, "max_tokens": 40, "n": 2, "stop": "\n\n"}
    _, whole = server.post(path, **said)
    status, text = server.post(path, **said, stream=True, stream_options={"include_usage": True})
    events = events_of(text)
    assert status == 200
    assert {event["object"] for event in events} == {"chat.completion.chunk" if path == CHAT else "text_completion"}
    assert len({event["id"] for event in events}) == 1
    assert tokens_of(events[-1]["usage"]) == tokens_of(whole["usage"]) and events[-1]["choices"] == []
    assert all(event["usage"] is None for event in events[:-1])
    for choice in whole["choices"]:
        pieces = [piece for event in events for piece in event["choices"] if piece["index"] == choice["index"]]
        assert len(pieces) > 5
        assert [piece["finish_reason"] for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
        assert pieces[-1]["finish_reason"] == choice["finish_reason"]
        if path == CHAT:
            assert pieces[0]["delta"]["role"] == "assistant"
            assert "".join(piece["delta"].get("content", "") for piece in pieces) == choice["message"]["content"]
        else:
            assert "".join(piece["text"] for piece in pieces) == choice["text"]


def test_what_clients_say_beside_a_message_is_passed_over(server):
    beside = {"type": "text", "metadata": {"a": 1}, "provider_specific_fields": {"refusal": None}, "audio": {}, "images": None}
    answers = [server.post(CHAT, messages=[{**message, **more} for message in MESSAGES], max_tokens=8, seed=1) for more in ({}, beside)]
    assert [status for status, _ in answers] == [200, 200] and answers[0][1]["choices"] == answers[1][1]["choices"]
    status, error = server.post(CHAT, messages=[{**MESSAGES[0], "images": ["a"]}])
    assert status == 400 and error["error"]["message"] == '"messages"[0]: "images": messages are texts here; leave it out'


def test_a_developers_words_are_the_systems(server):
    answers = [server.post(CHAT, messages=[{"role": role, "content": "Answer in French."}, *MESSAGES], max_tokens=12, seed=3)[1]
               for role in ("system", "developer")]
    assert answers[0]["choices"] == answers[1]["choices"]
    assert answers[0]["usage"]["prompt_tokens"] == answers[1]["usage"]["prompt_tokens"]


def test_a_stream_comes_while_it_is_made(server):
    connection = server.connect()
    connection.request("POST", CHAT, json.dumps({"messages": MESSAGES, "stream": True, "max_tokens": 400,
                                                 "ignore_eos": True}), {"Accept-Encoding": "gzip, deflate"})
    response = connection.getresponse()
    assert response.getheader("Content-Type") == "text/event-stream; charset=utf-8" and not response.getheader("Content-Encoding")
    assert response.readline().startswith(b"data: ")
    assert server.metric("calls_running") == 1
    assert response.read().endswith(b"data: [DONE]\n\n")


def test_log_probabilities(server):
    said = {"seed": 3, "max_tokens": 12}
    _, chat = server.post(CHAT, messages=MESSAGES, logprobs=True, **said)
    tokens = chat["choices"][0]["logprobs"]["content"]
    assert bytes(byte for token in tokens for byte in token["bytes"]).decode() == chat["choices"][0]["message"]["content"]
    assert all(token["logprob"] <= 0 and token["top_logprobs"] == [] for token in tokens)
    _, completion = server.post(COMPLETIONS, prompt="def fib(n):", logprobs=0, **said)
    text, logprobs = completion["choices"][0]["text"], completion["choices"][0]["logprobs"]
    assert "".join(logprobs["tokens"]) == text and len(logprobs["token_logprobs"]) == 12
    assert [text[at:].startswith(token) for token, at in zip(logprobs["tokens"], logprobs["text_offset"])] == [True] * 12
    events = events_of(server.post(COMPLETIONS, prompt="def fib(n):", logprobs=0, stream=True, **said)[1])
    streamed = [event["choices"][0]["logprobs"] for event in events if event["choices"][0]["logprobs"]]
    assert [token for part in streamed for token in part["tokens"]] == logprobs["tokens"]
    assert [at for part in streamed for at in part["text_offset"]] == logprobs["text_offset"]


def test_a_stream_counts_as_it_goes(server):
    said = {"messages": MESSAGES, "seed": 3, "max_tokens": 12, "stream": True}
    events = events_of(server.post(CHAT, **said, stream_options={"include_usage": True, "continuous_usage_stats": True})[1])
    counts = [event["usage"]["completion_tokens"] for event in events]
    assert counts == sorted(counts) and 1 <= counts[0] < counts[-1] == 12
    assert len({event["usage"]["prompt_tokens"] for event in events}) == 1 and events[-1]["choices"] == []
    silent = events_of(server.post(CHAT, **said, stream_options={"include_usage": True, "continuous_usage_stats": False})[1])
    assert [event["usage"] for event in silent[:-1]] == [None] * (len(silent) - 1)


def test_what_else_is_likely_and_what_the_prompt_was(server, run, smollm2):
    """As benchmarks ask for the log-likelihood of a text: nothing new, and the text's own tokens with the best ones."""
    text = "The capital of France is Paris, and the"
    scored = json.loads(run("score", "-m", smollm2, "-p", text, "--json").out)
    _, answer = server.post(COMPLETIONS, prompt=text, logprobs=1, echo=True, max_tokens=0)
    choice, logprobs = answer["choices"][0], answer["choices"][0]["logprobs"]
    assert (choice["text"], "".join(logprobs["tokens"])) == (text, text)
    assert logprobs["token_logprobs"] == pytest.approx(scored["logprobs"], abs=1e-6)
    assert answer["usage"]["completion_tokens"] == 0 and answer["usage"]["prompt_tokens"] == len(scored["ids"])
    _, longer = server.post(COMPLETIONS, prompt=text, logprobs=3, echo=True, max_tokens=2, temperature=0)
    tokens, top = longer["choices"][0]["logprobs"]["tokens"], longer["choices"][0]["logprobs"]["top_logprobs"]
    assert longer["choices"][0]["text"] == "".join(tokens) and tokens[:-2] == logprobs["tokens"]
    assert top[0] is None and all(3 <= len(places) <= 4 for places in top[1:])
    assert all(max(places, key=places.get) == token for token, places in zip(tokens[-2:], top[-2:], strict=True)), "greedy"
    assert all(token in places for token, places in zip(tokens[1:], top[1:], strict=True))
    _, chat = server.post(CHAT, messages=MESSAGES, logprobs=True, top_logprobs=2, max_tokens=6, temperature=0)
    for token in chat["choices"][0]["logprobs"]["content"]:
        assert token["top_logprobs"][0]["token"] == token["token"] and len(token["top_logprobs"]) == 2


def test_best_of_answers_the_likeliest(server):
    said = {"prompt": "def fib(n):", "seed": 3, "max_tokens": 12, "ignore_eos": True}
    _, all_samples = server.post(COMPLETIONS, n=6, logprobs=0, **said)
    best = sorted(all_samples["choices"], key=lambda choice: -sum(choice["logprobs"]["token_logprobs"]))
    _, answer = server.post(COMPLETIONS, n=2, best_of=6, **said)
    assert [choice["text"] for choice in answer["choices"]] == [choice["text"] for choice in best[:2]]
    assert best[0]["text"] != all_samples["choices"][0]["text"], "a test that the first two would pass shows nothing"
    assert tokens_of(answer["usage"]) == tokens_of(all_samples["usage"])


def test_several_prompts_and_token_ids(server, run, smollm2):
    prompts = ["def fib(n):", "The sky is"]
    said = {"max_tokens": 10}
    _, together = server.post(COMPLETIONS, prompt=prompts, seed=4, n=2, **said)
    single = [server.post(COMPLETIONS, prompt=prompt, seed=4 + j, n=2, **said)[1] for j, prompt in enumerate(prompts)]
    texts = [choice["text"] for answer in single for choice in answer["choices"]]
    assert [choice["text"] for choice in together["choices"]] == texts
    assert [choice["index"] for choice in together["choices"]] == [0, 1, 2, 3]
    ids = [json.loads(run("tokenize", "-m", smollm2, "-p", prompt).out) for prompt in prompts]
    _, by_ids = server.post(COMPLETIONS, prompt=ids, seed=4, n=2, **said)
    assert [choice["text"] for choice in by_ids["choices"]] == texts
    assert server.post(COMPLETIONS, prompt=ids[0], seed=4, **said)[1]["choices"][0]["text"] == texts[0]


def test_null_is_the_default_and_what_clients_add_is_taken(server):
    status, answer = server.post(CHAT, messages=[{"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
                                                 {**MESSAGES[0], "name": "Ann", "tool_calls": []},
                                                 {"role": "assistant", "content": None},
                                                 {"role": "tool", "content": "4", "tool_call_id": "1"}],
                                 max_completion_tokens=3, temperature=None, stop=None, user="me", tools=None,
                                 tool_choice="auto",
                                 response_format={"type": "text"}, stream=False, ignore_eos=True, draft_length="off")
    assert status == 200 and answer["usage"]["completion_tokens"] == 3


def test_a_chat_goes_on_with_its_last_message(server, run, smollm2):
    began = [*MESSAGES, {"role": "assistant", "content": "The capital of France is the city of"}]
    said = {"messages": began, "temperature": 0, "max_tokens": 12}
    status, answer = server.post(CHAT, **said, continue_final_message=True, add_generation_prompt=False)
    assert status == 200, answer
    prompt = (f"<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\n"
              f"{MESSAGES[0]['content']}<|im_end|>\n<|im_start|>assistant\n{began[1]['content']}")
    ids = json.loads(run("tokenize", "-m", smollm2, "-p", prompt).out)
    _, by_ids = server.post(COMPLETIONS, prompt=ids, temperature=0, max_tokens=12)
    assert answer["choices"][0]["message"]["content"] == by_ids["choices"][0]["text"]
    _, anew = server.post(CHAT, **said)
    assert anew["usage"]["prompt_tokens"] > answer["usage"]["prompt_tokens"] == len(ids)
    assert server.post(CHAT, messages=[*MESSAGES, {"role": "assistant", "content": ""}], continue_final_message=True)[0] == 400


@pytest.mark.parametrize("is_streamed", [False, True])
def test_what_a_model_thinks_is_told_apart(server, is_streamed):
    """A conversation whose last message has begun the thoughts, which this model does not end."""
    thinks = [*MESSAGES, {"role": "assistant", "content": "<think>"}]
    said = {"messages": thinks, "continue_final_message": True, "temperature": 0, "max_tokens": 12, "model": "smollm2"}
    client = server.client().chat.completions
    keys = ["messages", "temperature", "max_tokens", "model"]
    known = {key: said[key] for key in keys}

    def ask(**more):
        answer = client.create(**known, stream=is_streamed, extra_body={"continue_final_message": True, **more})
        parts = [piece.choices[0].delta for piece in answer] if is_streamed else [answer.choices[0].message]
        join = lambda key: "".join(getattr(part, key, None) or "" for part in parts)
        return join("reasoning_content"), join("content")

    thoughts, answer = ask()
    assert thoughts and answer == ""
    assert ask(separate_reasoning=False)[0] == "" and ask(separate_reasoning=False)[1].strip() == thoughts


def test_a_least_length_and_tokens_that_end(server):
    said = {"prompt": "The sky is", "temperature": 0, "max_tokens": 20}
    _, whole = server.post(COMPLETIONS, **said, logprobs=0)
    full_stop = server.post(COMPLETIONS, **said, stop=["."])[1]["choices"][0]
    assert full_stop["finish_reason"] == "stop" and "." in whole["choices"][0]["text"]
    status, later = server.post(COMPLETIONS, **said, stop=["."], min_tokens=20)
    assert status == 200 and later["usage"]["completion_tokens"] == 20
    token = 30  # a full stop
    _, ended = server.post(COMPLETIONS, **said, stop_token_ids=[token])
    assert ended["choices"][0]["finish_reason"] == "stop" and ended["choices"][0]["text"] == full_stop["text"]


def test_texts_and_tokens(server, run, smollm2):
    text = "Hello <|im_end|> w\u00f6rld"
    ids = json.loads(run("tokenize", "-m", smollm2, "-p", text).out)
    status, answer = server.post("/tokenize", prompt=text, model="smollm2")
    assert status == 200 and answer["tokens"] == ids and answer["count"] == len(ids)
    assert server.post("/v1/detokenize", tokens=ids)[1] == {"prompt": text}
    _, chat = server.post("/tokenize", messages=MESSAGES, add_generation_prompt=True, add_special_tokens=False, return_token_strs=False)
    assert chat["count"] == server.post(CHAT, messages=MESSAGES, max_tokens=1)[1]["usage"]["prompt_tokens"]
    model = server.call("GET", "/v1/models")[1]["data"][0]
    assert model["max_model_len"] == answer["max_model_len"] == chat["max_model_len"] > 0
    for path, body, says in [("/tokenize", {}, '"prompt": must be a string'), ("/tokenize", {"prompt": "a", "x": 1}, "unknown key"),
                             ("/detokenize", {"tokens": [-1]}, "token ids"), ("/detokenize", {"tokens": [1] * 300000}, "at most 262144"), ("/detokenize", {"tokens": [10**8]}, "100000000"),
                             ("/tokenize", {"messages": []}, '"messages"'), ("/detokenize", {"tokens": 5}, "token ids")]:
        status, answer = server.post(path, **body)
        assert status == 400 and says in answer["error"]["message"], answer
    assert server.post("/tokenize", prompt="a", model="other")[0] == 404
    assert server.post("/tokenize", prompt="a" * (5 << 20))[0] == 413
    assert server.call("GET", "/tokenize")[0] == 405


# OpenAI's client

def test_openai_client(server):
    client = server.client()
    assert [model.id for model in client.models.list()] == ["smollm2"]
    assert client.models.retrieve("smollm2").owned_by == "bass"
    answer = client.chat.completions.create(model="smollm2", messages=MESSAGES, temperature=0, max_tokens=30)
    assert answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 30
    conversation = [*MESSAGES, answer.choices[0].message, {"role": "user", "content": "And of Spain?"}]
    assert client.chat.completions.create(model="smollm2", messages=conversation, max_tokens=5).choices
    pieces = client.chat.completions.create(model="smollm2", messages=MESSAGES, temperature=0, max_tokens=30, stream=True)
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces)
    assert text == answer.choices[0].message.content
    completion = client.completions.create(model="smollm2", prompt="def f", max_tokens=4, n=3, best_of=5,
                                           extra_body={"top_k": 5, "verify": "match"})
    assert len(completion.choices) == 3


def test_openai_client_gets_its_own_errors(server):
    client = server.client()
    with pytest.raises(openai.NotFoundError, match='"gpt-4\\\\?": is not served here'):
        client.chat.completions.create(model="gpt-4", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model="smollm2", messages=MESSAGES, temperature=-1)
    with pytest.raises(openai.BadRequestError, match="maximum context length") as too_long:
        client.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "a b " * 10000}])
    assert (too_long.value.code, too_long.value.param) == ("context_length_exceeded", "messages")


def test_openai_client_sends_a_conversation_with_tools_again(server):
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}
    conversation = [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c1", "content": "4"}]
    answer = server.client().chat.completions.create(model="smollm2", messages=conversation, max_tokens=3)
    assert answer.usage.completion_tokens <= 3 and answer.choices[0].message.content is not None


ADD = {"type": "function", "function": {"name": "add", "description": "adds two numbers", "strict": True, "parameters": {
    "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b": {"$ref": "#/$defs/b"}},
    "required": ["a", "b"], "additionalProperties": False, "$defs": {"b": {"enum": [4, 5]}}}}}
NOW = {"type": "function", "function": {"name": "now"}}


def calls_of(message):
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]


@pytest.mark.parametrize("choice, names, reason", [
    ("required", {"add", "now"}, "tool_calls"),
    ({"type": "function", "function": {"name": "add"}}, {"add"}, "stop"),
])
def test_openai_client_has_tools_called(server, choice, names, reason):
    chat = {"model": "smollm2", "messages": [{"role": "user", "content": "What is 2 plus 4?"}], "tools": [ADD, NOW],
            "tool_choice": choice, "max_tokens": 200, "seed": 1, "n": 3}
    answer = server.client().chat.completions.create(**chat)
    for one in answer.choices:
        [(name, arguments)] = calls_of(one.message)
        assert name in names and one.message.content is None and one.finish_reason == reason
        assert name == "now" or (0 <= arguments["a"] <= 9 and arguments["b"] in (4, 5) and set(arguments) == {"a", "b"})
    streamed, reasons = {}, {}
    for piece in server.client().chat.completions.create(**chat, stream=True):
        for one in piece.choices:
            reasons[one.index] = one.finish_reason
            for call in one.delta.tool_calls or []:
                assert call.index == 0 and call.type == "function"
                streamed[one.index] = (call.id, call.function.name, json.loads(call.function.arguments))
            assert not one.delta.content
    assert [streamed[i][1:] for i in range(3)] == [calls_of(one.message)[0] for one in answer.choices]
    assert set(reasons.values()) == {reason}


def test_a_model_may_call_or_talk(server):
    """What it writes is given: here by a pattern, as this model does not know what tools are."""
    call = r'<tool_call>\n\{"name": "add", "arguments": \{"a": [0-9], "b": [45]\}\}\n</tool_call>'
    chat = {"messages": MESSAGES, "tools": [ADD], "seed": 1, "max_tokens": 120}
    for stream in (False, True):
        status, talked = server.post(CHAT, **chat, regex="Yes, I do[.]", stream=stream)
        assert status == 200 and "tool_calls" not in str(talked)
        status, called = server.post(CHAT, **chat, regex=r"I add[.]\n" + call + r"\n" + call, stream=stream)
        assert status == 200
    message = server.post(CHAT, **chat, regex=r"I add[.]\n" + call + r"\n" + call)[1]["choices"][0]["message"]
    assert message["content"] == "I add." and [one["function"]["name"] for one in message["tool_calls"]] == ["add", "add"]


def test_an_answer_of_a_schema_may_be_a_call(server):
    """Agents send both: what an answer has to look like, and tools."""
    shape = {"type": "json_schema", "json_schema": {"schema": {"type": "object", "properties": {"ok": {"enum": [True]}},
                                                               "required": ["ok"], "additionalProperties": False}}}
    chat = {"messages": MESSAGES, "tools": [ADD, NOW], "response_format": shape, "temperature": 8, "max_tokens": 150, "n": 24, "seed": 3}
    status, answer = server.post(CHAT, **chat)
    assert status == 200
    whole = [choice["message"] for choice in answer["choices"] if choice["finish_reason"] != "length"]
    assert {"tool_calls" in message for message in whole} == {True, False}
    assert all("tool_calls" in message or json.loads(message["content"]) == {"ok": True} for message in whole)


def test_one_call_where_several_are_not_wanted(server):
    call = r'<tool_call>\{"name": "now", "arguments": \{\}\}</tool_call>'
    chat = {"messages": MESSAGES, "tools": [NOW], "max_tokens": 120, "regex": call + call + call}
    assert len(server.post(CHAT, **chat)[1]["choices"][0]["message"]["tool_calls"]) == 3
    assert len(server.post(CHAT, **chat, parallel_tool_calls=False)[1]["choices"][0]["message"]["tool_calls"]) == 1


def test_large_arguments_of_strangers_take_no_long_time(server):
    arguments = "{" + ",".join(f'"k{i}":1' for i in range(40_000)) + "}"
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    start = time.monotonic()
    status, answer = server.post(CHAT, messages=[*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [call]}])
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
    assert time.monotonic() - start < 3


def test_tools_are_in_the_prompt(server):
    def n_prompt_tokens(**more):
        return server.post(CHAT, messages=MESSAGES, max_tokens=1, **more)[1]["usage"]["prompt_tokens"]

    plain = n_prompt_tokens()
    assert n_prompt_tokens(tools=[ADD, NOW]) > n_prompt_tokens(tools=[NOW]) > plain + 20
    assert n_prompt_tokens(tools=[ADD], tool_choice="none") == plain
