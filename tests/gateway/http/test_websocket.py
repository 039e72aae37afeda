"""What arrives on a WebSocket, and how much of it is parsed at a time."""

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.server import ServerState

from orchard.gateway.http.budget import Budget
from orchard.gateway.http.pace import BURST
from orchard.gateway.http.websocket import Socket
from tests.gateway.http.test_connection import connected
from tests.support.serving import Server, serve

HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nhost: {host}\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n{more}\r\n"
)


def frame(code: int, data: bytes = b"", *, last: bool = True) -> bytes:
    """A small frame of a client, with a mask of zeros."""
    return bytes([code | 0x80 * last, 0x80 | len(data)]) + b"\0\0\0\0" + data


async def opened(early: bytes = b"") -> tuple[Socket, asyncio.Queue[dict[str, Any]]]:
    """Return a socket that is open, and the messages that its application has received."""
    received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def app(_: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] != "websocket.disconnect":
            received.put_nowait(message)

    config = uvicorn.Config(app, log_config=None, lifespan="off", ws_per_message_deflate=False)
    config.load()
    budgets = {"message_budget": Budget(2**20, "messages"), "past_budget": Budget(2**20, "pasts")}
    socket = Socket(config, ServerState(), {}, **budgets)
    transport = Mock(is_closing=Mock(return_value=False), get_extra_info=Mock(return_value=None))
    socket.connection_made(transport)
    socket.data_received(HANDSHAKE.format(path="/", host="x", more="").encode())
    socket.data_received(early)
    assert not socket.handshake_complete
    assert socket.queue.qsize() == 1
    assert await received.get() == {"type": "websocket.connect"}
    return socket, received


async def closed(socket: Socket) -> None:
    socket.connection_lost(None)
    await asyncio.gather(*socket.tasks)


@pytest.mark.parametrize("small", [frame(0, last=False), frame(0, b" ", last=False), frame(9), frame(10)])
async def test_small_frames_are_parsed_a_few_at_a_time(small: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    socket, received = await opened()
    parsed = 0
    handle_events = Socket.handle_events

    def count(self: Socket) -> None:
        nonlocal parsed
        parsed += len(self.conn.events)
        handle_events(self)

    monkeypatch.setattr(Socket, "handle_events", count)
    socket.data_received(frame(1, b"a", last=False) + small * 20_000)
    assert BURST < parsed < 300
    assert socket.transport.pause_reading.called  # type: ignore[attr-defined]
    before = parsed
    socket._end_pause()
    assert before < parsed < 2 * 300
    assert received.empty()
    await closed(socket)


async def test_a_large_message_is_parsed_at_once() -> None:
    socket, received = await opened()
    content = b"x" * 300_000
    socket.data_received(bytes([0x81, 0xFF]) + len(content).to_bytes(8, "big") + b"\0\0\0\0" + content)
    assert await received.get() == {"type": "websocket.receive", "bytes": content}
    await closed(socket)


async def test_frames_wait_until_the_handshake_is_answered() -> None:
    socket, received = await opened(frame(1, b"early"))
    assert await received.get() == {"type": "websocket.receive", "bytes": b"early"}
    await closed(socket)


async def test_only_a_few_messages_wait_for_the_application_and_all_come() -> None:
    socket, received = await opened()
    messages = [b"%100d" % number for number in range(BURST)]
    socket.data_received(b"".join(frame(1, message) for message in messages))
    assert socket.queue.qsize() < 12
    assert [(await received.get())["bytes"] for _ in messages] == messages
    await closed(socket)


async def test_a_pong_may_wait_behind_what_else_a_client_sends() -> None:
    """Such as audio that is read no faster than it may be."""
    socket, received = await opened()
    socket.send_keepalive_ping()
    socket.data_received(frame(1, b"a"))
    await received.get()
    socket.keepalive_timeout()
    assert not socket.close_sent
    assert socket.pong_timer
    socket.data_received(frame(10, socket.pending_ping_payload or b""))
    assert not socket.pong_timer
    socket.send_keepalive_ping()
    socket.read_paused = True
    socket.keepalive_timeout()
    assert not socket.close_sent
    socket.read_paused = False
    socket.keepalive_timeout()  # nothing has arrived
    assert socket.close_sent
    await closed(socket)


@pytest.mark.parametrize("end", [frame(8, b"\x03\xe8"), frame(0x71)], ids=["closed", "broken"])
async def test_who_has_closed_a_socket_or_broken_it_has_left(end: bytes) -> None:
    """Else uvicorn's error would be logged as a bug."""
    socket, _ = await opened()
    await socket.send({"type": "websocket.send", "text": "in time"})
    socket.data_received(end)
    for late in ({"type": "websocket.send", "text": "late"}, {"type": "websocket.close"}):
        with pytest.raises(ClientDisconnected):
            await socket.send(late)
    await closed(socket)


@pytest.mark.parametrize(
    ("path", "host", "more", "status"),
    [
        ("/v1/responses", "127.0.0.1", "", 401),
        ("/v1/responses", "127.0.0.1", "x-api-key: wrong\r\n", 401),
        ("/v1/responses", "127.0.0.1", "x-api-key: right\r\norigin: http://evil.test\r\n", 403),
        ("/v1/responses", "a b", "x-api-key: right\r\n", 400),
        ("/v1/chat/completions", "127.0.0.1", "x-api-key: right\r\n", 404),
        ("/nowhere", "127.0.0.1", "x-api-key: right\r\n", 404),
        ("/v1/responses", "127.0.0.1", "x-api-key: right\r\nx: " + "a" * 9000 + "\r\n", 400),
    ],
)
def test_a_refused_handshake_gets_a_status(guarded: Server, path: str, host: str, more: str, status: int) -> None:
    with connected(guarded) as sock:
        sock.sendall(HANDSHAKE.format(path=path, host=host, more=more).encode())
        answer = b"".join(iter(lambda: sock.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 %d " % status)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server with a key. Nothing that the tests did to it may have left an error in its log."""
    log = tmp_path_factory.mktemp("log") / "log.txt"
    with serve(api_keys=("right",), log_file=log) as running:
        yield running
    logged = log.read_text()
    assert " 401 " in logged
    assert "ERROR" not in logged
    assert "Traceback" not in logged


def test_a_refused_host_is_no_error_either(tmp_path: Any) -> None:
    with serve(log_file=tmp_path / "log.txt") as server, connected(server) as sock:
        sock.sendall(HANDSHAKE.format(path="/v1/responses", host="evil.test", more="").encode())
        assert b"".join(iter(lambda: sock.recv(4096), b"")).startswith(b"HTTP/1.1 403 ")
    assert "ERROR" not in (tmp_path / "log.txt").read_text()
