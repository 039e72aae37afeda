"""OpenAI's Speech: bodies in, files and server-sent events out."""

import base64
import json
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.events import Failed, Finished, Output, Started, Usage
from orchard.core.request import Request
from orchard.core.tasks.speak import Sound, Speak
from orchard.dialects.openai.speech import SoundFile, SpeechCall, SpeechEvents, parse


def _parsed(**fields: Any) -> SpeechCall:
    body = {"model": "m", "input": "Hello.", "voice": "ann"} | fields
    return parse(json.dumps({name: value for name, value in body.items() if value != ...}).encode(), "req_1")


def _refusal(**fields: Any) -> OrchardError:
    with pytest.raises(OrchardError) as refused:
        _parsed(**fields)
    assert refused.value.kind == "invalid_request"
    return refused.value


def test_a_body_becomes_a_request() -> None:
    call = _parsed(
        voice={"id": "bob"}, instructions="Whisper.", speed=1.5, response_format="flac", stream_format="sse", ttl=60
    )
    task = Speak("Hello.", "bob", "Whisper.", 1.5, "flac")
    assert call == SpeechCall(Request("req_1", "m", task, ttl=60.0), "audio/flac", True)
    assert isinstance(call.encoder(), SpeechEvents)


def test_what_is_absent_null_or_unknown_changes_nothing() -> None:
    bare = _parsed(voice=...)
    assert bare == SpeechCall(Request("req_1", "m", Speak("Hello.")), "audio/mpeg", False)
    absent = dict.fromkeys(("voice", "instructions", "response_format", "speed", "stream_format", "ttl"))
    assert _parsed(**absent, unknown=5) == bare
    assert _parsed(voice=..., instructions="") == bare
    encoder = bare.encoder()
    assert isinstance(encoder, SoundFile)
    assert encoder.media_type == "audio/mpeg"


@pytest.mark.parametrize(
    ("format", "media_type"),
    [
        ("mp3", "audio/mpeg"),
        ("opus", "audio/opus"),
        ("aac", "audio/aac"),
        ("flac", "audio/flac"),
        ("wav", "audio/wav"),
        ("pcm", "audio/pcm"),
    ],
)
def test_each_format_has_openais_type(format: str, media_type: str) -> None:
    assert _parsed(response_format=format).media_type == media_type


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("input", ..., "required"),
        ("input", "", "non-empty"),
        ("input", " \n\t", "white space"),
        ("input", "a" * 4097, "4096"),
        ("input", ["Hello."], "string"),
        ("input", None, "string"),
        ("voice", "", "non-empty"),
        ("voice", 5, "voice"),
        ("voice", {}, "id"),
        ("instructions", "a" * 4097, "4096"),
        ("response_format", "ogg", "'mp3'"),
        ("speed", 0.2, "0.25"),
        ("speed", 4.1, "4"),
        ("speed", "fast", "number"),
        ("stream_format", "ndjson", "'sse'"),
        ("model", ..., "required"),
    ],
)
def test_what_is_wrong_is_said_with_its_field_and_its_range(field: str, value: Any, said: str) -> None:
    refused = _refusal(**{field: value})
    assert (refused.param or "").startswith(field)
    assert said in refused.message


def test_4096_characters_are_not_too_many() -> None:
    task = _parsed(input="ü" * 4096).request.task
    assert isinstance(task, Speak)
    assert len(task.text) == 4096


def test_a_file_is_the_pieces() -> None:
    encoder = SoundFile("audio/wav")
    assert encoder.encode([Started(3), Output.from_struct(Sound(b"RI")), Output.from_struct(Sound(b"FF"))]) == b"RIFF"
    assert encoder.encode([Finished(("stop",), Usage(3, 5))]) == b""


def _events(data: bytes) -> list[Any]:
    return [json.loads(event.removeprefix(b"data: ")) for event in data.split(b"\n\n")[:-1]]


def test_events_carry_the_pieces_and_the_usage() -> None:
    encoder = SpeechEvents()
    told = encoder.encode([Started(3), Output.from_struct(Sound(b"\x00\xff"))]) + encoder.encode(
        [Output.from_struct(Sound(b"end")), Finished(("stop",), Usage(3, 5))]
    )
    assert _events(told) == [
        {"type": "speech.audio.delta", "audio": base64.b64encode(b"\x00\xff").decode()},
        {"type": "speech.audio.delta", "audio": base64.b64encode(b"end").decode()},
        {"type": "speech.audio.done", "usage": {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}},
    ]


def test_a_failure_is_an_error_object() -> None:
    (told,) = _events(SpeechEvents().encode([Failed("internal", "speaking failed")]))
    assert told["error"]["message"] == "speaking failed"
    assert told["error"]["type"] == "server_error"
