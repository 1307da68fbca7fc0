"""What all checks of clients share: the server that `run` started, and greedy settings."""

import os

import pytest

URL = os.environ.get("DFLASH_URL", "http://127.0.0.1:8000")
KEY = "no key is needed"


@pytest.fixture(scope="session")
def url() -> str:
    return URL


@pytest.fixture(scope="session")
def key() -> str:
    return KEY


@pytest.fixture(scope="session")
def model() -> str:
    import openai

    return openai.OpenAI(base_url=URL + "/v1", api_key=KEY).models.list().data[0].id


WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def weather() -> dict:
    """The schema of a tool's arguments."""
    return WEATHER
