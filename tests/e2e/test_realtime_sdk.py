"""Realtime sessions through the openai SDK: a real server that listens, thinks and speaks with small models."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection

from tests.support.realtime_events import check_event, pcm, spoken
from tests.support.serving import Server

SPEECH = pcm(spoken("two", "four"))
SAMPLES = 8 * 64  # of a short clause of the tiny model
SESSIONS = 4  # more of them: tests/gateway/realtime/test_session.py

pytestmark = pytest.mark.timeout(400)  # three models are loaded at once


@asynccontextmanager
async def session(server: Server, model: str = "assistant", **fields: Any) -> AsyncIterator[AsyncRealtimeConnection]:
    async with (
        AsyncOpenAI(base_url=f"{server.url}/v1", api_key="key-a") as client,
        client.realtime.connect(model=model) as connection,
    ):
        if fields:
            given: Any = {"type": "realtime", **fields}
            await connection.session.update(session=given)
            await until(connection, "session.updated")
        yield connection


async def until(connection: AsyncRealtimeConnection, kind: str) -> list[dict[str, Any]]:
    """Read events up to one of this type."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] != kind:
        events.append(json.loads(await asyncio.wait_for(connection.recv_bytes(), 120)))
        check_event(events[-1])
        assert events[-1]["type"] != "error", events[-1]
    return events


async def say(connection: AsyncRealtimeConnection, audio: bytes) -> None:
    for begin in range(0, len(audio), 24_000):
        piece = base64.b64encode(audio[begin : begin + 24_000]).decode()
        await connection.input_audio_buffer.append(audio=piece)


def text_of(events: list[dict[str, Any]], kind: str, field: str = "delta") -> str:
    return "".join(event[field] for event in events if event["type"] == kind)


async def test_a_spoken_sum_is_answered_by_sound(voice_server: Server) -> None:
    async with session(voice_server, audio={"input": {"transcription": {"model": "demo-whisper"}}}) as connection:
        await say(connection, SPEECH)
        events = await until(connection, "response.done")
        heard = text_of(events, "conversation.item.input_audio_transcription.completed", "transcript")
        assert heard == "two four"
        said = text_of(events, "response.output_audio_transcript.delta")
        assert said.strip()
        sound = b"".join(
            base64.b64decode(one["delta"]) for one in events if one["type"] == "response.output_audio.delta"
        )
        assert len(sound) >= 2 * SAMPLES
        assert any(sound)
        response = events[-1]["response"]
        assert response["status"] == "completed"
        assert response["output"][0]["content"][0]["transcript"] == said
        assert response["usage"]["output_token_details"]["audio_tokens"] > 0
        # The same turn in writing gets the same answer, so it is what was heard that is answered.
        texts: Any = [{"type": "input_text", "text": "two four"}]
        asked: Any = [{"type": "message", "role": "user", "content": texts}]
        await connection.response.create(
            response={"conversation": "none", "input": asked, "output_modalities": ["text"]}
        )
        events = await until(connection, "response.done")
        assert text_of(events, "response.output_text.done", "text") == said


async def test_a_function_is_called(voice_server: Server) -> None:
    tool: Any = {
        "type": "function",
        "name": "get_weather",
        "description": "Get the weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    async with session(voice_server, tools=[tool], tool_choice="required", output_modalities=["text"]) as connection:
        part: Any = {"type": "input_text", "text": "What is the weather in Paris?"}
        await connection.conversation.item.create(item={"type": "message", "role": "user", "content": [part]})
        await connection.response.create()
        events = await until(connection, "response.done")
        (call,) = (item for item in events[-1]["response"]["output"] if item["type"] == "function_call")
        assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Paris"})
        assert text_of(events, "response.function_call_arguments.done", "arguments") == call["arguments"]
        await connection.conversation.item.create(
            item={"type": "function_call_output", "call_id": call["call_id"], "output": '{"degrees": 20}'}
        )
        await connection.response.create(response={"tool_choice": "none"})
        events = await until(connection, "response.done")
        assert events[-1]["response"]["output"][0]["content"][0]["text"]


async def test_an_interruption_and_what_was_not_heard(voice_server: Server) -> None:
    async with session(voice_server, instructions="Answer at length.") as connection:
        part: Any = {"type": "input_text", "text": "Count from one to ten."}
        await connection.conversation.item.create(item={"type": "message", "role": "user", "content": [part]})
        await connection.response.create()
        events = await until(connection, "response.output_audio.delta")
        item = events[-1]["item_id"]
        await say(connection, SPEECH[: 2 * 24_000])
        done = (await until(connection, "response.done"))[-1]["response"]
        if done["status"] == "cancelled":  # else it was quicker than the person
            assert done["status_details"]["reason"] == "turn_detected"
        await connection.conversation.item.truncate(item_id=item, content_index=0, audio_end_ms=1)
        await until(connection, "conversation.item.truncated")
        await connection.conversation.item.retrieve(item_id=item)
        (event,) = await until(connection, "conversation.item.retrieved")
        assert event["item"]["content"][0]["transcript"] == ""


@pytest.mark.deep
async def test_many_sessions_at_once(voice_server: Server) -> None:
    async def hear(number: int) -> str:
        detection = {"turn_detection": None} if number % 2 else {}
        given = {"transcription": {"model": "demo-whisper"}, **detection}
        async with session(voice_server, audio={"input": given}, output_modalities=["text"]) as connection:
            await say(connection, SPEECH)
            if number % 2:
                await connection.input_audio_buffer.commit()
                await connection.response.create()
            events = await until(connection, "response.done")
            assert events[-1]["response"]["status"] == "completed"
            return text_of(events, "conversation.item.input_audio_transcription.completed", "transcript")

    assert await asyncio.gather(*map(hear, range(SESSIONS))) == ["two four"] * SESSIONS


def test_a_transcription_session(voice_server: Server) -> None:
    with (
        OpenAI(base_url=f"{voice_server.url}/v1", api_key="key-a") as client,
        client.realtime.connect(model="demo-whisper", extra_query={"intent": "transcription"}) as connection,
    ):
        assert connection.recv().type == "session.created"
        form: Any = {"type": "audio/pcmu"}
        connection.session.update(session={"type": "transcription", "audio": {"input": {"format": form}}})
        from orchard.gateway.realtime.samples import FORMATS, Resampler, to_float

        sound = Resampler(24_000, 8_000).feed(to_float(SPEECH))
        coded = FORMATS["audio/pcmu"].encode((sound * 32767).astype("<i2"))
        connection.input_audio_buffer.append(audio=base64.b64encode(coded).decode())
        for event in connection:
            if event.type == "conversation.item.input_audio_transcription.completed":
                assert event.transcript == "two four"
                break
