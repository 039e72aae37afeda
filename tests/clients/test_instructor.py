"""instructor, by some of the ways in which it asks OpenAI's and Anthropic's APIs for a structure."""

from typing import Any

import instructor
import pytest
from anthropic import Anthropic
from instructor import Mode
from openai import OpenAI

from tests.clients.prompts import ASK_VERDICT, Verdict


@pytest.fixture(params=["tools", "json_schema", "responses_tools", "anthropic"])
def client(request: pytest.FixtureRequest, url: str) -> Any:
    if request.param == "anthropic":
        return instructor.from_anthropic(Anthropic(base_url=url, api_key="none", max_retries=0))
    mode = Mode[request.param.upper()]
    return instructor.from_openai(OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0), mode=mode)


ASK: dict[str, Any] = {
    "model": "demo",
    "messages": [{"role": "user", "content": ASK_VERDICT}],
    "response_model": Verdict,
    "max_tokens": 500,
    "max_retries": 0,
}


def test_a_structure(client: Any) -> None:
    assert isinstance(client.create(**ASK), Verdict)


def test_a_partial_structure(client: Any) -> None:
    partial = list(client.create_partial(**ASK))
    assert isinstance(partial[-1].sure, bool)
