"""What arrives on one connection: requests one behind the other, heads without end, and clients that stop talking."""

import asyncio
import contextlib
import errno
import json
import re
import socket
import struct
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from orchard.config import Settings
from orchard.gateway.http import pace
from orchard.gateway.http.budget import Budget, Share
from orchard.gateway.http.connection import Connection
from tests.support.gateway_client import body
from tests.support.serving import Server, serve

GET = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"
LIMIT = 64 * 1024


def post(extra: str = "", **script: Any) -> bytes:
    content = json.dumps(body(**script)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n{extra}content-length: {len(content)}\r\n\r\n"
    return head.encode() + content


@contextlib.contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
        yield sock


def replies(sock: socket.socket) -> list[httpx.Response]:
    """Read whole answers until the connection ends; interim ones are skipped."""
    found = []
    with sock.makefile("rb") as file:
        while line := file.readline():
            status = int(line.split()[1])
            lines = iter(file.readline, b"\r\n")
            headers = dict(line.decode().rstrip().split(": ", 1) for line in lines)
            if status != 100:
                content = file.read(int(headers["content-length"]))
                found.append(httpx.Response(status, headers=headers, content=content))
    return found


def reply(server: Server, data: bytes) -> httpx.Response:
    """Send what the server closes the connection over."""
    with connected(server) as sock:
        sock.sendall(data)
        (only,) = replies(sock)
        return only


def text(response: httpx.Response) -> str:
    content: str = response.json()["choices"][0]["message"]["content"]
    return content


def test_a_client_for_which_there_is_no_room_may_send_its_request_before_it_reads_why() -> None:
    with serve(max_connections=4) as server, contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connected(server))
        sock = stack.enter_context(connected(server))
        assert sock.recv(1, socket.MSG_PEEK)  # the reason is here
        for _ in range(1000):
            sock.sendall(b"x")  # an error, if the server had closed the connection
        (refused,) = replies(sock)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_requests_with_others_behind_them_end_with_their_client(
    stream: bool, together: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    long = post(stream=stream, pieces=10_000, interval=0.01)
    behind = GET + post(pieces=1)
    with serve() as server:
        with contextlib.ExitStack() as stack:
            socks = [stack.enter_context(connected(server)) for _ in range(4)]
            for sock in socks:
                sock.sendall(long + behind if together else long)
            server.until(running=4)
            for sock in socks:
                sock.sendall(b"" if together else behind)
        server.until(running=0)
    logged = capfd.readouterr().err
    assert "Traceback" not in logged
    assert "ERROR" not in logged


def test_requests_behind_one_another_are_answered_in_order(server: Server) -> None:
    with connected(server) as sock:
        sock.sendall(post(text="a", delay=0.1) + GET + post("connection: close\r\n", text="b"))
        first, models, last = replies(sock)
    assert (text(first), models.json()["object"], text(last)) == ("a", "list", "b")


@pytest.mark.parametrize(
    ("behind", "status"),
    [
        (b"NONSENSE\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nno length", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"b" * LIMIT, 431),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n" + b" " * (LIMIT + 1), 413),
    ],
)
def test_an_answer_comes_whole_before_what_is_wrong_behind_it(server: Server, behind: bytes, status: int) -> None:
    with connected(server) as sock:
        sock.sendall(post(text="a", pieces=3, interval=0.05) + GET + behind + GET)
        first, models, refused = replies(sock)
    assert (text(first), models.status_code, refused.status_code) == ("aaa", 200, status)
    assert refused.headers["connection"] == "close"


def test_only_so_many_requests_may_wait_behind_another(server: Server) -> None:
    with connected(server) as sock:
        sock.sendall(post(text="a", delay=0.1) + GET * 17)
        statuses = [one.status_code for one in replies(sock)]
    assert statuses == [200] * 17 + [429]


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * LIMIT + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"a" * (LIMIT * 2),
        b"GET /" + b"a" * (LIMIT * 2),
        b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"x: a\r\n" * 128 + b"\r\n",
        b"\r\n" * LIMIT,
        b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: " + b"a" * (LIMIT * 2),
        b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"x: a\r\n" * 128,
    ],
)
def test_a_head_has_a_limit(server: Server, head: bytes) -> None:
    refused = reply(server, head)
    assert refused.status_code == 431
    assert refused.json()["error"]["code"] == "head_too_large"


def test_a_head_within_the_limits_is_read(server: Server) -> None:
    head = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + b"x: a\r\n" * 125
    assert reply(server, head + b"x: " + b"a" * 60_000 + b"\r\n\r\n").status_code == 200


def test_heads_that_never_end_do_not_add_up(server: Server) -> None:
    """What nobody has sent a key for yet: 300 connections, each just below its own limit."""
    piece = b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * (LIMIT - 1000)
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(connected(server)) for _ in range(300)]
        for sock in socks:
            with contextlib.suppress(ConnectionError):
                sock.sendall(piece)
        assert httpx.get(f"{server.url}/v1/models").status_code == 200
        for sock in socks:
            sock.setblocking(False)
        said = [_said(sock) for sock in socks]
    assert 10 < sum(answer.startswith(b"HTTP/1.1 429") for answer in said) < 100


async def test_a_head_without_room_is_refused_after_the_answer_before_it() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, log_config=None, lifespan="off")
    config.load()
    budget = Budget(300, "request heads")
    Share(budget).take(200)
    connection = Connection(config, ServerState(), {}, settings=Settings(), head_budget=budget)
    async with await asyncio.get_running_loop().create_server(lambda: connection, "127.0.0.1") as listening:
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(GET)
        await asyncio.wait_for(begun.wait(), 10)
        connection.data_received(GET[:-2] + b"x: " + b"a" * 200)
        go_on.set()
        answered = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 429 " in answered


async def test_a_client_that_left_before_its_connection_was_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS takes no options then (EINVAL): https://github.com/envoyproxy/envoy/issues/1446."""
    monkeypatch.setattr(socket, "TCP_NOTSENT_LOWAT", 0x201, raising=False)  # macOS's number
    config = uvicorn.Config(lambda: None, log_config=None, lifespan="off")
    config.load()
    connection = Connection(config, ServerState(), {}, settings=Settings(), head_budget=Budget(300, "request heads"))
    refuse = Mock(side_effect=OSError(errno.EINVAL, "Invalid argument"))
    transport = Mock(get_extra_info=lambda name: Mock(setsockopt=refuse) if name == "socket" else None)
    connection.connection_made(transport)
    assert refuse.called
    assert connection in connection.connections
    connection.connection_lost(None)


def _said(sock: socket.socket) -> bytes:
    try:
        return sock.recv(20)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_client_that_has_nothing_more_to_say_gets_its_answers(server: Server, version: str) -> None:
    with connected(server) as sock:
        sock.sendall(post(text="a", pieces=3, interval=0.1).replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
        sock.shutdown(socket.SHUT_WR)
        (answer,) = replies(sock)
    assert text(answer) == "aaa"


def test_a_client_that_has_nothing_more_to_say_gets_its_stream(server: Server) -> None:
    with connected(server) as sock:
        sock.sendall(post(stream=True, text="a", pieces=3, interval=0.1) + GET[:10])
        sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as file:
            answer = file.read()
    # Pieces that come while the system is busy may travel together.
    assert b"".join(re.findall(rb'"content":"([^"]*)"', answer)) == b"aaa"
    assert b"data: [DONE]" in answer


def test_a_body_that_breaks_off_is_not_answered(server: Server) -> None:
    with connected(server) as sock:
        sock.sendall(post(text="a")[:-1])
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_has_nothing_more_to_say_may_still_leave(server: Server, stream: bool) -> None:
    for begins in (False, True):  # it leaves before the first token, or later
        with connected(server) as sock:
            sock.sendall(post(stream=stream, pieces=10_000, interval=0.01, delay=0 if begins else 60))
            sock.shutdown(socket.SHUT_WR)
            server.until(running=1)
        server.until(running=0)


def test_a_reset_is_noticed(server: Server) -> None:
    with connected(server) as sock:
        sock.sendall(post(pieces=10_000, interval=0.01))
        server.until(running=1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    server.until(running=0)


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        b"host: localhost\r\nhost: localhost\r\n",
        b"host: localhost\r\nHost: evil.example\r\n",
        b"host: localhost\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        b"host: localhost\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
        b"host: localhost\r\ntransfer-encoding: gzip, chunked\r\n",
    ],
)
def test_heads_that_servers_read_in_different_ways(server: Server, headers: bytes) -> None:
    refused = reply(server, b"POST /unload HTTP/1.1\r\n" + headers + b"\r\n0\r\n\r\n")
    assert refused.status_code == 400
    assert refused.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /v1/models HTTP/1.0\r\n", 200),
        (b"GET /v1/models HTTP/1.0\r\nhost: evil.example\r\n", 403),
        (b"GET http://localhost/v1/models?x=1 HTTP/1.1\r\nhost: evil.example\r\n", 200),
        (b"GET http://[::1]:80/v1/models HTTP/1.1\r\nhost: localhost\r\n", 200),
        (b"GET http://evil.example/v1/models HTTP/1.1\r\nhost: localhost\r\n", 403),
        (b"GET http://localhost HTTP/1.1\r\nhost: localhost\r\n", 200),
        (b"GET //evil.example/v1/models HTTP/1.1\r\nhost: localhost\r\n", 404),
        (b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n", 404),
        (b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n", 400),
    ],
)
def test_targets_of_every_form(server: Server, head: bytes, status: int) -> None:
    assert reply(server, head + b"connection: close\r\n\r\n").status_code == status


def test_a_chunked_body_is_read(server: Server) -> None:
    content = json.dumps(body(text="a")).encode()
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n"
    )
    assert text(reply(server, head + b"\r\n" + chunks)) == "a"


CHUNKED = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


def test_a_body_in_small_chunks_is_read(server: Server) -> None:
    content = json.dumps(body(text="a")).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in content)
    head = CHUNKED.replace(b"localhost", b"localhost\r\nconnection: close")
    assert text(reply(server, head + chunks + b"0\r\n\r\n")) == "a"


@pytest.mark.parametrize("chunk", [b"1\r\n \r\n", b"1;" + b"a" * 99 + b"\r\n \r\n"])
def test_a_large_body_in_small_chunks_is_refused(server: Server, chunk: bytes) -> None:
    answer = reply(server, CHUNKED + chunk * (1_000_000 // len(chunk)))
    assert answer.status_code == 400
    assert "chunks of the body are too small" in answer.json()["error"]["message"]


async def test_small_segments_gather_while_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "BURST", 4)
    monkeypatch.setattr(pace, "RATE", 2.0)
    got, reads = asyncio.Event(), 0
    content = b"x" * 500

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        found = b""
        while len(found) < len(content):
            found += (await receive())["body"]
        got.set()

    class Counting(Connection):
        def data_received(self, data: bytes) -> None:
            nonlocal reads
            reads += 1
            super().data_received(data)

    config = uvicorn.Config(app, log_config=None, lifespan="off")
    config.load()
    connection = Counting(config, ServerState(), {}, settings=Settings(), head_budget=Budget(9999, "heads"))
    async with await asyncio.get_running_loop().create_server(lambda: connection, "127.0.0.1") as listening:
        _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(content))
        for number in range(len(content)):
            writer.write(content[number : number + 1])
            await asyncio.sleep(0)
        await asyncio.wait_for(got.wait(), 30)
        writer.close()
    assert reads < 50


def test_a_key_behind_the_body_is_none() -> None:
    """Trailers come after what the headers decide."""
    head = b"POST /unload HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    with serve(api_keys=("late",)) as server:
        assert reply(server, head + b"0\r\nx-api-key: late\r\n\r\n").status_code == 401
