"""The `anthropic` client."""

import anthropic
import pytest

ASK = [{"role": "user", "content": "Name three colours."}]
GREEDY = {"extra_body": {"temperature": 0}}


@pytest.fixture(scope="module")
def client(url, key):
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)


def tools(weather):
    return [{"name": "weather", "description": "The weather of a city", "input_schema": weather}]


def prompt_tokens(usage):
    return usage.input_tokens + usage.cache_read_input_tokens


def test_streamed_and_not(client, model):
    ask = dict(model=model, max_tokens=24, messages=ASK, system="Be short.", **GREEDY)
    whole = client.messages.create(**ask)
    assert whole.content[0].text and whole.stop_reason in ("end_turn", "max_tokens")
    with client.messages.stream(**ask) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == whole.content[0].text
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens <= 24
    assert prompt_tokens(final.usage) == prompt_tokens(whole.usage)
    assert final.usage.cache_read_input_tokens > 0, "the prompt was read before"


def test_events(client, model):
    events = [e.type for e in client.messages.create(model=model, max_tokens=8, messages=ASK, stream=True, **GREEDY)]
    events = [e for e in events if e != "ping"]
    assert events[:3] == ["message_start", "content_block_start", "content_block_delta"]
    assert events[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_stop_sequence(client, model):
    ask = dict(model=model, max_tokens=24, messages=ASK, **GREEDY)
    text = client.messages.create(**ask).content[0].text
    stop = text[4:8]
    cut = client.messages.create(stop_sequences=[stop, "never"], **ask)
    assert cut.content[0].text == text[: text.index(stop)]
    assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", stop)


def test_tools(client, model, weather):
    ask = dict(model=model, max_tokens=120, tools=tools(weather), **GREEDY)
    messages = [{"role": "user", "content": "What will the weather be in Prague for 3 days?"}]
    whole = client.messages.create(messages=messages, tool_choice={"type": "any"}, **ask)
    call = next(block for block in whole.content if block.type == "tool_use")
    assert whole.stop_reason == "tool_use" and call.name == "weather"
    assert isinstance(call.input["city"], str) and 1 <= call.input["days"] <= 9
    with client.messages.stream(messages=messages, tool_choice={"type": "tool", "name": "weather"}, **ask) as stream:
        final = stream.get_final_message()
    assert next(block for block in final.content if block.type == "tool_use").input == call.input
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "Sunny."}]}
    messages += [
        {"role": "assistant", "content": [block.to_dict() for block in whole.content]},
        {"role": "user", "content": [result]},
    ]
    assert client.messages.create(messages=messages, **ask).stop_reason in ("end_turn", "max_tokens", "tool_use")


def test_count_tokens(client, model, weather):
    plain = client.messages.count_tokens(model=model, messages=ASK, system="Be short.").input_tokens
    answer = client.messages.create(model=model, messages=ASK, system="Be short.", max_tokens=1, **GREEDY)
    assert plain == prompt_tokens(answer.usage)
    assert client.messages.count_tokens(model=model, messages=ASK, tools=tools(weather)).input_tokens > plain


def test_errors(client, model):
    with pytest.raises(anthropic.BadRequestError) as bad:
        client.messages.create(model=model, max_tokens=0, messages=ASK)
    assert bad.value.body["error"]["type"] == "invalid_request_error" and bad.value.request_id
    with pytest.raises(anthropic.NotFoundError) as unknown:
        client.messages.create(model="claude-none", max_tokens=8, messages=ASK)
    assert "--served-model-name" in str(unknown.value)
    with pytest.raises(anthropic.BadRequestError):
        search = {"type": "web_search_20250305", "name": "web_search"}
        client.messages.create(model=model, max_tokens=8, messages=ASK, tools=[search])
