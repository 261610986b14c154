"""Models that think first: the default model with a chat template that knows thoughts, which it has examples of."""
import json
import pathlib

import pytest
from serving import CHAT, serving

SHOTS = [("Is a shark a fish?", "A shark is a fish.", "Yes"), ("Is a dog a fish?", "A dog is a mammal.", "No"),
         ("Is a tuna a fish?", "A tuna is a fish.", "Yes")]
MESSAGES = [message for question, thought, answer in SHOTS for message in (
    {"role": "user", "content": question}, {"role": "assistant", "content": f"<think>\n{thought}\n</think>\n\n{answer}"})]
MESSAGES.append({"role": "user", "content": "Is a cat a fish?"})
ASKED = {"messages": MESSAGES, "temperature": 0, "max_tokens": 60}
THOUGHT = "A cat is a mammal."
SCHEMA = {"type": "object", "properties": {"fish": {"type": "boolean"}}, "required": ["fish"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "fish", "schema": SCHEMA}}
TOOL = {"type": "function", "function": {"name": "judge", "parameters": SCHEMA}}


def with_template(smollm2, path, template):
    """The model's file with another chat template in the place of its own."""
    content = pathlib.Path(smollm2).read_bytes()
    begin = content.index(b"{% for message in messages %}")
    end = content.index(b"{% endif %}", content.index(b"add_generation_prompt", begin)) + len(b"{% endif %}")
    comment = "{#" + " " * (end - begin - len(template) - 4) + "#}"
    path.write_bytes(content[:begin] + (template + comment).encode() + content[end:])
    return path


@pytest.fixture(scope="module", params=["may begin", "have begun"])
def thinker(request, smollm2, tmp_path_factory):
    """Of a template that leaves the mark to the model, or writes it."""
    begun = "<think>\\n" if request.param == "have begun" else ""
    template = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
                "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n" + begun + "' }}{% endif %}{# </think> #}")
    return with_template(smollm2, tmp_path_factory.mktemp("thinker") / "thinker.gguf", template)


@pytest.fixture(scope="module")
def thinking_server(binary, thinker):
    with serving(binary, "-m", thinker, "--model-name", "thinker") as server:
        yield server


def ask(server, **more):
    status, answer = server.post(CHAT, **{**ASKED, **more})
    assert status == 200, answer
    message = answer["choices"][0]["message"]
    return message.get("reasoning_content"), message["content"], message.get("tool_calls"), answer["usage"]


def test_what_has_to_fit_does_so_behind_the_thoughts(thinking_server):
    thought, content, _, usage = ask(thinking_server, response_format=FORMAT)
    assert thought == THOUGHT and list(json.loads(content)) == ["fish"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] >= 8
    thought, content, _, _ = ask(thinking_server, regex="(yes|no)")
    assert (thought, content) == (THOUGHT, "no")
    thought, content, calls, _ = ask(thinking_server, tools=[TOOL], tool_choice="required")
    assert thought and content is None and list(json.loads(calls[0]["function"]["arguments"])) == ["fish"]


def test_thoughts_can_be_done_without(thinking_server):
    for more in ({"think_first": False}, {"separate_reasoning": False}):
        thought, content, _, _ = ask(thinking_server, response_format=FORMAT, **more)
        assert thought is None and list(json.loads(content)) == ["fish"]
    _, content, _, _ = ask(thinking_server, response_format=FORMAT, separate_reasoning=False, think_first=True)
    assert THOUGHT in content and content.endswith("}")


def test_thoughts_that_are_cut_are_thoughts(thinking_server):
    thought, content, _, usage = ask(thinking_server, response_format=FORMAT, max_tokens=6)
    assert thought and THOUGHT.startswith(thought) and content == "" and usage["completion_tokens"] == 6


@pytest.mark.parametrize("name", ["thinking_budget", "thinking_token_budget"])
def test_thoughts_end_within_their_budget(thinking_server, name):
    whole, _, _, usage = ask(thinking_server, regex="(yes|no)")
    n_whole = usage["completion_tokens_details"]["reasoning_tokens"]
    for budget in (0, 3, 5, n_whole, 1000):
        thought, content, _, usage = ask(thinking_server, regex="(yes|no)", **{name: budget})
        assert content in ("yes", "no")
        assert thought == whole if budget >= n_whole else whole.startswith(thought or "") and thought != whole
        free, answer, _, usage = ask(thinking_server, **{name: budget})
        assert (free or "").strip() == (thought or "").strip()
        if budget < n_whole:
            assert answer and usage["completion_tokens_details"]["reasoning_tokens"] < budget + 12  # marks are spelt here
    assert ask(thinking_server, regex="(yes|no)", **{name: -1})[0] == whole


def test_a_server_may_have_a_budget_for_all_its_chats(binary, thinker):
    with serving(binary, "-m", thinker, "--thinking-budget", "3") as server:
        thought, content, _, _ = ask(server, regex="(yes|no)")
        assert thought != THOUGHT and THOUGHT.startswith(thought) and content in ("yes", "no")
        assert ask(server, regex="(yes|no)", thinking_budget=-1)[0] == THOUGHT
        assert ask(server, regex="(yes|no)", thinking_budget=None)[0] == thought
        status, answer = server.post("/v1/completions", prompt="A cat", max_tokens=4)
        assert status == 200 and answer["choices"][0]["text"]


def test_a_response_has_them_as_an_item(thinking_server):
    answer = thinking_server.client().responses.create(
        model="thinker", input=MESSAGES, temperature=0, max_output_tokens=60,
        text={"format": {"type": "json_schema", "name": "fish", "schema": SCHEMA}})
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    assert answer.output[0].content[0].text == THOUGHT and list(json.loads(answer.output_text)) == ["fish"]
    assert answer.usage.output_tokens_details.reasoning_tokens >= 8


@pytest.mark.parametrize("budget", [None, 4])
def test_a_seed_gives_the_same_bytes_with_drafts_and_without(run, thinker, tmp_path, budget):
    line = {"messages": MESSAGES, "json_schema": SCHEMA, "think_first": True, "seed": 3, "n": 4, "max_tokens": 80}
    prompts = tmp_path / "prompts.jsonl"
    if budget is not None:
        line["thinking_budget"] = budget
    prompts.write_text(json.dumps(line) + "\n", encoding="utf-8")
    texts = []
    for drafter in ("off", "ngram"):
        answer = run("generate", "-m", thinker, "--prompts", prompts, "--drafter", drafter, "--json").json()
        texts.append(sorted(sample["text"] for sample in answer["prompts"][0]["choices"]))
    assert texts[0] == texts[1] and any("</think>" in text for text in texts[0])
    for text in texts[0]:
        if "</think>" in text and text.endswith("}"):
            assert list(json.loads(text.split("</think>")[1])) == ["fish"]


def test_models_that_do_not_think_answer_at_once(run, smollm2, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({**ASKED, "regex": "(yes|no)", "think_first": True}) + "\n", encoding="utf-8")
    assert run("generate", "-m", smollm2, "--prompts", prompts, "--json").json()["prompts"][0]["choices"][0]["text"] in ("yes", "no")
    refused = run("generate", "-m", smollm2, "-p", "x", "--think-first")
    assert refused.code == 2 and "think_first: has a place in chats alone" in refused.err
    refused = run("generate", "-m", smollm2, "-p", "x", "--thinking-budget", "3")
    assert refused.code == 2 and "thinking_budget: has a place in chats alone" in refused.err


def test_a_budget_means_nothing_to_models_that_do_not_think(run, smollm2):
    texts = [run("generate", "-m", smollm2, "-p", "What is a fork?", "--chat", "--max-tokens", "20", "--temperature", "0", *budget).out
             for budget in ([], ["--thinking-budget", "2"])]
    assert texts[0] == texts[1]
