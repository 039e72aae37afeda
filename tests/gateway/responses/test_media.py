"""Media in conversations that are stored: fetched once, read again in every later turn, listed as they came."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import websockets

from orchard.gateway.media import fetch
from tests.support.serving import Server, serve
from tests.support.web import Web, found, web

PNG = b"\x89PNG not really"
OTHER = b"GIF89a not really"
TOLD, OTHERS = (
    f"[image: {len(data)} bytes of {kind}, sha256 {hashlib.sha256(data).hexdigest()[:8]}]"
    for data, kind in ((PNG, "image/png"), (OTHER, "image/gif"))
)


@pytest.fixture(scope="module")
def open_server() -> Iterator[Server]:
    with serve(allow_private_media=True) as running:
        yield running


def picture(url: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def user(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {"role": "user", "content": [_text(part) if isinstance(part, str) else part for part in parts]}


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


class Api:
    """Requests to one server, and what they give."""

    def __init__(self, client: httpx.AsyncClient, site: Web) -> None:
        self.client = client
        self.site = site
        self.link = site.url("/a.png")
        self.data = f"data:image/gif;base64,{base64.b64encode(OTHER).decode()}"

    async def ask(self, *items: dict[str, Any], path: str = "responses", **fields: Any) -> Any:
        answer = await self.client.post(path, json={"model": "fake", "input": list(items), **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def get(self, path: str) -> Any:
        answer = await self.client.get(path, params={"order": "asc"})
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def api(server: Server) -> AsyncIterator[Api]:
    async with (
        web({"/a.png": found(PNG)}) as site,
        httpx.AsyncClient(base_url=f"{server.url}/v1/", timeout=30) as client,
    ):
        yield Api(client, site)


def said(response: Any) -> str:
    return str(response["output"][0]["content"][0]["text"])


async def test_a_chain_reads_them_again_without_asking_for_them(open_server: Server) -> None:
    async with api(open_server) as its:
        first = await its.ask(user(picture(its.link), picture(its.data)))
        assert said(first) == TOLD + OTHERS
        its.site.answers.clear()  # the picture is gone from there
        second = await its.ask(user("And?"), previous_response_id=first["id"])
        assert said(second) == f"{TOLD}{OTHERS}And?"
        third = await its.ask(user("So?"), previous_response_id=second["id"], stream=False)
        assert said(third) == f"{TOLD}{OTHERS}So?"
        assert len(its.site.requests) == 1
        listed = (await its.get(f"responses/{third['id']}/input_items"))["data"]
        assert listed[0]["content"] == [picture(its.link), picture(its.data)]
        assert (await its.ask(user("And?"), path="responses/input_tokens", previous_response_id=first["id"]))[
            "input_tokens"
        ] == 3


async def test_a_screenshot_is_kept_like_other_pictures(open_server: Server) -> None:
    call = {"type": "computer_call", "call_id": "c", "action": {"type": "screenshot"}}
    async with api(open_server) as its:
        for url, told in ((its.link, TOLD), (its.data, OTHERS)):
            shown = {"type": "computer_screenshot", "image_url": url}
            output = {"type": "computer_call_output", "call_id": "c", "output": shown}
            first = await its.ask(user("Look."), call, output)
            assert said(first) == told
            its.site.answers.clear()  # it can't be fetched again
            second = await its.ask(user("And?"), previous_response_id=first["id"])
            listed = (await its.get(f"responses/{second['id']}/input_items"))["data"]
            assert listed[2]["output"] == shown
            assert listed[1]["action"] == call["action"]


async def test_the_same_url_in_a_new_message_is_fetched_anew(open_server: Server) -> None:
    async with api(open_server) as its:
        first = await its.ask(user(picture(its.link)))
        its.site.answers["/a.png"] = found(OTHER, "image/gif")
        second = await its.ask(user(picture(its.link)), previous_response_id=first["id"])
        assert said(second) == TOLD + OTHERS
        third = await its.ask(user("And?"), previous_response_id=second["id"])
        assert said(third) == f"{TOLD}{OTHERS}And?"


async def test_a_conversation(open_server: Server) -> None:
    async with api(open_server) as its:
        conversation = (await its.client.post("conversations", json={"items": [user(picture(its.data))]})).json()["id"]
        assert said(await its.ask(user(picture(its.link)), conversation=conversation)) == OTHERS + TOLD
        its.site.answers.clear()
        assert said(await its.ask(user("And?"), conversation=conversation)) == f"{OTHERS}{TOLD}And?"
        listed = (await its.get(f"conversations/{conversation}/items"))["data"]
        assert [item["content"][0] for item in listed if item["role"] == "user"] == [
            picture(its.data),
            picture(its.link),
            _text("And?"),
        ]
        one = await its.get(f"conversations/{conversation}/items/{listed[0]['id']}")
        assert one == listed[0]


async def test_items_that_are_added_to_a_conversation(open_server: Server) -> None:
    async with api(open_server) as its:
        item = user(picture(its.link))
        begun = (await its.client.post("conversations", json={"items": [item]})).json()["id"]
        other = (await its.client.post("conversations", json={})).json()["id"]
        added = (await its.client.post(f"conversations/{other}/items", json={"items": [item]})).json()
        assert added["data"][0]["content"] == item["content"]
        its.site.answers.clear()
        for conversation in (begun, other):
            assert said(await its.ask(user("And?"), conversation=conversation)) == f"{TOLD}And?"
            listed = (await its.get(f"conversations/{conversation}/items"))["data"]
            assert listed[0]["content"] == item["content"]
        for path in ("conversations", f"conversations/{other}/items"):
            for url in (its.link, "data:image/png;base64,QUJ", "data:image/svg+xml;base64,QUJD"):
                refused = await its.client.post(path, json={"items": [user(picture(url))]})
                assert refused.status_code == 400
                assert refused.json()["error"]["param"] == "items[0].content[0].image_url"


async def test_references_and_the_background(open_server: Server) -> None:
    async with api(open_server) as its:
        text = {"type": "input_file", "file_data": base64.b64encode("naïve".encode()).decode(), "filename": "a.txt"}
        given = user(picture(its.link), text) | {"id": "msg_picture"}
        first = await its.ask(given, background=True)
        await its.client.get(f"responses/{first['id']}", params={"stream": True})  # until its end
        done = await its.get(f"responses/{first['id']}")
        assert said(done) == f"{TOLD}a.txt:\nnaïve"
        its.site.answers.clear()
        references = [{"type": "item_reference", "id": id_} for id_ in (done["output"][0]["id"], "msg_picture")]
        second = await its.ask(*references)
        assert said(second) == f"{TOLD}a.txt:\nnaïve"
        # The copy lives on without what it was copied from.
        await its.client.delete(f"responses/{first['id']}")
        assert said(await its.ask(user("And?"), previous_response_id=second["id"])) == f"{TOLD}And?"
        listed = (await its.get(f"responses/{second['id']}/input_items"))["data"]
        assert listed[1]["content"] == [picture(its.link), text]


async def test_compaction_gives_back_what_was_sent(open_server: Server) -> None:
    async with api(open_server) as its:
        first = await its.ask(user(picture(its.link), picture(its.data)))
        its.site.answers.clear()
        compacted = await its.ask(user("So."), path="responses/compact", previous_response_id=first["id"])
        assert [item["content"] for item in compacted["output"] if item["type"] == "message"] == [
            [picture(its.link), picture(its.data)],
            [_text("So.")],
        ]


@asynccontextmanager
async def connection(server: Server) -> AsyncIterator[Callable[..., Coroutine[Any, Any, Any]]]:
    """Connect to a server; what this gives sends an event, and returns the last one that answers it."""
    async with websockets.connect(f"ws://127.0.0.1:{server.port}/v1/responses") as socket:

        async def ask(*items: dict[str, Any], **fields: Any) -> Any:
            event = {"type": "response.create", "model": "fake", "input": list(items), "store": False, **fields}
            await socket.send(json.dumps(event))
            while (told := json.loads(await socket.recv()))["type"] not in ("response.completed", "error"):
                pass
            return told

        yield ask


async def test_over_a_websocket_nothing_needs_to_be_stored(open_server: Server) -> None:
    async with api(open_server) as its, connection(open_server) as ask:
        first = (await ask(user(picture(its.link), picture(its.data))))["response"]
        assert said(first) == TOLD + OTHERS
        its.site.answers.clear()
        second = (await ask(user("And?"), previous_response_id=first["id"]))["response"]
        assert said(second) == f"{TOLD}{OTHERS}And?"
        refused = await ask(user(picture(its.link)))
        assert (refused["status"], refused["error"]["param"]) == (400, "input[0].content[0].image_url")


async def test_a_client_that_closes_its_connection_ends_its_fetches(open_server: Server) -> None:
    begun = asyncio.Event()

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        begun.set()
        await asyncio.Event().wait()

    async with api(open_server) as its:
        its.site.answers["/a.png"] = endless
        async with connection(open_server) as ask:
            asked = asyncio.create_task(ask(user(picture(its.link))))
            await begun.wait()
            asked.cancel()
        async with asyncio.timeout(fetch._SILENT_SECONDS / 2):  # the fetch would end by itself then
            assert await its.site.left.get() == "/a.png"


async def test_what_a_connection_keeps_counts(open_server: Server) -> None:
    with serve(allow_private_media=True, max_body_bytes_in_flight=10_000) as small:
        async with api(small) as its, connection(small) as ask:
            its.site.answers["/a.png"] = found(b"x" * 5000)
            first = (await ask(user(picture(its.link))))["response"]
            second = (await ask(user("And?"), previous_response_id=first["id"]))["response"]
            its.site.answers["/a.png"] = found(b"x" * 9990)
            third = (await ask(user(picture(its.link))))["response"]
            gone = await ask(user("And?"), previous_response_id=third["id"])
            assert (second["status"], gone["error"]["code"]) == ("completed", "previous_response_not_found")


async def test_stored_chats_list_them_as_they_came(open_server: Server) -> None:
    async with api(open_server) as its:
        parts = [{"type": "image_url", "image_url": {"url": url}} for url in (its.link, its.data)]
        body = {"model": "fake", "messages": [{"role": "user", "content": parts}], "store": True}
        answer = (await its.client.post("chat/completions", json=body)).json()
        assert answer["choices"][0]["message"]["content"] == TOLD + OTHERS
        listed = (await its.get(f"chat/completions/{answer['id']}/messages"))["data"]
        assert listed[0]["content_parts"] == parts
