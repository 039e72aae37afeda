"""Realtime sessions with real voices: a real Whisper hears them, and SmolLM2 or the demo model answers.

No package has real weights of a model that speaks, or of Smart Turn. What speaks is the tests' own model that says
digits, which demo-whisper reads back: for a real Whisper, a word of 0.4 s is too short.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection

from orchard.backends.audio import whisper
from orchard.config import ModelSettings, VoiceModels
from orchard.core.tasks.transcribe import Segment, Transcribe
from orchard.gateway.models.registry import resolve_model
from orchard.gateway.realtime.samples import Resampler, to_float
from tests.models import sources
from tests.models.test_whisper import errors
from tests.support.digit_speaker import make_digit_speaker
from tests.support.realtime_events import SESSION_RATE, check_event, pcm
from tests.support.serving import Server, serve
from tests.support.sounds import wav

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("voices")]
PAUSE = np.zeros(sources.RATE, np.int16)


@pytest.fixture(scope="module")
def assistants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of two assistants: one calculates, and says the result; one writes."""
    mouth = tmp_path_factory.mktemp("mouth")
    make_digit_speaker(mouth)
    folders = {
        "demo": "demo",
        "smollm2": sources.ROOT / "smollm2",
        "ears": sources.ROOT / "whisper-tiny.en",
        "mouth": mouth,
    }
    models = [ModelSettings(model_path=str(folder), served_model_name=name) for name, folder in folders.items()]
    voices = {"calculator": VoiceModels(chat="demo"), "writer": VoiceModels(chat="smollm2")}
    with serve((), models=models, realtime=voices, spare=False) as running:
        for name in folders:
            running.until(name, state="ready", timeout=300)
        yield running


@asynccontextmanager
async def session(server: Server, model: str, **fields: Any) -> AsyncIterator[AsyncRealtimeConnection]:
    transcription = {"audio": {"input": {"transcription": {"model": "ears"}}}}
    async with (
        AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
        client.realtime.connect(model=model) as connection,
    ):
        given: Any = {"type": "realtime", **transcription, **fields}
        await connection.session.update(session=given)
        yield connection


async def say(connection: AsyncRealtimeConnection, *sounds: NDArray[np.int16]) -> None:
    """Say something, with a second of silence before and after each of its parts."""
    sound = np.concatenate([PAUSE, *(part for one in sounds for part in (one, PAUSE))])
    audio = pcm(Resampler(sources.RATE, SESSION_RATE).feed(to_float(sound.tobytes())).astype(np.float32))
    for begin in range(0, len(audio), 48_000):
        await connection.input_audio_buffer.append(audio=base64.b64encode(audio[begin : begin + 48_000]).decode())


async def until(connection: AsyncRealtimeConnection, kind: str) -> list[dict[str, Any]]:
    """Read events up to one of this type."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] != kind:
        events.append(json.loads(await asyncio.wait_for(connection.recv_bytes(), 300)))
        check_event(events[-1])
        assert events[-1]["type"] != "error", events[-1]
    return events


def read_back(sound: bytes, file: Path) -> str:
    """Return what demo-whisper hears in samples of a session, which are written into a file."""
    silence = bytes(SESSION_RATE)
    file.write_bytes(wav(np.frombuffer(silence + sound + silence, "<i2"), SESSION_RATE))
    model = whisper.load_whisper(Path(resolve_model("demo-whisper").path), lambda fraction: None)
    steps = model.transcribe(Transcribe(str(file)), lambda: None)
    return "".join(one.text for step in steps for one in step.results if isinstance(one, Segment)).strip()


async def test_a_spoken_sum_is_answered_by_a_sound(assistants: Server, tmp_path: Path) -> None:
    """Two, plus and four are words of one speaker."""
    parts = [sources.spoken("en", name) for name in ("digits/2", "letters/plus", "digits/4")]
    async with session(assistants, "calculator") as connection:
        await say(connection, np.concatenate(parts))
        events = await until(connection, "response.done")
    (said,) = (one["transcript"] for one in events if one["type"] == "response.output_audio_transcript.done")
    assert said == "2 + 4 = 6"
    sound = b"".join(base64.b64decode(one["delta"]) for one in events if one["type"] == "response.output_audio.delta")
    assert read_back(sound, tmp_path / "sound.wav") == "six"


async def test_each_sentence_of_a_reader_is_heard_and_answered(assistants: Server) -> None:
    (first, begin), (second, end) = sources.sentences()[1], sources.sentences()[4]
    async with session(assistants, "writer", output_modalities=["text"], max_output_tokens=12) as connection:
        heard = []
        for sound in (first, second):
            await say(connection, sound)
            events = await until(connection, "response.done")
            heard += [one["transcript"] for one in events if one["type"].endswith("transcription.completed")]
            answer = events[-1]["response"]
            assert answer["status"] in ("completed", "incomplete")
            assert answer["output"][0]["content"][0]["text"].strip()
    assert errors(" ".join(heard), f"{begin} {end}") < 0.15
