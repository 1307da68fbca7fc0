"""LangChain over both API families."""

import pydantic
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI


class Weather(pydantic.BaseModel):
    """The weather of a city."""

    model_config = {"extra": "forbid"}
    city: str = pydantic.Field(max_length=20)
    days: int = pydantic.Field(ge=1, le=9)


@pytest.fixture(params=["openai", "responses", "anthropic"])
def chat(request, url, key, model):
    if request.param == "anthropic":
        return ChatAnthropic(model=model, base_url=url, api_key=key, max_tokens=120, temperature=0, max_retries=0)
    return ChatOpenAI(
        model=model,
        base_url=url + "/v1",
        api_key=key,
        max_tokens=120,
        temperature=0,
        max_retries=0,
        use_responses_api=request.param == "responses",
    )


def test_invoke_and_stream(chat):
    whole = chat.invoke("Name three colours.")
    parts = list(chat.stream("Name three colours."))
    assert whole.text and "".join(part.text for part in parts) == whole.text
    assert whole.usage_metadata["output_tokens"] > 0


def test_tools(chat):
    bound = chat.bind_tools([Weather], tool_choice="Weather")
    call = bound.invoke("What will the weather be in Prague for 3 days?").tool_calls[0]
    assert call["name"] == "Weather"
    Weather.model_validate(call["args"])


def test_structured_output(chat):
    answer = chat.with_structured_output(Weather).invoke("The weather in Prague for 3 days, as JSON.")
    assert isinstance(answer, Weather)
