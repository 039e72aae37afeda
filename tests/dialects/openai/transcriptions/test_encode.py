import json
from typing import Any

import pytest
from openai.types.audio import (
    Transcription,
    TranscriptionDiarized,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionTextSegmentEvent,
)

from orchard.core.events import Event, Failed, Finished, Output, Progressed, Started, TokenLogprob, Usage, collect
from orchard.core.request import Request
from orchard.core.tasks.transcribe import Recording, Segment, Transcribe, Word
from orchard.dialects.openai.transcriptions.encode import TranscriptionCall, TranscriptionEncoder

WORD = Word(" <there>", 34.1 + 0.2, 34.5)
SEGMENTS = [
    Segment(0.0, 1.5, " Hello <there>", 0.0, (1, 2), words=(Word(" Hello", 0.0, 0.5), WORD)),
    Segment(3599.9, 3601.0004, " A --> B\n\n & C.", 3599.9, (3,), 0.2, -0.5, 1.2, 0.1),
]
EVENTS: list[Event] = [
    Started(0),
    Output.from_struct(Recording(3602.00049, "english")),
    Progressed(0.0, 3602.0),
    *map(Output.from_struct, SEGMENTS),
    Progressed(3601.0, 3602.0),
    Finished((), Usage(0, 3, units=3602)),
]
TEXT = "Hello <there> A --> B\n\n & C."


def _call(format: str = "json", *granularities: str) -> TranscriptionCall:
    request = Request("req_1", "ears", Transcribe("/a"))
    return TranscriptionCall(request, False, format, False, granularities or ("segment",))


def _whole(format: str, *granularities: str) -> str:
    return _call(format, *granularities).complete(collect(EVENTS)).decode()


def test_json_and_text() -> None:
    usage = {"type": "duration", "seconds": 3602.0}
    assert json.loads(_whole("json")) == {"text": TEXT, "usage": usage}
    assert _whole("text") == TEXT + "\n"


def test_subtitles() -> None:
    assert _whole("srt") == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello <there>\n\n2\n00:59:59,900 --> 01:00:01,000\nA -> B\n & C.\n\n"
    )
    assert _whole("vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello &lt;there>\n\n"
        "00:59:59.900 --> 01:00:01.000\nA -> B\n &amp; C.\n\n"
    )


def test_verbose_json_tells_the_times_that_were_asked_for() -> None:
    whole = json.loads(_whole("verbose_json"))
    about = ("transcribe", "english", 3602.0, TEXT)
    assert (whole["task"], whole["language"], whole["duration"], whole["text"]) == about
    assert "words" not in whole
    assert whole["segments"][1] == {
        "id": 1,
        "seek": 359_990,
        "start": 3599.9,
        "end": 3601.0,
        "text": " A --> B\n\n & C.",
        "tokens": [3],
        "temperature": 0.2,
        "avg_logprob": -0.5,
        "compression_ratio": 1.2,
        "no_speech_prob": 0.1,
    }
    words = json.loads(_whole("verbose_json", "word"))
    assert "segments" not in words
    assert words["words"][1] == {"word": "<there>", "start": 34.3, "end": 34.5}
    assert WORD.start != 34.3


@pytest.mark.parametrize("cut", range(len(EVENTS)))
def test_a_stream_tells_the_same_text_and_how_much_is_done(cut: int) -> None:
    encoder = TranscriptionEncoder(_call())
    sent = encoder.encode(EVENTS[:cut]) + encoder.encode(EVENTS[cut:])
    blocks = sent.decode().split("\n\n")[:-1]
    comments = [block for block in blocks if block.startswith(":")]
    assert comments == [": 0.0 of 3602.0 seconds", ": 3601.0 of 3602.0 seconds"]
    *deltas, done = [json.loads(block.removeprefix("data: ")) for block in blocks if block.startswith("data")]
    assert {one["type"] for one in deltas} == {"transcript.text.delta"}
    assert "".join(one["delta"] for one in deltas) == done["text"] == TEXT
    assert done["type"] == "transcript.text.done"
    for one in deltas:
        TranscriptionTextDeltaEvent.model_validate(one, strict=True)
    assert TranscriptionTextDoneEvent.model_validate(done, strict=True).usage is None


SPOKEN = [
    Segment(0.0, 1.5, " Hello there,", speaker="A"),
    Segment(1.5, 2.25, " Ann.", speaker="Bo", logprobs=(TokenLogprob(" Ann", b" Ann", -0.5),)),
]


def _events(*segments: Segment) -> list[Event]:
    return [
        Started(0),
        Output.from_struct(Recording(3.0)),
        *map(Output.from_struct, segments),
        Finished((), Usage(0, 0)),
    ]


def _spoken_call(format: str, **fields: Any) -> TranscriptionCall:
    return TranscriptionCall(Request("req_1", "ears", Transcribe("/a", **fields)), True, format, False)


def _stream(call: TranscriptionCall) -> list[dict[str, Any]]:
    sent = TranscriptionEncoder(call).encode(_events(*SPOKEN)).decode()
    return [json.loads(block.removeprefix("data: ")) for block in sent.split("\n\n")[:-1]]


def test_who_spoke_is_told_as_the_sdk_types_it() -> None:
    call = _spoken_call("diarized_json", speakers=True)
    whole = json.loads(call.complete(collect(_events(*SPOKEN))))
    found = TranscriptionDiarized.model_validate(whole, strict=True)
    assert (found.task, found.text, found.duration) == ("transcribe", "Hello there, Ann.", 3.0)
    assert [(one.id, one.start, one.end, one.speaker, one.text) for one in found.segments] == [
        ("seg_000", 0.0, 1.5, "A", "Hello there,"),
        ("seg_001", 1.5, 2.25, "Bo", "Ann."),
    ]
    first, one, second, two, done = _stream(call)
    for delta, text, number in ((first, "Hello there,", "seg_000"), (second, " Ann.", "seg_001")):
        told = TranscriptionTextDeltaEvent.model_validate(delta, strict=True)
        assert (told.delta, told.segment_id) == (text, number)
    assert [one, two] == whole["segments"]
    for event in (one, two):
        TranscriptionTextSegmentEvent.model_validate(event, strict=True)
    assert done == {"type": "transcript.text.done", "text": found.text}


def test_log_probabilities_are_told_as_the_sdk_types_them() -> None:
    call = _spoken_call("json", logprobs=True)
    whole = Transcription.model_validate_json(call.complete(collect(_events(*SPOKEN))))
    expected = [{"token": " Ann", "bytes": list(b" Ann"), "logprob": -0.5}]
    assert [one.model_dump() for one in whole.logprobs or ()] == expected
    first, second, done = _stream(call)
    assert (first["logprobs"], second["logprobs"], done["logprobs"]) == ([], expected, expected)
    TranscriptionTextDeltaEvent.model_validate(second, strict=True)
    TranscriptionTextDoneEvent.model_validate(done, strict=True)
    assert "logprobs" not in _whole("json")


def test_a_failure_in_the_middle_is_an_error_object() -> None:
    sent = TranscriptionEncoder(_call()).encode([Failed("worker_crashed", "it died")])
    found: dict[str, Any] = json.loads(sent.removeprefix(b"data: "))
    assert "it died" in found["error"]["message"]
