import json
from typing import Any

import pytest
from openai.types.audio import TranscriptionTextDeltaEvent, TranscriptionTextDoneEvent

from orchard.core.events import Event, Failed, Finished, Output, Progressed, Started, Usage, collect
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


def test_a_failure_in_the_middle_is_an_error_object() -> None:
    sent = TranscriptionEncoder(_call()).encode([Failed("worker_crashed", "it died")])
    found: dict[str, Any] = json.loads(sent.removeprefix(b"data: "))
    assert "it died" in found["error"]["message"]
