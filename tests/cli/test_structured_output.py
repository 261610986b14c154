"""Answers that follow a JSON schema or a regular expression: `bass generate`, prompts files, `bass serve`.

Validity is told by Python's own parsers and by jsonschema, not by what made the answers."""
import json
import re

import jsonschema
import openai
import pytest
from serving import CHAT, COMPLETIONS, serving

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "role": {"enum": ["admin", "user", None]},
        "mail": {"type": "string", "pattern": "^[a-z]{2,8}@[a-z]{2,8}\\.(com|org)$"},
        "scores": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 3},
        "friend": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/friend"}]},
    },
    "required": ["name", "age", "role", "scores", "friend"],
    "additionalProperties": False,
    "$defs": {"friend": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}}, "required": ["name"],
                         "additionalProperties": False}},
}
PROMPT = "Describe a person as JSON."


def check(text, schema=PERSON):
    jsonschema.validate(json.loads(text), schema)


@pytest.fixture
def texts(run, smollm2):
    """The texts of a run's samples, all of which have come to their end."""
    def call(*arguments, code=0):
        done = run("generate", "-m", smollm2, "--json", "-p", PROMPT, "--chat", "--max-tokens", "300", *arguments)
        assert done.code == code, done.err
        choices = done.json()["prompts"][0]["choices"]
        assert {choice["finish_reason"] for choice in choices} == {"stop"}, [choice["text"] for choice in choices]
        return [choice["text"] for choice in choices]
    return call


@pytest.mark.parametrize("options", [["--temperature", "0", "-n", "1"], ["--seed", "7", "-n", "6"],
                                     ["-n", "6", "--temperature", "1.3"], ["-n", "4", "--verify", "rejection"],
                                     ["-n", "4", "--draft-length", "fixed:6"], ["-n", "4", "--drafter", "ngram"],
                                     ["-n", "4", "--top-p", "0.9", "--repetition-penalty", "1.2"]])
def test_answers_fit_their_schema(texts, options):
    for text in texts("--json-schema", json.dumps(PERSON), *options):
        check(text)


def test_without_a_schema_they_do_not(run, smollm2):  # the tests above could fail
    done = run("generate", "-m", smollm2, "--json", "-p", PROMPT, "--chat", "--max-tokens", "60", "--seed", "7")
    with pytest.raises((json.JSONDecodeError, jsonschema.ValidationError)):
        check(done.json()["prompts"][0]["choices"][0]["text"])


def test_a_seed_gives_the_same_bytes_with_drafts_and_without(texts):
    arguments = ["--json-schema", json.dumps(PERSON), "--seed", "11", "-n", "5"]
    regular = texts(*arguments, "--drafter", "off")
    assert texts(*arguments) == regular
    assert texts(*arguments, "--draft-length", "fixed:4", "--max-batch", "2") == regular


def test_regular_expressions(texts):
    pattern = r"(Yes|No), because [A-Za-z ]{5,40}\."
    for text in texts("--regex", pattern, "-n", "6"):
        assert re.fullmatch(pattern, text)


def test_values_of_several_types(texts):
    schema = {"anyOf": [{"type": "array", "items": {"type": ["integer", "null", "boolean"]}, "maxItems": 4}, {"type": "number"}]}
    for text in texts("--json-schema", json.dumps(schema), "-n", "8", "--seed", "3"):
        check(text, schema)


def test_any_json_is_json_as_far_as_it_goes(run, smollm2):
    done = run("generate", "-m", smollm2, "--json", "-p", PROMPT, "--chat", "--max-tokens", "120", "-n", "6", "--seed", "3",
               "--json-schema", "{}")
    choices = done.json()["prompts"][0]["choices"]
    for choice in choices:
        if choice["finish_reason"] == "stop":
            json.loads(choice["text"])
        else:
            with pytest.raises(json.JSONDecodeError, match="Unterminated|Expecting|Invalid"):  # cut short, not wrong before
                json.loads(choice["text"])


def test_lines_of_a_prompts_file_have_their_own(run, smollm2, tmp_path):
    """A schema in a line is an object, or a string that holds it; properties come in its order."""
    schema = {"type": "object", "properties": {"zebra": {"type": "boolean"}, "ant": {"enum": [1, 22]}},
              "required": ["zebra", "ant"]}
    lines = [{"prompt": PROMPT, "json_schema": schema}, {"prompt": PROMPT, "json_schema": json.dumps(schema)},
             {"prompt": PROMPT, "json_schema": None, "regex": "[0-9]{4}"}, {"prompt": PROMPT}]
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    done = run("generate", "-m", smollm2, "--json", "--prompts", file, "--max-tokens", "40", "--seed", "1", "--json-schema",
               '{"enum": ["the default"]}')
    assert done.code == 0, done.err
    found = [prompt["choices"][0]["text"] for prompt in done.json()["prompts"]]
    for text in found[:2]:
        assert list(json.loads(text)) == ["zebra", "ant"]
    assert re.fullmatch("[0-9]{4}", found[2])
    assert found[3] == '"the default"'


@pytest.mark.parametrize("options, message", [
    (["--json-schema", "{"], "--json-schema {"),
    (["--json-schema", '{"type": "objekt"}'], "objekt"),
    (["--json-schema", '{"not": {}}'], '"not" at #'),
    (["--json-schema", "false"], "--json-schema false"),
    (["--regex", "(a"], "--regex (a"),
    (["--regex", r"(?=a)b"], "lookahead"),
    (["--regex", "a", "--json-schema", "{}"], "one of them"),
])
def test_bad_ones_are_named(run, smollm2, options, message):
    done = run("generate", "-m", smollm2, "-p", PROMPT, *options)
    assert done.code != 0
    assert message in done.err, done.err


@pytest.fixture(scope="module")
def server(binary, smollm2):
    with serving(binary, "-m", smollm2, "--model-name", "smollm2") as running:
        yield running


def test_openais_client(server):
    answer = server.client().chat.completions.create(
        model="smollm2", messages=[{"role": "user", "content": PROMPT}], n=3, max_tokens=300,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}})
    for choice in answer.choices:
        assert choice.finish_reason == "stop"
        check(choice.message.content)


def test_streams(server):
    pieces = server.client().chat.completions.create(
        model="smollm2", messages=[{"role": "user", "content": PROMPT}], stream=True, max_tokens=300,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}})
    check("".join(piece.choices[0].delta.content or "" for piece in pieces))


def test_json_mode(server):
    status, answer = server.post(CHAT, messages=[{"role": "user", "content": PROMPT}], seed=4, max_tokens=400,
                                 response_format={"type": "json_object"})
    assert status == 200, answer
    if answer["choices"][0]["finish_reason"] == "stop":
        assert isinstance(json.loads(answer["choices"][0]["message"]["content"]), dict)
    assert answer["choices"][0]["message"]["content"].startswith("{")


def test_completions_take_them_too(server):
    status, answer = server.post(COMPLETIONS, prompt="The year is", regex="[12][0-9]{3}")
    assert status == 200 and re.fullmatch("[12][0-9]{3}", answer["choices"][0]["text"]), answer
    status, answer = server.post(COMPLETIONS, prompt="The year is", json_schema={"type": "integer", "minimum": 5, "maximum": 7})
    assert status == 200 and answer["choices"][0]["text"] in "567", answer


def test_choices_of_vllms_clients(server):
    for more in ({"guided_choice": ["a (b)", "c|d"]}, {"structured_outputs": {"choice": ["a (b)", "c|d"]}}):
        status, answer = server.post(CHAT, messages=[{"role": "user", "content": PROMPT}], **more)
        assert status == 200 and answer["choices"][0]["message"]["content"] in ("a (b)", "c|d"), answer


@pytest.mark.parametrize("body, message", [
    ({"response_format": {"type": "xml"}}, "response_format"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"if": {}}}}}, '"if" at #'),
    ({"guided_grammar": "root ::= a"}, '"grammar" is not supported here'),
])
def test_bad_calls_say_what_is_wrong(server, body, message):
    status, answer = server.post(CHAT, messages=[{"role": "user", "content": PROMPT}], **body)
    assert status == 400
    assert message in answer["error"]["message"]


def test_the_server_goes_on(server):
    with pytest.raises(openai.BadRequestError):
        server.client().chat.completions.create(model="smollm2", messages=[{"role": "user", "content": PROMPT}],
                                                response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}})
    assert server.post(COMPLETIONS, prompt="Yes or no?", regex="Yes|No")[1]["choices"][0]["text"] in ("Yes", "No")


def test_a_least_length_that_a_pattern_cannot_have_is_told(run, smollm2):
    done = run("generate", "-m", smollm2, "-p", "So", "--regex", r"yes\n", "--stop-token-ids", 198, "--min-tokens", 10)
    assert done.code == 1 and "min_tokens: only tokens of stop_token_ids can go on" in done.err
