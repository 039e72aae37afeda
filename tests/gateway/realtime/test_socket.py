"""Realtime sessions with a real server, whose chat model plays scripts; it has no other model."""

import asyncio
import base64
import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from socket import create_connection
from typing import Any

import httpx
import pytest
from starlette.datastructures import Headers
from websockets import Subprotocol
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from orchard.config import VoiceModels
from orchard.gateway.realtime.socket import RealtimeSocket
from tests.gateway.realtime.test_session import Client, Script
from tests.support.realtime_events import check_event
from tests.support.serving import Server, serve

KEY = "the-key"


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    with serve(api_keys=(KEY,), realtime={"assistant": VoiceModels(chat="fake")}) as running:
        yield running


@contextmanager
def session(server: Server, query: str = "model=fake", /, path: str = "/v1/realtime", **more: Any) -> Iterator[Any]:
    with connect(f"ws://127.0.0.1:{server.port}{path}?{query}", open_timeout=30, close_timeout=0.5, **more) as client:
        yield client


def read(client: ClientConnection, kind: str) -> dict[str, Any]:
    """Read events up to one of this type."""
    while True:
        event: dict[str, Any] = json.loads(client.recv(timeout=30))
        check_event(event)
        if event["type"] == kind:
            return event


def send(client: ClientConnection, kind: str, **fields: Any) -> None:
    client.send(json.dumps({"type": kind, **fields}))


def ask(client: ClientConnection, **script: Any) -> None:
    content = [{"type": "input_text", "text": json.dumps(script)}]
    send(client, "conversation.item.create", item={"type": "message", "role": "user", "content": content})
    send(client, "response.create")


@pytest.mark.parametrize("path", ["/v1/realtime", "/realtime", "/openai/v1/realtime"])
def test_a_session_answers_in_text(server: Server, path: str) -> None:
    with session(server, path=path, subprotocols=[Subprotocol("realtime")]) as client:
        assert client.subprotocol == "realtime"
        shown = read(client, "session.created")["session"]
        assert (shown["model"], shown["output_modalities"]) == ("fake", ["text"])
        ask(client, text="hello")
        (item,) = read(client, "response.done")["response"]["output"]
        assert item["content"] == [{"type": "output_text", "text": "hello"}]


def test_a_wrong_event_gets_an_error_and_the_session_goes_on(server: Server) -> None:
    with session(server) as client:
        for data in ("garbage", "[]", '{"type": 7}', '{"type": "x"}', "", b"\xff\xfe", "[" * 9000):
            client.send(data)
            assert read(client, "error")["error"]["type"] == "invalid_request_error"
        send(client, "output_audio_buffer.clear", event_id="mine")
        error = read(client, "error")["error"]
        assert (error["event_id"], error["param"]) == ("mine", "type")
        assert "WebRTC" in error["message"]
        ask(client, text="still here")
        assert read(client, "response.done")["response"]["status"] == "completed"


def test_speech_without_a_model_that_transcribes(server: Server) -> None:
    with session(server) as client:
        detection: Any = {"audio": {"input": {"turn_detection": None, "transcription": {}}}}
        send(client, "session.update", session={"type": "realtime", **detection})
        send(client, "input_audio_buffer.append", audio=base64.b64encode(bytes(48_000)).decode())
        send(client, "input_audio_buffer.commit")
        failed = read(client, "conversation.item.input_audio_transcription.failed")
        assert "no transcription model" in failed["error"]["message"]
        send(client, "session.update", session={"type": "realtime", "output_modalities": ["audio"]})
        assert read(client, "error")["error"]["param"] == "output_modalities"


@pytest.mark.parametrize(
    ("query", "headers", "match"),
    [
        ("model=nothing", {}, "nothing"),
        ("call_id=rtc_1", {}, "WebRTC and SIP calls are not served"),
        ("intent=transcription", {}, "no transcription model"),
        ("model=fake", {"openai-beta": "realtime=v1"}, "OpenAI-Beta"),
    ],
)
def test_a_session_that_can_not_begin_says_why(server: Server, query: str, headers: dict[str, str], match: str) -> None:
    with session(server, query, additional_headers=headers) as client:
        assert match in read(client, "error")["error"]["message"]
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=30)
        assert closed.value.rcvd
        assert closed.value.rcvd.code == 1008


@pytest.mark.parametrize("path", ["calls", "client_secrets", "sessions", "translations", "translations/client_secrets"])
def test_what_is_not_a_websocket_is_refused_by_name(server: Server, path: str) -> None:
    answer = httpx.post(f"{server.url}/v1/realtime/{path}", json={}, timeout=30)
    assert answer.status_code == 404
    assert "over a WebSocket at /v1/realtime only" in answer.json()["error"]["message"]
    with pytest.raises(InvalidStatus), session(server, path=f"/v1/realtime/{path}"):
        pass


def test_keys_hosts_and_origins_hold(locked: Server, server: Server) -> None:
    with pytest.raises(InvalidStatus) as refused, session(locked):
        pass
    assert refused.value.response.status_code == 401
    for more in (
        {"additional_headers": {"authorization": f"Bearer {KEY}"}},
        {"subprotocols": [Subprotocol("realtime"), Subprotocol(f"openai-insecure-api-key.{KEY}")]},  # in browsers
    ):
        with session(locked, "", **more) as client:
            assert read(client, "session.created")["session"]["model"] == "assistant"
            ask(client, text="in")
            read(client, "response.done")
    wrong = [Subprotocol("realtime"), Subprotocol("openai-insecure-api-key.wrong")]
    with pytest.raises(InvalidStatus), session(locked, subprotocols=wrong):
        pass
    with pytest.raises(InvalidStatus) as refused, session(server, origin="https://evil.example"):
        pass
    assert refused.value.response.status_code == 403
    with create_connection(("127.0.0.1", server.port)) as sock, pytest.raises(InvalidStatus) as refused:
        connect(f"ws://evil.example:{server.port}/v1/realtime", sock=sock)
    assert refused.value.response.status_code == 403


def test_a_client_that_leaves_ends_its_response(server: Server) -> None:
    with session(server) as client:
        ask(client, pieces=10_000, interval=0.02)
        read(client, "response.output_text.delta")
        server.until(running=1)
    server.until(running=0)


def test_a_client_that_floods_slows_down_only_itself() -> None:
    with serve(max_body_bytes_in_flight=2_000_000) as server, session(server) as flooder, session(server) as other:
        second = base64.b64encode(bytes(48_000)).decode()
        with contextlib.suppress(TimeoutError, ConnectionClosed):
            flooder.socket.settimeout(1)
            for _ in range(150):  # more than may be read at once
                send(flooder, "input_audio_buffer.append", audio=second)
        ask(other, text="hello")
        assert read(other, "response.done")["response"]["status"] == "completed"


def test_a_client_that_does_not_read_stops_only_itself(server: Server) -> None:
    with session(server, max_queue=1) as sleeper, session(server) as other:
        ask(sleeper, text="x" * 4096, pieces=100_000)
        read(sleeper, "response.created")
        ask(other, text="hello")
        assert read(other, "response.done")["response"]["status"] == "completed"
    server.until(running=0)


async def test_a_session_lasts_an_hour() -> None:
    script: Any = Script()
    script.choose_models = lambda name, chats: name
    stub: Any = Stub()
    await RealtimeSocket(stub, script, lifetime=0.05).run()
    assert [event["type"] for event in stub.told] == ["session.created", "conversation.created", "error"]
    assert stub.told[-1]["error"]["code"] == "session_expired"
    assert stub.closed.is_set()


async def test_others_have_turns_while_many_events_are_there() -> None:
    script: Any = Script()
    script.choose_models = lambda name, chats: name
    stub: Any = Stub()
    events = iter([{"type": "websocket.receive", "bytes": b"{}"}] * 100)
    turns: list[int] = []

    async def receive() -> dict[str, Any]:
        return next(events, {"type": "websocket.disconnect"})

    async def take_turns() -> None:
        while True:
            turns.append(len(stub.told))
            await asyncio.sleep(0)

    stub.receive = receive
    other = asyncio.create_task(take_turns())
    await RealtimeSocket(stub, script).run()
    other.cancel()
    assert len(stub.told) == 102
    assert len(turns) >= 100


class Stub:
    """A WebSocket whose client sends nothing."""

    def __init__(self) -> None:
        self.scope = {"subprotocols": [], "state": Client(Script()).state}
        self.query_params = {"model": "fake"}
        self.headers = Headers()
        self.told: list[dict[str, Any]] = []
        self.closed = asyncio.Event()

    async def accept(self, _: str | None) -> None:
        """Accept."""

    async def receive(self) -> dict[str, Any]:
        await self.closed.wait()
        return {"type": "websocket.disconnect"}

    async def send_text(self, text: str) -> None:
        self.told.append(json.loads(text))

    async def close(self) -> None:
        self.closed.set()
