"""LiteLLM over both API families."""

import litellm
import pytest

ASK = [{"role": "user", "content": "Name three colours."}]


@pytest.mark.parametrize("family", ["openai", "anthropic"])
def test_streamed_and_not(family, url, key, model):
    base = url + "/v1" if family == "openai" else url
    ask = dict(
        model=f"{family}/{model}", messages=ASK, api_base=base, api_key=key, temperature=0, max_tokens=24, num_retries=0
    )
    whole = litellm.completion(**ask).choices[0].message.content
    streamed = "".join(part.choices[0].delta.content or "" for part in litellm.completion(stream=True, **ask))
    assert whole and streamed == whole
