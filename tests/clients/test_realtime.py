"""Realtime sessions through OpenAI's SDK, and through its Agents SDK: its realtime runner and its voice pipeline.

The server's models are small, and its speech model says the last digit of a text, so that demo-whisper can hear what is
answered. Its model of turn detection finds every pause to be the end of a turn.
"""

import base64
import io
import re
import subprocess
import wave
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import agents.voice.models.openai_stt as stt
import numpy as np
import pytest
from agents import Agent, OpenAIChatCompletionsModel, function_tool
from agents.realtime import (
    RealtimeAgent,
    RealtimePlaybackTracker,
    RealtimeRunner,
    RealtimeSession,
    RealtimeSessionEvent,
)
from agents.voice import (
    AudioInput,
    OpenAIVoiceModelProvider,
    SingleAgentVoiceWorkflow,
    StreamedAudioInput,
    TTSModelSettings,
    VoicePipeline,
    VoicePipelineConfig,
)
from numpy.typing import NDArray
from openai import AsyncOpenAI

from tests.clients.prompts import WEATHER
from tests.clients.test_docs import COMMANDS, FOLDERS, ROOT

SECTION = (ROOT / "docs" / "clients.md").read_text().partition("## Voice")[2].partition("\n## ")[0]
SNIPPETS = re.findall(r"^```(python|js)\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
RATE = 24_000
SILENCE = bytes(2 * RATE)
SAID, TEXT, ANSWER = "two four", "2 \u00d7 4 = 8", "eight"  # the demo model multiplies what it hears
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def speech(voices_url: str, voices_folder: Path) -> bytes:
    """What a person says, and half a second of silence before and after it."""
    with wave.open(str(voices_folder / "said.wav")) as file:
        said: bytes = file.readframes(file.getnframes())
    return said


@pytest.fixture
def client(voices_url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{voices_url}/v1", api_key="none", max_retries=0)


def samples(sound: bytes) -> NDArray[np.int16]:
    return np.frombuffer(sound, np.int16)


async def hear(client: AsyncOpenAI, sound: bytes) -> str:
    """Return what demo-whisper hears in samples."""
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(SILENCE + sound + SILENCE)
    heard = await client.audio.transcriptions.create(model="ears", file=("a.wav", made.getvalue()))
    return heard.text.strip()


def pieces(sound: bytes) -> list[bytes]:
    return [sound[at : at + 9600] for at in range(0, len(sound), 9600)]


@pytest.mark.parametrize("detection", ["server_vad", "semantic_vad"])
async def test_the_sdk_hears_the_answer_of_a_spoken_calculation(
    client: AsyncOpenAI, speech: bytes, detection: Any
) -> None:
    async with client.realtime.connect(model="assistant") as connection:
        await connection.session.update(
            session={"type": "realtime", "audio": {"input": {"turn_detection": {"type": detection}}}}
        )
        for piece in pieces(speech + SILENCE):
            await connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())
        sound, said = b"", ""
        async for event in connection:
            assert event.type != "error", event
            if event.type == "response.output_audio.delta":
                sound += base64.b64decode(event.delta)
            elif event.type == "response.output_audio_transcript.delta":
                said += event.delta
            elif event.type == "response.done":
                break
    assert said == TEXT
    assert await hear(client, sound) == ANSWER


def server_event_type(event: RealtimeSessionEvent) -> str:
    """Return the type of the server's event of which the SDK tells; empty: it is an event of the SDK's own."""
    data: Any = event.data if event.type == "raw_model_event" else None
    return str(data.data["type"]) if data and data.type == "raw_server_event" else ""


class Heard:
    """A session of the Agents SDK, and what was heard of it."""

    def __init__(self, session: RealtimeSession) -> None:
        self.session = session
        self.events: list[RealtimeSessionEvent] = []

    @property
    def sound(self) -> bytes:
        return b"".join(event.audio.data for event in self.events if event.type == "audio")

    def items(self) -> list[Any]:
        return next((event.history for event in reversed(self.events) if event.type == "history_updated"), [])

    async def say(self, sound: bytes) -> None:
        for piece in pieces(sound):
            await self.session.send_audio(piece)

    async def until(self, kind: str, raw: str = "") -> Any:
        """Read events up to one of this type; of a `raw_model_event`, up to a server event of the type `raw`."""
        async for event in self.session:
            self.events.append(event)
            assert event.type != "error", event
            if event.type == kind and (not raw or server_event_type(event) == raw):
                return event
        raise AssertionError(f"the session ended without {kind} {raw}")

    async def until_done(self) -> None:
        await self.until("raw_model_event", "response.done")


@pytest.fixture
async def open_session(voices_url: str) -> AsyncIterator[Any]:
    """Open a session with an agent and the SDK's own settings: semantic_vad, and OpenAI's name of a transcriber."""
    opened: list[RealtimeSession] = []

    async def connect(agent: RealtimeAgent[Any], **options: Any) -> Heard:
        url = f"{voices_url.replace('http', 'ws')}/v1/realtime?model=assistant"
        settings: Any = {"initial_model_settings": {"model_name": "assistant"}, **options}
        session = await RealtimeRunner(agent).run(model_config={"url": url, "api_key": "none", **settings})
        opened.append(await session.__aenter__())
        return Heard(session)

    yield connect
    for session in opened:
        await session.close()


async def test_an_agent_answers_a_spoken_calculation(client: AsyncOpenAI, open_session: Any, speech: bytes) -> None:
    heard = await open_session(RealtimeAgent(name="helper", instructions="Be brief."))
    await heard.say(speech + SILENCE)
    await heard.until("audio_end")
    await heard.until_done()
    texts = {item.role: item.content[0].transcript for item in heard.items()}
    assert texts == {"user": SAID, "assistant": TEXT}
    assert await hear(client, heard.sound) == ANSWER


async def test_an_agent_is_interrupted_in_the_middle_of_a_word(open_session: Any, speech: bytes) -> None:
    """What was not heard is cut off, and the session goes on."""
    tracker = RealtimePlaybackTracker()
    heard = await open_session(RealtimeAgent(name="helper"), playback_tracker=tracker)
    await heard.session.send_message("What is 3 + 5?")
    sound = (await heard.until("audio")).audio
    tracker.on_play_ms(sound.item_id, sound.content_index, 150)  # the word is longer
    await heard.say(speech + SILENCE)
    await heard.until("audio_interrupted")
    truncated = await heard.until("raw_model_event", "conversation.item.truncated")
    assert (truncated.data.data["item_id"], truncated.data.data["audio_end_ms"]) == (sound.item_id, 150)
    await heard.until("raw_model_event", "conversation.item.input_audio_transcription.completed")
    await heard.until("raw_model_event", "response.output_audio_transcript.done")
    await heard.until_done()
    assert re.fullmatch(r"2 . 4 = [68]", heard.items()[-1].content[0].transcript)


async def test_an_agent_calls_a_tool(open_session: Any) -> None:
    called: list[str] = []

    @function_tool
    def get_weather(city: str) -> str:
        """Get the weather of a city."""
        called.append(city)
        return WEATHER

    heard = await open_session(RealtimeAgent(name="helper", tools=[get_weather]))
    await heard.session.send_message("What is the weather in Paris?")
    end = await heard.until("tool_end")
    assert (called, end.output) == (["Paris"], WEATHER)
    await heard.until("audio")
    await heard.until_done()
    assert "21" in heard.items()[-1].content[0].transcript


@pytest.fixture
def pipeline(client: AsyncOpenAI) -> VoicePipeline:
    agent: Agent[None] = Agent(name="helper", model=OpenAIChatCompletionsModel("demo", openai_client=client))
    return VoicePipeline(
        workflow=SingleAgentVoiceWorkflow(agent),
        stt_model="ears",
        tts_model="mouth",
        config=VoicePipelineConfig(
            model_provider=OpenAIVoiceModelProvider(openai_client=client),
            tts_settings=TTSModelSettings(voice="ash"),
            tracing_disabled=True,
        ),
    )


async def sound_of(result: Any) -> bytes:
    sound = b""
    async for event in result.stream():
        if event.type == "voice_stream_event_audio":
            sound += event.data.tobytes()
        elif event.type == "voice_stream_event_lifecycle" and event.event == "turn_ended":
            break
    return sound


async def test_a_voice_pipeline_answers_a_recording(
    client: AsyncOpenAI, pipeline: VoicePipeline, speech: bytes
) -> None:
    result = await pipeline.run(AudioInput(buffer=samples(speech)))
    assert await hear(client, await sound_of(result)) == ANSWER


async def test_a_voice_pipeline_answers_what_is_said_turn_by_turn(
    client: AsyncOpenAI, pipeline: VoicePipeline, speech: bytes, voices_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transcription session has OpenAI's address in its code."""
    connect = stt.websockets.connect

    def reach(url: str, **options: Any) -> Any:
        return connect(url.replace("wss://api.openai.com", voices_url.replace("http", "ws")), **options)

    monkeypatch.setattr(stt.websockets, "connect", reach)
    said = StreamedAudioInput()
    result = await pipeline.run(said)
    for piece in pieces(speech + SILENCE):
        await said.add_audio(samples(piece))
    assert await hear(client, await sound_of(result)) == ANSWER


@pytest.mark.parametrize(("language", "code"), SNIPPETS)
def test_a_snippet(voices_url: str, language: str, code: str) -> None:
    code = code.replace("127.0.0.1:8000", voices_url.removeprefix("http://"))
    run = subprocess.run(
        COMMANDS[language], input=code, cwd=FOLDERS[language], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "bytes" in run.stdout
