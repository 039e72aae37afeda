"""One caller asks for more than there is; another's small request begins and ends meanwhile, and gets no 429."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager

import httpx
import pytest

from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.models.registry import resolve_model
from tests.support.serving import Server, serve

ANN, BEN = "ann-key", "ben-key"
ONE_WORD = {"900": 100}


@contextmanager
def crowded(rows: int, queue_size: int = 1024, keys: tuple[str, ...] = (ANN, BEN)) -> Iterator[Server]:
    text = TextOptions(decode_concurrency=rows, queue_size=queue_size)
    with serve([resolve_model("demo")], spare=False, api_keys=keys, text=text) as server:
        server.until("demo", state="ready")
        yield server


def long(number: int, tokens: int = 3000) -> bytes:
    """The body of a request that says one word until its end."""
    body = {
        "model": "demo",
        "messages": [{"role": "user", "content": f"{number} times"}],
        "stream": True,
        "max_tokens": tokens,
        "logit_bias": ONE_WORD,
        "speculation": False,
    }
    return json.dumps(body).encode()


class Flood:
    """Streams of one caller that are read to their ends."""

    def __init__(self) -> None:
        self.ended: list[int] = []
        self.begun = asyncio.Semaphore(0)

    async def read(self, http: httpx.AsyncClient, number: int) -> None:
        async with http.stream("POST", "/v1/chat/completions", content=long(number), headers=_json(ANN)) as response:
            assert response.status_code == 200
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    assert "error" not in json.loads(line.removeprefix("data: "))
                    self.begun.release()
        self.ended.append(number)


def _json(key: str) -> dict[str, str]:
    return {"content-type": "application/json", "x-api-key": key}


@asynccontextmanager
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=server.url, timeout=300, limits=limits) as http:
        yield http


async def small(http: httpx.AsyncClient, key: str) -> httpx.Response:
    body = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}
    return await http.post("/v1/chat/completions", json=body, headers={"x-api-key": key})


async def flooded(server: Server, streams: int, rows: int) -> None:
    """Flood a server, and see that another caller gets its answers before any of the streams ends."""
    async with client(server) as http, AsyncExitStack() as after:
        flood = Flood()
        tasks = [asyncio.create_task(flood.read(http, number)) for number in range(streams)]
        after.callback(lambda: [task.cancel() for task in tasks])
        for _ in range(2 * rows):
            await flood.begun.acquire()
        for _ in range(3):
            answer = await small(http, BEN)
            assert answer.status_code == 200, answer.text
            assert not flood.ended
        assert not any(task.done() for task in tasks)


@contextmanager
def unread(server: Server, streams: int, key: str) -> Iterator[None]:
    """Ask for streams, and read nothing of them."""
    with ExitStack() as stack:
        for number in range(streams):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that it is full soon
            sock.connect(("127.0.0.1", server.port))
            body, headers = long(number, 3900), f"x-api-key: {key}\r\ncontent-type: application/json"
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n{headers}\r\ncontent-length: {len(body)}"
            sock.sendall(f"{head}\r\n\r\n".encode() + body)
        yield


async def test_a_small_request_passes_another_callers_long_streams() -> None:
    with crowded(4) as server:
        await flooded(server, 12, 4)


async def test_a_full_queue_still_takes_another_callers_request() -> None:
    with crowded(2, queue_size=6) as server:
        await flooded(server, 8, 2)


@pytest.mark.parametrize("keys", [(ANN, BEN), ()])
async def test_a_small_request_passes_streams_that_nobody_reads(keys: tuple[str, ...]) -> None:
    """Without keys, the caller that reads nothing is the same as the other one."""
    streams = 8 if keys else 4
    with crowded(4, keys=keys) as server, unread(server, streams, ANN):
        server.until("demo", running=4)
        async with client(server) as http:
            assert (await small(http, BEN)).status_code == 200
        health = server.health("demo")
        assert health["running"] + health["waiting"] == streams  # none of them has ended


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_a_small_request_passes_hundreds_of_long_streams() -> None:
    with crowded(64) as server:
        await flooded(server, 256, 64)


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("keys", [(ANN, BEN), ()])
async def test_a_small_request_passes_many_streams_that_nobody_reads(keys: tuple[str, ...]) -> None:
    with crowded(64, keys=keys) as server, unread(server, 96, ANN):
        server.until("demo", running=64)
        async with client(server) as http:
            assert (await small(http, BEN)).status_code == 200
