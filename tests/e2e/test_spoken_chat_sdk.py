"""Spoken answers in chats, and audio for a model that can't hear, through the openai SDK and with small models."""

import asyncio
import base64
import io
import wave
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from tests.support.realtime_events import SESSION_RATE, pcm, spoken
from tests.support.serving import Server
from tests.support.sounds import wav

AUDIO: Any = {"voice": "ryan", "format": "wav"}
LIVE: Any = {"voice": "ryan", "format": "pcm16"}
SUM = base64.b64encode(wav(np.frombuffer(pcm(spoken("two", "four")), np.int16), SESSION_RATE)).decode()
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

pytestmark = pytest.mark.timeout(400)  # three models are loaded at once


def ask(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def hear(data: str = SUM, **more: Any) -> list[Any]:
    audio = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    return [{"role": "user", "content": [audio], **more}]


@pytest.fixture
def client(voice_server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{voice_server.url}/v1", api_key="key-a", max_retries=0, timeout=120) as client:
        yield client


def test_an_answer_is_spoken_and_a_later_turn_refers_to_it(client: OpenAI) -> None:
    wanted: Any = {"modalities": ["text", "audio"], "audio": AUDIO, "temperature": 0}
    told = client.chat.completions.create(model="assistant", messages=ask("What is 2 + 4?"), **wanted)
    written = client.chat.completions.create(model="demo", messages=ask("What is 2 + 4?"), temperature=0)
    message, audio = told.choices[0].message, told.choices[0].message.audio
    assert audio
    assert (message.content, audio.transcript) == (None, written.choices[0].message.content)
    assert told.choices[0].finish_reason == "stop"
    assert audio.expires_at == told.created + 3600
    with wave.open(io.BytesIO(base64.b64decode(audio.data))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        assert any(file.readframes(24_000))
    assert told.usage
    assert written.usage
    assert told.usage.completion_tokens_details
    made = told.usage.completion_tokens_details.audio_tokens or 0
    assert made > 0
    assert told.usage.completion_tokens == written.usage.completion_tokens + made
    # The message itself can be sent back, and is read as its transcript.
    further = ask("And 1 more?")
    said: Any = [*ask("What is 2 + 4?"), {"role": "assistant", "content": audio.transcript}, *further]
    spoken: Any = [*ask("What is 2 + 4?"), message, *further]
    answers = [client.chat.completions.create(model="demo", messages=one, temperature=0) for one in (said, spoken)]
    assert answers[0].choices[0].message.content == answers[1].choices[0].message.content
    assert answers[0].usage
    assert answers[1].usage
    assert answers[0].usage.prompt_tokens == answers[1].usage.prompt_tokens
    with pytest.raises(openai.BadRequestError) as refused:
        client.with_options(api_key="key-b").chat.completions.create(model="demo", messages=spoken)
    assert refused.value.param == "messages[1].audio.id"


def test_a_stream_has_sound_while_the_rest_is_generated(client: OpenAI) -> None:
    messages = ask("What is 2 + 4?")
    stream = client.chat.completions.create(
        model="demo",
        messages=messages,
        modalities=["text", "audio"],
        audio=LIVE,
        stream=True,
        stream_options={"include_usage": True},
        temperature=0,
    )
    chunks = list(stream)
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    sounds = [delta.audio for delta in deltas if delta.audio]
    assert all(delta.content is None for delta in deltas)
    assert sounds[0].id
    assert not any(one.id for one in sounds[1:])
    text = "".join(one.transcript or "" for one in sounds)
    whole = client.chat.completions.create(model="demo", messages=messages, temperature=0)
    assert text == whole.choices[0].message.content
    data = [base64.b64decode(one.data) for one in sounds if one.data]
    assert all(len(piece) % 2 == 0 for piece in data)
    assert any(b"".join(data))
    assert sounds[-1].to_dict() == {"expires_at": chunks[0].created + 3600}
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage
    assert chunks[-1].usage.completion_tokens_details
    assert chunks[-1].usage.completion_tokens_details.audio_tokens
    said: Any = [*messages, {"role": "assistant", "audio": {"id": sounds[0].id}}, *ask("And 1 more?")]
    assert client.chat.completions.create(model="demo", messages=said).choices[0].message.content


def test_a_call_is_not_spoken(client: OpenAI) -> None:
    wanted: Any = {"tools": [WEATHER], "tool_choice": "required", "modalities": ["text", "audio"], "audio": AUDIO}
    told = client.chat.completions.create(
        model="demo", messages=ask("What is the weather in Paris?"), temperature=0, **wanted
    )
    message = told.choices[0].message
    assert message.tool_calls
    assert (message.audio, message.content) == (None, None)
    assert told.choices[0].finish_reason == "tool_calls"


def test_a_voice_that_is_not_there_fails_before_anything_is_generated(client: OpenAI) -> None:
    for more in ({"stream": True, "audio": LIVE | {"voice": "nobody"}}, {"audio": AUDIO | {"voice": {"id": "nobody"}}}):
        wanted: Any = {"modalities": ["text", "audio"], **more}
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="demo", messages=ask("Hi"), **wanted)
        assert refused.value.param == "audio.voice"
        assert "'ryan'" in refused.value.message


def test_a_text_model_reads_what_was_said(client: OpenAI) -> None:
    written = client.chat.completions.create(model="demo", messages=ask("two four"), temperature=0)
    for _ in range(2):
        raw = client.chat.completions.with_raw_response.create(model="demo", messages=hear(), temperature=0)
        told = raw.parse()
        assert told.choices[0].message.content == written.choices[0].message.content
        assert "the audio was transcribed by 'demo-whisper', because 'demo' can't hear" in raw.headers["warning"]
    assert "warning" not in client.chat.completions.with_raw_response.create(model="demo", messages=ask("Hi")).headers
    part: Any = {"type": "input_audio", "input_audio": {"data": SUM, "format": "wav"}}
    asked: Any = [{"role": "user", "content": [part]}]
    answer = client.responses.with_raw_response.create(model="demo", input=asked, temperature=0)
    assert answer.parse().output_text == written.choices[0].message.content
    assert "demo-whisper" in answer.headers["warning"]
    following = client.responses.create(
        model="demo", input="And 1 more?", previous_response_id=answer.parse().id, temperature=0
    )
    assert following.output_text


def test_a_recording_that_is_broken_names_its_part(client: OpenAI) -> None:
    for data in (base64.b64encode(b"RIFFxxxxWAVE").decode(), "AAAA", SUM[: len(SUM) // 8 * 4]):
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="demo", messages=hear(data))
        assert refused.value.param == "messages[0].content[0].input_audio.data"


def test_what_was_said_is_answered_in_sound(client: OpenAI) -> None:
    wanted: Any = {"modalities": ["text", "audio"], "audio": AUDIO | {"format": "mp3"}}
    told = client.chat.completions.create(model="assistant", messages=hear(), **wanted)
    assert told.choices[0].message.audio
    assert base64.b64decode(told.choices[0].message.audio.data)[0] == 0xFF


@pytest.mark.deep
async def test_twenty_at_once_of_which_some_leave(voice_server: Server) -> None:
    async with AsyncOpenAI(base_url=f"{voice_server.url}/v1", api_key="key-a", max_retries=2, timeout=300) as client:

        async def listen(number: int) -> bool:
            stream = await client.chat.completions.create(
                model="assistant",
                messages=ask(f"Count from {number} to ten."),
                modalities=["text", "audio"],
                audio=LIVE,
                max_tokens=24,
                stream=True,
            )
            async for chunk in stream:
                if number % 2 and chunk.choices[0].delta.audio:
                    await stream.close()
                    return True
                if chunk.choices and chunk.choices[0].finish_reason:
                    return True
            return False

        assert all(await asyncio.gather(*map(listen, range(20))))
    headers = {"x-api-key": "key-a"}
    async with httpx.AsyncClient(base_url=voice_server.url, headers=headers, timeout=60) as http:
        while (await http.get("/v1/requests")).json()["data"]:
            pass  # each question takes time
