"""Compacting a conversation, through OpenAI's SDK; the scripted model summarises by saying what it was asked."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import BadRequestError, NotFoundError, OpenAI

from tests.support.serving import Server, serve


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store") / "responses.db"


@pytest.fixture(scope="module")
def kept(path: Path) -> Iterator[Server]:
    with serve(responses_path=str(path)) as server:
        yield server


@pytest.fixture
def client(kept: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{kept.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def spoken(*texts: str) -> Any:
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


def test_a_conversation_is_compacted_and_goes_on(client: OpenAI, path: Path) -> None:
    found = client.responses.compact(model="fake", input=spoken("the number is 12", "noted"), instructions="Be brief.")
    first, last = found.output
    assert (first.type, last.type) == ("message", "compaction")
    assert (found.usage.input_tokens, found.usage.output_tokens) == (2, 1)  # the fake model counts messages
    again: Any = [one.model_dump(exclude_none=True, warnings=False) for one in found.output]
    response = client.responses.create(model="fake", input=[*again, *spoken("What is it?")])
    assert response.usage
    assert response.usage.input_tokens == 3
    echoed = client.responses.create(model="fake", input=again)  # the fake model says what it was told last
    assert "noted" in echoed.output_text
    assert "too long to be kept" in echoed.output_text
    key = path.with_name(f"{path.name}.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert sorted(file.name for file in path.parent.glob("*.key*")) == [key.name]


def test_what_a_response_goes_on_from_is_compacted(client: OpenAI) -> None:
    response = client.responses.create(model="fake", input="the number is 34")
    found = client.responses.compact(model="fake", previous_response_id=response.id, input="and 56")
    assert [one.type for one in found.output] == ["message", "message", "compaction"]
    told: Any = [found.output[-1].model_dump(exclude_none=True)]
    assert "34" in client.responses.create(model="fake", input=told).output_text
    with pytest.raises(NotFoundError):
        client.responses.compact(model="fake", previous_response_id="resp_none")


def test_an_altered_compaction_is_refused(client: OpenAI, kept: Server) -> None:
    found = client.responses.compact(model="fake", input=spoken("a", "b"))
    item: Any = found.output[-1].model_dump(exclude_none=True)
    sealed = item["encrypted_content"]
    altered: Any = item | {"encrypted_content": sealed[:-8] + sealed[-4:] + sealed[-8:-4]}
    with pytest.raises(BadRequestError) as caught:
        client.responses.create(model="fake", input=[altered])
    assert (caught.value.param, caught.value.status_code) == ("input[0].encrypted_content", 400)
    with pytest.raises(BadRequestError):
        client.conversations.create(items=[altered])
    conversation = client.conversations.create(items=[item])
    with pytest.raises(BadRequestError):
        client.conversations.items.create(conversation.id, items=[altered])
    response = client.responses.create(model="fake", input="Hi", conversation=conversation.id)
    assert response.usage
    assert response.usage.input_tokens == 2
    counted = httpx.post(f"{kept.url}/v1/responses/input_tokens", json={"model": "fake", "input": [altered]})
    assert counted.status_code == 400


def test_requests_that_cannot_be_compacted(kept: Server) -> None:
    for body, param in (({"model": "fake", "instructions": "x"}, "input"), ({"model": "fake", "input": []}, "input")):
        refused = httpx.post(f"{kept.url}/v1/responses/compact", json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    unknown = httpx.post(f"{kept.url}/v1/responses/compact", json={"model": "gpt", "input": "Hi"})
    assert unknown.json()["error"]["code"] == "model_not_found"
