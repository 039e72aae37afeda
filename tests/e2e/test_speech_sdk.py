"""Speech through the openai SDK: a real server with a tiny random speech model beside the demo model."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import httpx
import numpy as np
import openai
import pytest
from numpy.typing import NDArray
from openai import AzureOpenAI, OpenAI

from orchard.backends.ffmpeg import Ffmpeg
from orchard.core.tasks.speak import RATE
from orchard.core.voices import OPENAI_VOICES
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.registry import resolve_model
from tests.support.fuzzing import AMOUNT, fuzz, sent_to
from tests.support.proofs import prove_served
from tests.support.serving import Server, serve
from tests.support.sounds import noise, use_ffmpeg, wav
from tests.support.speech_models import make_qwen3_tts

Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
FORMATS: tuple[Format, ...] = ("mp3", "opus", "aac", "flac", "wav", "pcm")
TEXT = "Hello there. This is a test."
SAMPLES = (8 + 8) * 64  # of two short passages of the tiny model
LONG = "This sentence has about forty characters. " * 97


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that finds the model in its folder, and ffmpeg."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_ffmpeg(monkeypatch, tmp_path_factory.mktemp("bin"))
        models = tmp_path_factory.mktemp("models")
        (models / "tiny-tts").mkdir()
        make_qwen3_tts(models / "tiny-tts")
        (models / "copier").mkdir()
        make_qwen3_tts(models / "copier", "base")
        with serve(
            [resolve_model("demo"), *(resolve_model(str(models / name)) for name in ("tiny-tts", "copier"))],
            spare=False,
            max_loaded_models=3,
            voices_dir=str(models / "voices"),
        ) as running:
            yield running


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def _say(client: OpenAI, text: str = TEXT, voice: Any = "ryan", **fields: Any) -> openai.HttpxBinaryResponseContent:
    create: Any = client.audio.speech.create
    said: openai.HttpxBinaryResponseContent = create(**{"model": "tiny-tts", "input": text, "voice": voice, **fields})
    return said


def _decoded(format: Format, data: bytes) -> NDArray[np.int16]:
    raw = ["-f", "s16le", "-ar", str(RATE), "-ac", "1"]
    given = {"pcm": raw, "opus": ["-f", "ogg"]}.get(format, ["-f", format])
    with Ffmpeg([*given, "-i", "pipe:0", *raw, "pipe:1"]) as decoder:
        return np.frombuffer(decoder.feed(data) + b"".join(decoder.read_rest()), np.int16)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_can_be_decoded(client: OpenAI, format: Format, tmp_path: Path) -> None:
    said = _say(client, response_format=format)
    said.write_to_file(tmp_path / "said")
    heard = _decoded(format, (tmp_path / "said").read_bytes())
    if format in ("flac", "wav", "pcm"):
        assert len(heard) == SAMPLES
        assert np.abs(heard).max() > 0
    else:
        assert SAMPLES <= len(heard) <= SAMPLES + RATE / 5


def test_the_default_is_mp3_and_the_body_is_streamed(client: OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tiny-tts", input=TEXT, voice={"id": "vivian"}, instructions="Whisper.", speed=1.5
    ) as response:
        assert response.headers["content-type"] == "audio/mpeg"
        assert "content-length" not in response.headers
        assert len(_decoded("mp3", b"".join(response.iter_bytes()))) >= SAMPLES / 1.5


@pytest.mark.parametrize(("voice", "spoken"), [("alloy", "vivian"), ("Echo", "vivian"), ("ash", "ryan")])
def test_openais_voices_speak_and_a_header_names_the_models(client: OpenAI, voice: str, spoken: str) -> None:
    for stream in ("audio", "sse"):
        with client.audio.speech.with_streaming_response.create(
            model="tiny-tts", input=TEXT, voice=voice, stream_format=stream, response_format="pcm"
        ) as response:
            assert response.headers["x-voice"] == spoken
            assert response.read()


def test_events_carry_the_sound(client: OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tiny-tts", input=TEXT, voice="ryan", response_format="pcm", stream_format="sse"
    ) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        told = [json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line.startswith("data: ")]
    assert [event["type"] for event in told[-2:]] == ["speech.audio.delta", "speech.audio.done"]
    assert len(told) > 2
    assert told[-1]["usage"]["output_tokens"] == 16
    assert told[-1]["usage"]["input_tokens"] > 4


def test_the_first_sound_comes_while_the_rest_is_spoken(server: Server, client: OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tiny-tts", input=LONG, voice="ryan", response_format="pcm"
    ) as response:
        next(response.iter_bytes(1))
        server.until("tiny-tts", running=1, timeout=10)  # the process reports now and then
    # The client has left: nobody speaks for it any more.
    server.until("tiny-tts", running=0, timeout=10)
    assert _say(client, response_format="pcm").content


def test_azure_names_the_model_in_the_address(server: Server) -> None:
    with AzureOpenAI(azure_endpoint=server.url, api_key="none", api_version="2024-10-21", max_retries=0) as client:
        said = client.audio.speech.create(model="tiny-tts", input=TEXT, voice="ryan", response_format="wav")
    assert len(_decoded("wav", said.content)) == SAMPLES


def test_voices_and_models_are_listed(server: Server) -> None:
    every = httpx.get(f"{server.url}/v1/audio/voices").json()
    voice = {"id": "vivian", "object": "audio.voice", "name": "vivian", "model": "tiny-tts"}
    names = [{"id": name, "name": name} for name in ("vivian", "ryan", *OPENAI_VOICES)]
    assert every == {"object": "list", "data": [voice, voice | {"id": "ryan", "name": "ryan"}], "voices": names}
    assert httpx.get(f"{server.url}/v1/audio/voices", params={"model": "tiny-tts"}).json() == every
    refused = httpx.get(f"{server.url}/v1/audio/voices", params={"model": "demo"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "model")
    unknown = httpx.get(f"{server.url}/v1/audio/voices", params={"model": "nobody"})
    assert unknown.status_code == 404
    (model,) = [one for one in httpx.get(f"{server.url}/v1/models").json()["data"] if one["id"] == "tiny-tts"]
    assert model["kind"] == "speech"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"voice": "carl"}, "voice"),
        ({"text": ""}, "input"),
        ({"text": "x" * 4097}, "input"),
        ({"speed": 5}, "speed"),
        ({"response_format": "ogg"}, "response_format"),
        ({"extra_body": {"input": 5}}, "input"),
        ({"extra_body": {"adapters": "poet"}}, "adapters"),
    ],
)
@pytest.mark.parametrize("stream", ["audio", "sse"])
def test_bad_requests_get_a_400_with_the_field(client: OpenAI, fields: dict[str, Any], param: str, stream: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        _say(client, **{"stream_format": stream, **fields})
    assert (refused.value.type, refused.value.param) == ("invalid_request_error", param)


def test_a_model_of_another_kind_is_refused_either_way(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="/v1/chat/completions"):
        client.audio.speech.create(model="demo", input=TEXT, voice="ryan")
    with pytest.raises(openai.BadRequestError, match="/v1/audio/speech"):
        client.chat.completions.create(model="tiny-tts", messages=[{"role": "user", "content": "Hello"}])


def test_a_chat_runs_beside_speech_and_both_are_counted(server: Server, client: OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tiny-tts", input=TEXT, voice="ryan", response_format="pcm"
    ) as response:
        answer = client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "Say hello"}])
        assert len(response.read()) == 2 * SAMPLES
    assert answer.choices[0].message.content
    counted = httpx.get(f"{server.url}/v1/stats").json()["models"]["tiny-tts"]
    assert counted["units"]["seconds of speech"] > 0
    assert counted["tokens"]["prompt"] > 0


RECORDING = ("me.wav", wav(noise(1.2)), "audio/wav")


def test_a_voice_is_made_with_consent_speaks_and_is_deleted(client: OpenAI) -> None:
    consents = client.audio.voice_consents
    consent = consents.create(language="en-US", name="Ann", recording=RECORDING)
    assert (consent.object, consent.language, consent.name) == ("audio.voice_consent", "en-US", "Ann")
    second = consents.create(language="de", name="Bo", recording=RECORDING)
    assert {one.id for one in consents.list(limit=1)} == {consent.id, second.id}, "page by page"
    assert consents.update(consent.id, name="Anna").name == consents.retrieve(consent.id).name == "Anna"
    voice = client.audio.voices.create(
        audio_sample=RECORDING, consent=consent.id, name="Anna", extra_body={"transcript": "Hello"}
    )
    assert (voice.object, voice.type, voice.name) == ("audio.voice", "audio_sample", "Anna")
    assert voice.id in {one["id"] for one in httpx.get(f"{client.base_url}audio/voices").json()["data"]}
    said = _say(client, voice={"id": voice.id}, model="copier", response_format="pcm")
    assert (len(said.content), said.response.headers["x-voice"]) == (2 * SAMPLES, voice.id)
    for fields in ({"model": "copier", "voice": "alloy"}, {"voice": voice.id}):
        with pytest.raises(openai.BadRequestError, match="`voice` can't be served") as refused:
            _say(client, **fields)
        assert refused.value.param == "voice"
    assert consents.delete(consent.id).deleted
    gone = client.audio.voices.delete(voice.id)
    assert (gone.id, gone.deleted, gone.object) == (voice.id, True, "audio.voice.deleted")
    for work in (lambda: client.audio.voices.delete(voice.id), lambda: consents.retrieve(consent.id)):
        with pytest.raises(openai.NotFoundError):
            work()
    with pytest.raises(openai.BadRequestError, match="only copies voices"):
        _say(client, voice=voice.id, model="copier")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"consent": "cons_" + "0" * 24}, "consent"),
        ({"name": ""}, "name"),
        ({"name": "\u202e"}, "name"),
        ({"consent": ""}, "consent"),
        ({"extra_body": {"type": "prompt", "prompt": "A giant"}}, "type"),
        ({"extra_body": {"script_hint": "Hi"}}, "script_hint"),
        ({"audio_sample": ("a.png", b"x", "image/png")}, "audio_sample"),
    ],
)
def test_voices_that_cant_be_made(client: OpenAI, fields: dict[str, Any], param: str) -> None:
    create: Any = client.audio.voices.create
    with pytest.raises(openai.BadRequestError) as refused:
        create(**{"audio_sample": RECORDING, "consent": "cons_1", "name": "Me", **fields})
    assert refused.value.param == param


@pytest.mark.timeout(3600)
async def test_fuzzed_requests(server: Server) -> None:
    sent = sent_to("tiny-tts")
    assert await fuzz(server, sent, 0, ["tiny-tts"]) == {"200": len(sent)}
    assert not (await fuzz(server, (), AMOUNT // 8, ["tiny-tts"]))["left"]


def test_a_worker_that_dies_cuts_the_file_off(server: Server, client: OpenAI) -> None:
    _say(client)
    pid = server.until("tiny-tts", state="ready")["pid"]
    with client.audio.speech.with_streaming_response.create(
        model="tiny-tts", input=LONG, voice="ryan", response_format="pcm"
    ) as response:
        pieces = response.iter_bytes(64)
        next(pieces)
        os.kill(pid, signal.SIGKILL)
        # No client takes it for the whole file.
        with pytest.raises(Exception, match="incomplete chunked read"):
            list(pieces)


def test_the_proof_of_speech_says_that_this_model_draws(server: Server) -> None:
    entry = ModelEntry("tiny-tts", "", None, kind="speech", voices=("ryan",))
    proof = prove_served(server, entry, "speech")
    assert (proof.status, "no seed" in proof.seen) == ("left out", True)
