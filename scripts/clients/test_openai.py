"""The `openai` client: chat, completions, responses."""

import json
import time
import urllib.request

import openai
import pydantic
import pytest

ASK = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Name three colours."}]
GREEDY = {"temperature": 0, "max_tokens": 24}
# Enough for the answer to end by itself.
WHOLE = {"temperature": 0, "max_tokens": 200}


class Trip(pydantic.BaseModel):
    model_config = {"extra": "forbid"}
    city: str = pydantic.Field(max_length=20)
    days: int = pydantic.Field(ge=1, le=9)


@pytest.fixture(scope="module")
def client(url, key):
    return openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0)


def tool(weather):
    function = {"name": "weather", "description": "The weather of a city", "parameters": weather}
    return [{"type": "function", "function": function}]


def test_models(client, model):
    assert client.models.retrieve(model).id == model
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


def test_chat_streamed_and_not(client, model):
    whole = client.chat.completions.create(model=model, messages=ASK, **GREEDY)
    text = whole.choices[0].message.content
    assert text and whole.choices[0].finish_reason in ("stop", "length")
    usage = whole.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    chunks = list(
        client.chat.completions.create(
            model=model, messages=ASK, stream=True, stream_options={"include_usage": True}, **GREEDY
        )
    )
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == [
        whole.choices[0].finish_reason
    ]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == usage.completion_tokens


def test_chat_stream_helper(client, model):
    whole = client.chat.completions.create(model=model, messages=ASK, **WHOLE)
    with client.chat.completions.stream(model=model, messages=ASK, **WHOLE) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert final.choices[0].message.content == whole.choices[0].message.content


def test_chat_stop(client, model):
    whole = client.chat.completions.create(model=model, messages=ASK, **GREEDY).choices[0].message.content
    stop = whole[4:8]
    cut = client.chat.completions.create(model=model, messages=ASK, stop=[stop], **GREEDY).choices[0]
    assert cut.message.content == whole[: whole.index(stop)] and cut.finish_reason == "stop"


def test_chat_seed_and_several(client, model):
    def ask(**more):
        answer = client.chat.completions.create(
            model=model, messages=ASK, temperature=1.0, max_tokens=12, **more
        )
        return [choice.message.content for choice in sorted(answer.choices, key=lambda c: c.index)]

    three = ask(n=3, seed=7)
    assert len(three) == 3 and len(set(three)) > 1
    assert ask(n=3, seed=7) == three and ask(seed=7) == three[:1]


def test_chat_logprobs(client, model):
    answer = client.chat.completions.create(model=model, messages=ASK, logprobs=True, top_logprobs=3, **GREEDY)
    told = answer.choices[0].logprobs.content
    assert len(told) == answer.usage.completion_tokens
    for token in told:
        assert token.logprob <= 0 and len(token.top_logprobs) == 3
        assert token.token == token.top_logprobs[0].token


def test_chat_tools_streamed_and_not(client, model, weather):
    ask = dict(model=model, tools=tool(weather), tool_choice="required", temperature=0, max_tokens=120)
    messages = [{"role": "user", "content": "What will the weather be in Prague for 3 days?"}]
    whole = client.chat.completions.create(messages=messages, **ask).choices[0]
    call = whole.message.tool_calls[0]
    assert whole.finish_reason == "tool_calls" and call.function.name == "weather"
    Trip.model_validate_json(call.function.arguments)
    arguments, names = "", []
    for chunk in client.chat.completions.create(messages=messages, stream=True, **ask):
        for delta in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            if delta.index == 0:
                names += [delta.function.name] if delta.function.name else []
                arguments += delta.function.arguments or ""
    assert names == ["weather"] and arguments == call.function.arguments
    messages += [
        whole.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "Sunny."},
    ]
    answer = client.chat.completions.create(messages=messages, model=model, tools=tool(weather), **GREEDY)
    assert answer.choices[0].message is not None


def test_chat_json_schema(client, model):
    messages = [{"role": "user", "content": "Plan a trip to Prague for 3 days. Answer as JSON."}]
    parsed = client.chat.completions.parse(
        model=model, messages=messages, response_format=Trip, temperature=0, max_tokens=80
    )
    assert isinstance(parsed.choices[0].message.parsed, Trip)
    plain = client.chat.completions.create(
        model=model, messages=messages, response_format={"type": "json_object"}, temperature=0, max_tokens=200
    )
    if plain.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(plain.choices[0].message.content), dict)


def test_cancel_in_mid_stream(client, model, url):
    stream = client.chat.completions.create(
        model=model, messages=ASK, stream=True, max_tokens=2000, temperature=0, extra_body={"logit_bias": {"2": -100}}
    )
    next(iter(stream))
    stream.close()
    for _ in range(50):
        with urllib.request.urlopen(url + "/metrics.json") as answer:
            if json.load(answer)["current_request"] is None:
                break
        time.sleep(0.1)
    else:
        pytest.fail("the cancelled request is still in work")
    assert client.chat.completions.create(model=model, messages=ASK, **GREEDY).choices[0].message.content


def test_completions(client, model):
    ask = dict(model=model, prompt="One, two, three,", temperature=0, max_tokens=16)
    whole = client.completions.create(**ask)
    streamed = "".join(c.choices[0].text for c in client.completions.create(stream=True, **ask) if c.choices)
    assert streamed == whole.choices[0].text and whole.usage.completion_tokens <= 16
    both = client.completions.create(**{**ask, "prompt": ["One, two, three,", "Red, green,"]})
    assert len(both.choices) == 2 and both.choices[0].text == whole.choices[0].text


def test_errors(client, model):
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=model, messages=ASK, temperature=-1)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="no-such-model", messages=ASK)
    with pytest.raises(openai.BadRequestError):
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": [image]}])


def test_responses_streamed_and_not(client, model):
    ask = dict(model=model, input="Name three colours.", instructions="Be short.", temperature=0)
    whole = client.responses.create(max_output_tokens=200, **ask)
    assert whole.status == "completed" and whole.output_text and whole.error is None and whole.store is False
    with client.responses.stream(max_output_tokens=200, **ask) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == whole.output_text and final.usage.total_tokens == whole.usage.total_tokens
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text


def test_responses_that_are_cut(client, model):
    ask = dict(model=model, input=[{"role": "user", "content": "Count to one hundred."}], max_output_tokens=5)
    whole = client.responses.create(temperature=0, **ask)
    assert whole.status == "incomplete" and whole.incomplete_details.reason == "max_output_tokens"
    assert whole.usage.output_tokens == 5
    events = list(client.responses.create(temperature=0, stream=True, **ask))
    assert events[-1].type == "response.incomplete" and events[-1].response.output_text == whole.output_text


def test_responses_tools(client, model, weather):
    ask = dict(
        model=model,
        tools=[{"type": "function", "name": "weather", "description": "The weather of a city", "parameters": weather}],
        temperature=0,
        max_output_tokens=120,
    )
    question = {"role": "user", "content": "What will the weather be in Prague for 3 days?"}
    named = {"type": "function", "name": "weather"}
    whole = client.responses.create(input=[question], tool_choice=named, **ask)
    call = next(item for item in whole.output if item.type == "function_call")
    assert call.name == "weather"
    Trip.model_validate_json(call.arguments)
    with client.responses.stream(input=[question], tool_choice=named, **ask) as stream:
        streamed = "".join(e.delta for e in stream if e.type == "response.function_call_arguments.delta")
        final = next(i for i in stream.get_final_response().output if i.type == "function_call")
    assert streamed == final.arguments == call.arguments
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."}
    history = [question, *(item.model_dump(exclude_none=True) for item in whole.output), output]
    assert client.responses.create(input=history, **ask).status in ("completed", "incomplete")


def test_responses_json_schema(client, model):
    parsed = client.responses.parse(
        model=model, input="Plan a trip to Prague for 3 days.", text_format=Trip, temperature=0, max_output_tokens=80
    )
    assert isinstance(parsed.output_parsed, Trip)


def test_responses_errors(client, model):
    for field, value in {"previous_response_id": "resp_1", "background": True, "store": True, "truncation": "auto"}.items():
        with pytest.raises(openai.BadRequestError) as bad:
            client.responses.create(model=model, input="Hello", **{field: value})
        assert bad.value.param == field
