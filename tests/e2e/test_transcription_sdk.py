"""Recordings through OpenAI's SDKs and a real server with tiny random models, one of which chats meanwhile."""

import base64
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from openai import AzureOpenAI, OpenAI
from openai.types.audio import TranscriptionDiarized

from orchard.core.tasks.transcribe import TranscribeOptions
from orchard.gateway.models.registry import resolve_model
from tests.support.diarizer_models import make_sortformer
from tests.support.forms import SentForm, forms
from tests.support.fuzzing import AMOUNT, Call, check_error
from tests.support.gateway_client import body
from tests.support.serving import FAKE, Server, serve
from tests.support.sounds import encoded, noise, program_called, use_ffmpeg, wav
from tests.support.whisper_models import MULTILINGUAL, make_whisper

SOUND = wav(noise(1))
TWO_WINDOWS = wav(noise(31))
LIMIT = 2_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("transcription")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    folders = [
        make_whisper(folder / "ears"),
        make_whisper(folder / "many-ears", size=MULTILINGUAL, layout="npz", words=False),  # as mlx-examples writes it
    ]
    models = [resolve_model(str(one)) for one in folders]
    diarizer = str(make_sortformer(folder / "diarizer", only=2))
    models.append(structs.replace(models[0], id="meeting", options=TranscribeOptions(diarizer=diarizer)))
    (folder / "bin").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        use_ffmpeg(patch, folder / "bin")
        env = {"ORCHARD_CACHE_DIR": str(folder / "cache"), "PATH": os.environ["PATH"]}
        limits: dict[str, Any] = {"max_upload_bytes": LIMIT, "max_loaded_models": 4, "watchdog_timeout": 4}
        with serve([*models, FAKE], spare=False, env=env, **limits) as running:
            yield running


@pytest.fixture(autouse=True)
def _nothing_is_left(folder: Path) -> Iterator[None]:
    yield
    _wait_until_nothing_is_left(folder)


def _wait_until_nothing_is_left(folder: Path) -> None:
    deadline = time.monotonic() + 30  # a client that has left is noticed a moment later
    while _uploads(folder):
        assert time.monotonic() < deadline, "an upload is left on the disk"
        time.sleep(0.02)


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=100) as client:
        yield client


@pytest.fixture(scope="module")
def forms_client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def _uploads(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "cache" / "uploads").glob("*/*") if path.name != "lock")


def _transcribe(client: OpenAI, sound: bytes = SOUND, **fields: Any) -> Any:
    given: dict[str, Any] = {"model": "ears", "file": ("sound.wav", sound), "temperature": 0.01, **fields}
    return client.audio.transcriptions.create(**given)


def _units(server: Server) -> float:
    """Return how many seconds of audio the model has read."""
    units: dict[str, float] = httpx.get(f"{server.url}/v1/stats").json()["models"]["ears"]["units"]
    return units.get("seconds of audio", 0.0)


def test_they_are_listed_as_models_of_transcription(server: Server) -> None:
    listed = httpx.get(f"{server.url}/v1/models").json()["data"]
    assert {one["id"] for one in listed if one["kind"] == "transcription"} == {"ears", "many-ears", "meeting"}


def test_each_format_tells_the_same(client: OpenAI) -> None:
    whole = _transcribe(client, TWO_WINDOWS, response_format="verbose_json")
    assert (whole.duration, whole.language, whole.words) == (31.0, "english", None)
    assert len(whole.segments) >= 2
    assert whole.text == "".join(segment.text for segment in whole.segments).strip()
    srt = _transcribe(client, TWO_WINDOWS, response_format="srt")
    assert len(re.findall(r"^\d\d:\d\d:\d\d,\d{3} --> \d\d:\d\d:\d\d,\d{3}$", srt, re.MULTILINE)) == len(whole.segments)
    with client.audio.transcriptions.create(
        model="ears", file=("sound.wav", TWO_WINDOWS), temperature=0.01, stream=True
    ) as stream:
        events = list(stream)
    assert [event.type for event in events[:-1]] == ["transcript.text.delta"] * (len(events) - 1)
    assert len(events) > 2
    assert events[-1].type == "transcript.text.done"
    assert "".join(event.delta for event in events[:-1]) == events[-1].text  # type: ignore[union-attr]
    assert events[-1].text.strip() == whole.text
    plain = _transcribe(client)
    assert (bool(plain.text), plain.usage.seconds) == (True, 1.0)
    assert _transcribe(client, response_format="text") == plain.text + "\n"
    vtt = _transcribe(client, response_format="vtt")
    assert vtt.startswith("WEBVTT\n\n00:00:")
    assert plain.text in vtt


def _as_url(sound: bytes) -> str:
    return f"data:audio/wav;base64,{base64.b64encode(sound).decode()}"


def test_who_speaks_is_told_whole_and_streamed(client: OpenAI) -> None:
    diarized: dict[str, Any] = {"model": "meeting", "response_format": "diarized_json"}
    whole = _transcribe(client, TWO_WINDOWS, **diarized)
    assert isinstance(whole, TranscriptionDiarized)
    assert (whole.task, whole.duration, len(whole.segments) > 1) == ("transcribe", 31.0, True)
    assert {segment.speaker for segment in whole.segments} == {"A"}
    times = [time for segment in whole.segments for time in (segment.start, segment.end)]
    assert times == sorted(times)
    events = list(_transcribe(client, TWO_WINDOWS, stream=True, **diarized))
    segments = [event for event in events if event.type == "transcript.text.segment"]
    assert [(segment.id, segment.speaker) for segment in segments] == [
        (f"seg_{number:03}", "A") for number in range(len(segments))
    ]
    deltas = [event for event in events if event.type == "transcript.text.delta"]
    assert [delta.segment_id for delta in deltas] == [segment.id for segment in segments]
    assert "".join(delta.delta for delta in deltas) == events[-1].text
    assert _transcribe(client, model="meeting").text == _transcribe(client).text


def test_known_speakers_have_their_names_or_the_request_fails(client: OpenAI) -> None:
    sample = _as_url(wav(noise(9.9, 48_000), 48_000))
    fields: dict[str, Any] = {"model": "meeting", "response_format": "diarized_json"}
    found = _transcribe(client, known_speaker_names=["Ann"], known_speaker_references=[sample], **fields)
    assert {segment.speaker for segment in found.segments} == {"Ann"}
    two: dict[str, Any] = {**fields, "known_speaker_names": ["Ann", "Bo"]}
    for references, param in (([sample] * 2, ""), ([sample, _as_url(b"x")], "[1]"), ([sample, "data:,x"], "[1]")):
        with pytest.raises(openai.BadRequestError) as raised:
            _transcribe(client, known_speaker_references=references, **two)
        assert raised.value.param == f"known_speaker_references{param}"
    with pytest.raises(openai.BadRequestError, match="The setting `diarizer` of the model names a model that does"):
        _transcribe(client, response_format="diarized_json")


def test_log_probabilities_of_tokens(client: OpenAI) -> None:
    answer = _transcribe(client, include=["logprobs"])
    tokens = b"".join(bytes(map(int, one.bytes)) for one in answer.logprobs)
    assert tokens.decode(errors="replace").strip() == answer.text
    assert all(one.logprob <= 0 for one in answer.logprobs)
    *deltas, done = _transcribe(client, include=["logprobs"], stream=True)
    assert [one.logprob for delta in deltas for one in delta.logprobs] == [one.logprob for one in done.logprobs]


@pytest.mark.parametrize("model", ["ears", "many-ears"])
def test_a_silent_recording_has_no_text(client: OpenAI, model: str) -> None:
    silent = wav(noise(31) * 0)
    answer = _transcribe(client, silent, model=model)
    assert (answer.text, answer.usage.seconds) == ("", 31.0)
    whole = _transcribe(client, silent, model=model, response_format="verbose_json", language="en")
    assert (whole.text, whole.duration, whole.segments, whole.language) == ("", 31.0, [], "english")
    bodies = [_transcribe(client, silent, model=model, response_format=format) for format in ("text", "srt", "vtt")]
    assert bodies == ["\n", "", "WEBVTT\n\n"]
    with client.audio.transcriptions.create(model=model, file=("silent.wav", silent), stream=True) as stream:
        assert [event.to_dict() for event in stream] == [{"type": "transcript.text.done", "text": ""}]


def test_words_are_timed_and_other_options_are_taken(client: OpenAI) -> None:
    timed = _transcribe(
        client,
        wav(noise(0.5)),
        response_format="verbose_json",
        timestamp_granularities=["word"],
        language="en",
        prompt="Hello",
        chunking_strategy={"type": "server_vad", "threshold": 0.3},
    )
    assert timed.segments is None
    assert timed.words
    starts = [word.start for word in timed.words]
    assert 0 <= starts[0] <= starts[-1] <= 0.5
    assert _transcribe(client, wav(noise(0.5)), chunking_strategy="auto").text


def test_compressed_recordings_are_read_with_and_without_ffmpeg(client: OpenAI) -> None:
    for arguments in (("-f", "mp3"), ("-f", "flac"), ("-f", "ogg", "-c:a", "libopus"), ("-f", "webm"), ("-f", "mp4")):
        found = _transcribe(client, encoded(wav(noise(2)), *arguments), response_format="verbose_json")
        assert found.duration == pytest.approx(2, abs=0.1), arguments


def test_a_language_is_detected_or_given_and_speech_is_translated(client: OpenAI) -> None:
    detected = _transcribe(client, model="many-ears", response_format="verbose_json")
    assert detected.language not in ("en", "english")
    given = _transcribe(client, model="many-ears", response_format="verbose_json", language="de")
    assert given.language == "german"
    with pytest.deprecated_call():  # the SDK points at other models
        translated = client.audio.translations.create(
            model="many-ears", file=("a.wav", SOUND), temperature=0.01, response_format="verbose_json"
        )
    assert translated.model_dump()["task"] == "translate"
    assert translated.text != detected.text
    with pytest.deprecated_call(), pytest.raises(openai.BadRequestError, match="knows only English"):
        client.audio.translations.create(model="ears", file=("a.wav", SOUND))


def test_azures_addresses(server: Server) -> None:
    with AzureOpenAI(azure_endpoint=server.url, api_version="2025-04-01", api_key="any", max_retries=0) as azure:
        found = azure.audio.transcriptions.create(model="ears", file=("a.wav", SOUND), temperature=0.01)
        assert found.text
        with pytest.deprecated_call(), pytest.raises(openai.BadRequestError, match="English") as caught:
            azure.audio.translations.create(model="ears", file=("a.wav", SOUND))
        assert caught.value.code == "BadRequest"


BAD: dict[str, tuple[dict[str, Any], int, str | None]] = {
    "an empty file": ({"sound": b""}, 400, "file"),
    "a picture": ({"sound": b"\x89PNG\r\n\x1a\n" + bytes(100)}, 400, "file"),
    "a truncated WAV file": ({"sound": SOUND[:-1000]}, 400, "file"),
    "a broken FLAC file": ({"sound": b"fLaC" + bytes(range(200))}, 400, "file"),
    "a playlist": ({"sound": b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n"}, 400, "file"),
    "a file over the limit": ({"sound": bytes(LIMIT + 1)}, 413, "file"),
    "a chat model": ({"model": "fake"}, 400, "model"),
    "an unknown model": ({"model": "nobody"}, 404, "model"),
    "an unknown language": ({"language": "klingon"}, 400, "language"),
    "another format": ({"response_format": "diarized_json"}, 400, "response_format"),
    "a stream with timestamps": ({"response_format": "srt", "stream": True}, 400, "response_format"),
    "a hot temperature": ({"temperature": 1.5}, 400, "temperature"),
    "times of letters": (
        {"response_format": "verbose_json", "timestamp_granularities": ["letter"]},
        400,
        "timestamp_granularities[0]",
    ),
    "times in plain text": ({"timestamp_granularities": ["word"]}, 400, "timestamp_granularities"),
    "another chunking": ({"chunking_strategy": {"type": "semantic"}}, 400, "chunking_strategy.type"),
    "log-probabilities": ({"include": ["logprobs"], "response_format": "text"}, 400, "include"),
    "an adapter": ({"extra_body": {"adapters": "poet"}}, 400, "adapters"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(client: OpenAI, name: str) -> None:
    fields, status, param = BAD[name]
    with pytest.raises(openai.APIStatusError) as caught:
        _transcribe(client, **fields)
    assert caught.value.status_code == status, caught.value.message
    assert caught.value.body["param"] == param  # type: ignore[index]


def test_a_body_that_is_no_form_and_one_without_a_file(server: Server) -> None:
    url = f"{server.url}/v1/audio/transcriptions"
    refused = httpx.post(url, json={"model": "ears"}, timeout=60)
    assert (refused.status_code, "multipart/form-data" in refused.json()["error"]["message"]) == (400, True)
    refused = httpx.post(url, files={"model": (None, "ears")}, timeout=60)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "file")


def _short_recordings() -> list[bytes]:
    samples = noise(0.2)
    return [
        wav(samples),
        wav(samples[::2], 8000),
        *(encoded(wav(samples), "-f", name) for name in ("mp3", "flac", "ogg")),
    ]


# tests/gateway/media/test_uploads.py sends such forms to the part that reads them.
@pytest.mark.deep
@pytest.mark.timeout(3600)
@settings(max_examples=AMOUNT // 16)
@given(st.deferred(lambda: forms(_short_recordings())))
def test_fuzzed_forms(forms_client: httpx.Client, folder: Path, sent: SentForm) -> None:
    call = Call("POST", "/v1/audio/transcriptions", {"content-type": sent.kind}, None)
    headers = {b"content-type": sent.kind.encode("latin-1")}
    answer = forms_client.post(call.path, content=iter(sent.pieces), headers=headers)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        check_error(call, answer)
    assert forms_client.get("/health").json()["models"]["ears"]["restarts"] == 0
    _wait_until_nothing_is_left(folder)


def test_a_client_that_leaves_ends_the_work_and_progress_is_told(client: OpenAI, server: Server) -> None:
    with client.audio.transcriptions.with_streaming_response.create(
        model="ears", file=("a.wav", wav(noise(240, 4_000), 4_000)), stream=True
    ) as stream:
        comments = (line for line in stream.iter_lines() if line.startswith(": "))
        assert re.fullmatch(r": \d+\.0 of 240\.0 seconds", next(comments))
        next(comments)
        assert server.until("ears", running=1)["percent"] is not None
        note = httpx.get(f"{server.url}/v1/stats").json()["models"]["ears"]["note"]  # which the terminal shows
        assert re.fullmatch(r"\d+ of 240 seconds of audio", note)
    assert server.until("ears", running=0)["percent"] is None


def test_a_chat_goes_on_meanwhile(client: OpenAI, server: Server) -> None:
    with client.audio.transcriptions.create(model="ears", file=("a.wav", SOUND), stream=True) as stream:
        next(iter(stream))
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=body(text="tick", pieces=3), timeout=60)
    assert answer.json()["choices"][0]["message"]["content"] == "tick" * 3


def test_a_worker_that_hangs_is_killed_and_the_next_one_answers(client: OpenAI, server: Server, folder: Path) -> None:
    before = {name: server.until(name, state="ready")["pid"] for name in ("ears", "fake")}
    real = (folder / "bin" / "ffmpeg").rename(folder / "real-ffmpeg")
    # It says something again and again until nobody listens, but never brings a sample.
    hangs = f'mkdir {folder}/hung || exec {real} "$@"\nexec >&2\nwhile echo wait; do sleep 0.2; done'
    program_called(folder / "bin", "ffmpeg", hangs)
    found = _transcribe(client, encoded(SOUND, "-f", "ogg", "-c:a", "libopus"), response_format="verbose_json")
    assert found.duration == pytest.approx(1, abs=0.1)
    after = server.health("ears")
    assert (after["restarts"], after["pid"] != before["ears"]) == (1, True)
    assert server.health("fake")["pid"] == before["fake"]


def test_what_a_killed_server_left_is_deleted_by_the_next(tmp_path: Path) -> None:
    env = {"ORCHARD_CACHE_DIR": str(tmp_path / "cache")}
    with serve(env=env) as first, httpx.Client() as client:

        def pieces() -> Iterator[bytes]:
            yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n' + bytes(2_000_000)
            while not _uploads(tmp_path):
                yield bytes(1000)
            os.kill(first.process.pid, signal.SIGKILL)
            first.process.wait()
            yield bytes(1000)

        headers = {"content-type": "multipart/form-data; boundary=x"}
        with pytest.raises(httpx.TransportError):
            client.post(f"{first.url}/v1/audio/transcriptions", content=pieces(), headers=headers)
    assert len(_uploads(tmp_path)) == 1
    with serve(env=env) as second:
        second.health()
        assert os.listdir(tmp_path / "cache" / "uploads") == ["lock"]


def test_the_list_shows_the_kind_and_a_wrong_address_names_the_right_ones(client: OpenAI, server: Server) -> None:
    kinds = {model["id"]: model["kind"] for model in httpx.get(f"{server.url}/v1/models").json()["data"]}
    assert kinds["ears"] == "transcription"
    with pytest.raises(openai.BadRequestError, match=re.escape("/v1/audio/transcriptions, /v1/audio/translations")):
        client.chat.completions.create(model="ears", messages=[{"role": "user", "content": "Hi"}])
    before = _units(server)
    _transcribe(client)
    assert _units(server) == before + 1
