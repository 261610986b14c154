"""`bass serve`: OpenAI's Responses API, asked by OpenAI's client."""
import http.client
import json

import openai
import pydantic
import pytest
from serving import server, serving  # noqa: F401

RESPONSES = "/v1/responses"
WEATHER = {"type": "function", "name": "weather", "description": "the weather of a city", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}


class Person(pydantic.BaseModel):
    name: str
    age: int


def events_of(server, **body):
    connection = server.begin(RESPONSES, stream=True, **body)
    text = connection.getresponse().read().decode()
    connection.close()
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]


def test_a_text_is_the_chats(server):
    asked = dict(model="smollm2", temperature=0)
    chat = server.client().chat.completions.create(
        max_tokens=20, messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is a fork?"}],
        **asked)
    answer = server.client().responses.create(
        instructions="Be brief.", input="What is a fork?", max_output_tokens=20, metadata={"a": "b"}, **asked)
    assert answer.output_text == chat.choices[0].message.content
    assert answer.id.startswith("resp_") and answer.output[0].id.startswith("msg_")
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (chat.usage.prompt_tokens, 20)
    assert (answer.metadata, answer.instructions, answer.temperature, answer.top_p) == ({"a": "b"}, "Be brief.", 0, 1)


def test_what_was_answered_goes_back_as_it_came(server):
    client, asked = server.client(), dict(model="smollm2", temperature=0, tools=[WEATHER])
    items = [{"role": "user", "content": "Do I need an umbrella in Oslo?"}]
    call = client.responses.create(input=items, tool_choice="required", **asked)
    assert [item.type for item in call.output] == ["function_call"] and call.status == "completed"
    assert list(json.loads(call.output[0].arguments)) == ["city"]
    items += call.output
    items.append({"type": "function_call_output", "call_id": call.output[0].call_id, "output": "rain"})
    said = client.responses.create(input=items, max_output_tokens=10, tool_choice="none", **asked)
    assert said.output_text
    items += said.output
    items.append({"role": "user", "content": "Thanks."})
    assert client.responses.create(input=items, max_output_tokens=10, tool_choice="none", **asked).output_text


def test_a_stream_ends_with_the_whole_answer(server):
    body = dict(input="What is a fork?", seed=5, max_output_tokens=12, top_logprobs=1)
    status, whole = server.post(RESPONSES, **body)
    assert status == 200
    events = events_of(server, **body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    text = whole["output"][0]["content"][0]
    assert "".join(event["delta"] for event in deltas) == text["text"] and len(deltas) > 1
    streamed = events[-1]["response"]["output"][0]["content"][0]
    assert streamed == text and len(text["logprobs"]) == 12
    assert events[-1]["type"] == "response.incomplete" and events[-1]["response"]["usage"] == whole["usage"] | {
        "input_tokens_details": events[-1]["response"]["usage"]["input_tokens_details"]}


@pytest.mark.parametrize("body", [
    {"max_output_tokens": 5}, {"max_output_tokens": 5, "top_logprobs": 2}, {"tools": [WEATHER], "tool_choice": "required"},
    {"text": {"format": {"type": "json_object"}, "verbosity": "low"}, "metadata": {"a": "b"}, "user": "u", "reasoning": {"effort": "low"}},
    {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "weather"}, "parallel_tool_calls": False}])
def test_objects_have_all_that_the_clients_types_want(server, body):
    _, whole = server.post(RESPONSES, input="Hi", temperature=0, **body)
    openai.types.responses.Response.model_validate(whole)
    event_type = pydantic.TypeAdapter(openai.types.responses.ResponseStreamEvent)
    for event in events_of(server, input="Hi", temperature=0, **body):
        event_type.validate_python(event)


def test_the_clients_own_reader_of_streams(server):
    with server.client().responses.stream(model="smollm2", input="Make a person.", text_format=Person, temperature=0) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_parsed.name
    with server.client().responses.stream(model="smollm2", input="Oslo?", tools=[WEATHER], temperature=0,
                                          tool_choice={"type": "function", "name": "weather"}) as stream:
        for _ in stream:
            pass
        assert list(stream.get_final_response().output[0].parsed_arguments) == ["city"]


@pytest.mark.parametrize("body, param", [
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input"),
    ({"input": "word " * 9000}, "input"),
    ({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id"),
    ({"input": "x", "max_output_tokens": "many"}, "max_output_tokens"),
    ({"input": "x", "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "odd"}}}}, "text.format"),
    ({"input": "x", "temprature": 1}, "temprature")])
def test_errors_name_the_callers_key(server, body, param):
    with pytest.raises(openai.BadRequestError) as error:
        server.client().responses.create(model="smollm2", input=body.pop("input"), extra_body=body)
    assert error.value.param == param


def test_paths(server):
    assert server.call("GET", RESPONSES)[0] == 405
    assert server.call("GET", RESPONSES + "/resp_1")[0] == 404
    assert server.post("/responses", input="x", max_output_tokens=1)[0] == 200


def test_a_stream_that_the_servers_end_cuts_has_failed(binary, smollm2):
    with serving(binary, "-m", smollm2, "--drain", 0) as server:
        connection = server.begin(RESPONSES, stream=True, input="x", max_output_tokens=8000, ignore_eos=True)
        server.wait_for("prompts_running", 1)
        code, _ = server.stop()
        with pytest.raises(http.client.IncompleteRead) as cut:
            connection.getresponse().read()
        connection.close()
        assert code == 0
        data = [json.loads(line[6:]) for line in cut.value.partial.decode().splitlines() if line.startswith("data: ")]
        assert data[-2]["type"] == "response.failed" and data[-2]["response"]["status"] == "failed"
        assert data[-1]["error"]["message"] == "the server is ending"
