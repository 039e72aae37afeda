"""Hostile clients of realtime sessions: garbage, floods, stalls, and clients that leave, beside somebody who talks."""

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from orchard.dialects.openai.realtime.schema import EVENTS
from tests.support.realtime_events import check_event
from tests.support.serving import Server, serve

ANN, BEN = "ann-key", "ben-key"
SECOND = base64.b64encode(random.Random(1).randbytes(48_000)).decode()
EACH = 5  # hostile clients of each sort
EVENTS_EACH = 60
IN_FLIGHT = 8_000_000

pytestmark = [pytest.mark.deep, pytest.mark.timeout(400)]


@asynccontextmanager
async def session(server: Server, key: str, **more: Any) -> AsyncIterator[ClientConnection]:
    url = f"ws://127.0.0.1:{server.port}/v1/realtime?model=fake"
    headers = {"authorization": f"Bearer {key}"}
    async with connect(
        url, additional_headers=headers, open_timeout=60, close_timeout=1, ping_interval=None, **more
    ) as socket:
        yield socket


async def send(socket: ClientConnection, kind: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, **fields}))


async def until(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """Read events up to one of this type."""
    while True:
        event: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), 120))
        check_event(event)
        if event["type"] == kind:
            return event


async def ask(socket: ClientConnection, **script: Any) -> None:
    content = [{"type": "input_text", "text": json.dumps(script)}]
    await send(socket, "conversation.item.create", item={"type": "message", "role": "user", "content": content})
    await send(socket, "response.create")


def garbage(draw: random.Random) -> str | bytes:
    """Return what is no event, or nearly one."""
    kind = draw.choice([*EVENTS, "", "response.done", "output_audio_buffer.clear"])
    values: list[Any] = [None, True, -1, 2**70, 1e308, "", "root", "\ud800", "a" * 5000, [], [[]] * 50, {}, SECOND[:99]]
    fields = ("session", "audio", "item", "item_id", "previous_item_id", "content_index", "audio_end_ms", "response")
    event = {"type": kind, "event_id": draw.choice(values), draw.choice(fields): draw.choice(values)}
    session = {"type": draw.choice(["realtime", "transcription", "x"]), "audio": {"input": draw.choice(values)}}
    text = json.dumps(draw.choice([event, {"type": "session.update", "session": session}]))
    made: list[str | bytes] = [text, text[: draw.randrange(len(text))], draw.randbytes(draw.randrange(200)), "[" * 5000]
    return draw.choice(made)


async def talk_garbage(server: Server, number: int) -> None:
    """Every piece of garbage gets an answer in the form of the API, and the session goes on."""
    draw = random.Random(number)
    async with session(server, BEN) as socket:
        for _ in range(EVENTS_EACH):
            await socket.send(garbage(draw))
        await send(socket, "conversation.item.retrieve", event_id="last", item_id="nothing")
        while (event := await until(socket, "error"))["error"]["event_id"] != "last":
            assert event["error"]["type"] != "server_error", event


async def flood(server: Server, number: int) -> None:
    """Audio, as much as the server takes, and nobody reads."""
    try:
        async with session(server, BEN, max_queue=1) as socket, asyncio.timeout(4):
            while True:
                await send(socket, "input_audio_buffer.append", audio=SECOND)
    except (TimeoutError, ConnectionClosed):
        pass


async def stall(server: Server, number: int) -> None:
    """An answer without end, of which nobody reads more than its beginning."""
    async with session(server, BEN, max_queue=1) as socket:
        await ask(socket, text="x" * 4096, pieces=100_000)
        await until(socket, "response.created")
        await asyncio.sleep(4)
        socket.transport.abort()


async def leave(server: Server, number: int) -> None:
    """Leave in the middle of an answer, an event, or a handshake."""
    for at in range(6):
        if at % 3 == 2:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /v1/realtime?model=fake HTTP/1.1\r\nupgrade: websocket\r\n")
            writer.close()
            continue
        async with session(server, BEN) as socket:
            await ask(socket, pieces=10_000, interval=0.02)
            if at % 3 == 1:
                await until(socket, "response.output_text.delta")
                socket.transport.write(b"\x81\xfe\x7f\xff")
            socket.transport.abort()


async def talk(server: Server, done: asyncio.Event) -> int:
    """Talk until the others are done; return how many answers there were."""
    answers = 0
    async with session(server, ANN) as socket:
        while not done.is_set():
            await ask(socket, text=f"answer {answers}")
            (item,) = (await until(socket, "response.done"))["response"]["output"]
            assert item["content"] == [{"type": "output_text", "text": f"answer {answers}"}]
            answers += 1
    return answers


async def test_twenty_hostile_clients_leave_somebody_else_alone(tmp_path: Path) -> None:
    log, keys = tmp_path / "log", (ANN, BEN)
    with serve(api_keys=keys, max_body_bytes_in_flight=IN_FLIGHT, max_body_bytes=2**20, log_file=str(log)) as server:
        done = asyncio.Event()
        talking = asyncio.create_task(talk(server, done))
        await asyncio.gather(
            *(act(server, number) for act in (talk_garbage, flood, stall, leave) for number in range(EACH))
        )
        done.set()
        assert await talking > 3
        await asyncio.to_thread(server.until, running=0)
        # What the others held is free again.
        async with session(server, ANN) as socket:
            for _ in range(IN_FLIGHT // 2 // 48_000):
                fields = {"audio": {"input": {"turn_detection": None}}}
                await send(socket, "session.update", session={"type": "realtime", **fields})
                await send(socket, "input_audio_buffer.append", audio=SECOND)
            await send(socket, "input_audio_buffer.clear")
            await until(socket, "input_audio_buffer.cleared")
    told = log.read_text()
    assert "Traceback" not in told, told
    assert " broke" not in told


async def test_ids_of_another_session_are_unknown() -> None:
    with serve(api_keys=(ANN, BEN)) as server:
        async with session(server, ANN) as own, session(server, BEN) as other:
            await ask(own, text="secret", pieces=10_000, interval=0.02)
            running = await until(own, "response.output_text.delta")
            where = {"item_id": running["item_id"]}
            await send(other, "conversation.item.retrieve", **where)
            await send(other, "conversation.item.delete", **where)
            await send(other, "conversation.item.truncate", **where, content_index=0, audio_end_ms=0)
            await send(other, "response.cancel", response_id=running["response_id"])
            reference = {"type": "item_reference", "id": running["item_id"]}
            await send(other, "response.create", response={"input": [reference]})
            codes = [(await until(other, "error"))["error"]["code"] for _ in range(5)]
            assert codes.count("item_not_found") == 4
            assert codes[3] == "response_cancel_not_active"
            await until(own, "response.output_text.delta")
