"""Answers that are files: what a client gets when, whatever the events are."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from orchard.core.events import Event, Failed, Finished, Output, Started, Usage
from orchard.core.tasks.speak import Sound
from orchard.dialects.openai.speech import SoundFile
from orchard.gateway.replies.errors import Dialects
from orchard.gateway.replies.event_stream import EventStream
from orchard.gateway.replies.file_response import FileResponse

DONE = Finished(("stop",), Usage(1, 1))
FAILED = Failed("invalid_request", "no such voice", "voice")


def _sound(data: bytes) -> Output:
    return Output.from_struct(Sound(data))


class Client:
    """One request to a response whose events the test pushes."""

    def __init__(self) -> None:
        self.stream = EventStream()
        self.sent: list[dict[str, Any]] = []
        self._sent = asyncio.Event()
        self._left = asyncio.Event()
        scope = {"type": "http", "path": "/", "headers": [], "state": {"dialects": Dialects(), "id": "req_1"}}
        response = FileResponse(self.stream, SoundFile("audio/wav"), 0.001)
        self.answered = asyncio.create_task(response(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(dict(message))
        self._sent.set()

    async def until_sent(self, count: int) -> None:
        while len(self.sent) < count:
            self._sent.clear()
            await self._sent.wait()

    async def leave(self) -> None:
        self._left.set()
        await self.answered


async def test_the_status_waits_for_sound_and_each_piece_is_sent_when_it_is_there() -> None:
    client = Client()
    client.stream.push([Started(1)])
    for _ in range(20):
        await asyncio.sleep(0)
    assert client.sent == []
    client.stream.push([_sound(b"RI"), _sound(b"FF")])
    await client.until_sent(2)
    start, body = client.sent
    assert (start["status"], dict(start["headers"])[b"content-type"]) == (200, b"audio/wav")
    assert (body["body"], body["more_body"]) == (b"RIFF", True)
    client.stream.push([_sound(b"more"), DONE])
    await client.answered
    assert [(message["body"], message["more_body"]) for message in client.sent[2:]] == [(b"more", True), (b"", False)]


@pytest.mark.parametrize(("voice", "header"), [("ryan", b"ryan"), ("\r\nx: é", b"%0D%0Ax%3A%20%C3%A9")])
async def test_a_header_names_the_voice_whatever_its_name_is(voice: str, header: bytes) -> None:
    client = Client()
    client.stream.push([Started(1, voice=voice), _sound(b"RIFF"), DONE])
    await client.answered
    assert dict(client.sent[0]["headers"])[b"x-voice"] == header


@pytest.mark.parametrize("events", [[FAILED], [Started(1), FAILED], [Started(1), _sound(b"RIFF"), FAILED]])
async def test_what_fails_before_anything_was_sent_gets_an_error_status(events: Sequence[Event]) -> None:
    client = Client()
    client.stream.push(events)
    await client.answered
    start, body = client.sent
    assert start["status"] == 400
    assert json.loads(body["body"])["error"]["param"] == "voice"


async def test_a_file_that_fails_is_not_ended() -> None:
    client = Client()
    client.stream.push([Started(1), _sound(b"RIFF")])
    await client.until_sent(2)
    client.stream.push([FAILED])
    await client.answered  # the server closes the connection of an answer that has no end
    assert [message["type"] for message in client.sent] == ["http.response.start", "http.response.body"]
    assert client.sent[-1]["more_body"]


async def test_a_client_that_leaves_ends_the_work() -> None:
    client = Client()
    dropped: list[bool] = []
    client.stream.on_drop = lambda: dropped.append(True)
    client.stream.push([Started(1), _sound(b"RIFF")])
    await client.until_sent(2)
    await client.leave()
    assert dropped == [True]
    assert len(client.sent) == 2
