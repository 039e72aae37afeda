"""Chat completions that are stored, through OpenAI's SDK."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import NotFoundError, OpenAI

from tests.support.gateway_client import body
from tests.support.serving import Server, serve


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def create(client: OpenAI, text: str, **fields: Any) -> Any:
    asked: dict[str, Any] = {"model": "fake", "messages": [{"role": "user", "content": text}], "store": True}
    return client.chat.completions.create(**asked | fields)


def test_a_completion_is_kept(client: OpenAI) -> None:
    made = create(client, "Hi", metadata={"a": "b"}, seed=7, user="me", temperature=0.5)
    found = client.chat.completions.retrieve(made.id)
    assert found.model_dump() | made.model_dump() == found.model_dump()
    assert made.metadata == found.metadata == {"a": "b"}
    more = found.model_extra or {}
    assert (more["seed"], more["input_user"], more["temperature"]) == (7, "me", 0.5)
    assert more["request_id"] == "req_" + made.id.removeprefix("chatcmpl-")
    assert (more["tools"], more["response_format"], more["top_p"]) == (None, None, None)


def test_a_streamed_completion_is_kept_before_its_end(client: OpenAI) -> None:
    script = json.dumps({"pieces": 3, "text": "ab"})
    chunks = list(create(client, script, stream=True, stream_options={"include_usage": True}))
    found = client.chat.completions.retrieve(chunks[0].id)
    assert found.choices[0].message.content == "ababab"
    assert (found.created, found.usage) == (chunks[0].created, chunks[-1].usage)


def test_what_is_not_to_be_stored_is_not(client: OpenAI, server: Server) -> None:
    for fields in ({}, {"store": False}, {"store": None, "metadata": {"nested": {"anything": [1]}}}):
        made = httpx.post(f"{server.url}/v1/chat/completions", json=body(text="Hi") | fields).json()
        with pytest.raises(NotFoundError, match="was not stored"):
            client.chat.completions.retrieve(made["id"])


def test_a_list_has_pages_and_filters(client: OpenAI) -> None:
    run = {"run": 'pages "quoted"\' 1'}
    made = [create(client, f"{i}", metadata=run | {"odd": str(i % 2)}).id for i in range(5)]
    create(client, "another", metadata={"run": "another"})
    listed = client.chat.completions.list
    assert [one.id for one in listed(metadata=run, limit=2)] == made
    assert [one.id for one in listed(metadata=run, limit=2, order="desc")] == made[::-1]
    assert [one.id for one in listed(metadata=run | {"odd": "1"})] == [made[1], made[3]]
    assert [one.id for one in listed(metadata=run, after=made[2], model="fake")] == made[3:]
    assert list(listed(metadata=run, model="other")) == list(listed(metadata={"none": "such"})) == []
    page = listed(metadata=run, limit=2)
    assert (page.has_more, (page.model_extra or {})["first_id"]) == (True, made[0])
    with pytest.raises(NotFoundError):
        listed(metadata=run, after="chatcmpl-none")


def test_metadata_is_replaced(client: OpenAI) -> None:
    made = create(client, "Hi", metadata={"a": "b", "test": "replaced"})
    changed = client.chat.completions.update(made.id, metadata={"c": "d", "test": "replaced"})
    assert (changed.id, changed.metadata) == (made.id, {"c": "d", "test": "replaced"})
    assert client.chat.completions.retrieve(made.id) == changed
    listed = client.chat.completions.list
    assert [one.id for one in listed(metadata={"c": "d", "test": "replaced"})] == [made.id]
    assert not list(listed(metadata={"a": "b", "test": "replaced"}))


def test_what_is_deleted_is_gone(client: OpenAI) -> None:
    made = create(client, "Hi")
    gone = client.chat.completions.delete(made.id)
    assert (gone.id, gone.deleted, gone.object) == (made.id, True, "chat.completion.deleted")
    for call in (
        client.chat.completions.retrieve,
        client.chat.completions.delete,
        client.chat.completions.messages.list,
    ):
        with pytest.raises(NotFoundError):
            call(made.id)


def test_the_messages_that_were_asked(client: OpenAI) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    given: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": "Ann"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "x", "tool_call_id": "c"},
    ]
    made = create(client, "", messages=given)
    listed = client.chat.completions.messages.list(made.id, limit=3)
    assert [message.id for message in listed] == [f"{made.id}-{i}" for i in range(4)]
    first, second, third, _ = listed
    assert (first.content, first.content_parts) == ("Be brief.", None)
    assert (second.content, (second.model_extra or {})["name"]) == (None, "Ann")
    assert [part.type for part in second.content_parts or ()] == ["text"]
    assert [one.id for one in third.tool_calls or ()] == ["c"]
    newest = client.chat.completions.messages.list(made.id, order="desc", limit=1)
    assert newest.data[0].id == f"{made.id}-3"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": "yes"}, "store"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {"a": "x" * 513}}, "metadata"),
        ({"metadata": {f"{i}": "" for i in range(17)}}, "metadata"),
    ],
)
def test_what_cannot_be_stored_is_refused(server: Server, fields: dict[str, Any], param: str) -> None:
    refused = httpx.post(f"{server.url}/v1/chat/completions", json=body() | {"store": True} | fields)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_an_answer_that_cannot_be_stored_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with serve(responses_path=str(tmp_path / "file" / "responses.db")) as server:
        url, asked = f"{server.url}/v1/chat/completions", body(text="Hi") | {"store": True}
        whole = httpx.post(url, json=asked)
        assert (whole.json()["store"], whole.json()["choices"][0]["message"]["content"]) == (False, "Hi")
        assert whole.headers["warning"].startswith('199 orchard "not stored: ')
        lines = httpx.post(url, json=asked | {"stream": True}).text.split("\n\n")
        assert lines[-2:] == ["data: [DONE]", ""]
        assert json.loads(lines[-3].removeprefix("data: ")).items() >= {"store": False, "choices": []}.items()
        with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            text = [chunk.choices[0].delta.content for chunk in create(client, "Hi", stream=True) if chunk.choices]
            assert "".join(filter(None, text)) == "Hi"


def test_what_expires_is_archived(tmp_path: Path) -> None:
    with serve(responses_ttl=0.2, responses_archive_dir=str(tmp_path / "archive")) as server:
        made = httpx.post(f"{server.url}/v1/chat/completions", json=body(text="Hi") | {"store": True}).json()
        archived = tmp_path / "archive" / f"{made['id']}.json"
        while not archived.exists():  # the time limit of all tests ends it
            time.sleep(0.02)
        whole = json.loads(archived.read_text())
        assert whole["completion"]["choices"] == made["choices"]
        assert [message["role"] for message in whole["messages"]] == ["user"]
