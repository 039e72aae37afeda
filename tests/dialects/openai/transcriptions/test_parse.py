from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.transcribe import SpeechDetection, Transcribe
from orchard.dialects.openai.transcriptions.encode import TranscriptionCall
from orchard.dialects.openai.transcriptions.parse import parse
from orchard.dialects.openai.transcriptions.schema import TranscriptionBody

FILES = {"file": [MediaPart("audio", "", "file", path="/a")]}


def _parsed(**fields: str | list[str]) -> TranscriptionCall:
    form = {name: [value] if isinstance(value, str) else value for name, value in fields.items()}
    return parse({"model": ["ears"], **form}, FILES, "req_1")


def _task(**fields: Any) -> Transcribe:
    task = _parsed(**fields).request.task
    assert isinstance(task, Transcribe)
    return task


def test_a_bare_form_gets_the_defaults() -> None:
    call = _parsed()
    assert call.request.task == Transcribe("/a")
    assert (call.request.model, call.stream, call.format) == ("ears", False, "json")
    assert (call.granularities, call.media_type) == (("segment",), "application/json")


def test_every_field_is_read_as_clients_write_it() -> None:
    granularities: dict[str, Any] = {"timestamp_granularities[]": ["word", "segment"]}
    granularities["response_format"] = "verbose_json"
    assert _task(**granularities).words
    assert _parsed(**granularities).granularities == ("word", "segment")
    assert _task(response_format="verbose_json", timestamp_granularities="word").words
    assert [_task(response_format=one).timed for one in ("json", "text", "srt", "vtt", "verbose_json")] == [
        False,
        False,
        True,
        True,
        True,
    ]
    task = _task(language="de", prompt="Hallo", temperature="0.5")
    assert (task.language, task.prompt, task.temperature) == ("de", "Hallo", 0.5)
    assert _parsed(stream="true").stream
    assert not _parsed(stream="False").stream
    assert _parsed(response_format="srt").media_type == "text/plain"
    assert _task(language="", prompt="", temperature="").language is None, "an empty field is absent"
    assert _task(nonsense="x").path == "/a"
    assert parse({}, FILES, "r", default="only").request.model == "only"
    assert parse({"model": ["x"]}, FILES, "r", model="deployed").request.model == "deployed"


@pytest.mark.parametrize("format", ["json", "text", "srt", "vtt"])
def test_times_of_segments_may_be_asked_for_in_a_format_without_them(format: str) -> None:
    assert _parsed(**{"response_format": format, "timestamp_granularities[]": "segment"}).format == format


def test_speech_is_looked_for_where_that_is_asked_for() -> None:
    assert _task(chunking_strategy="auto").detection is None
    assert _task(chunking_strategy='{"type": "server_vad"}').detection == SpeechDetection(0.5, 0.3, 0.5)
    bracketed = {"chunking_strategy[type]": "server_vad", "chunking_strategy[threshold]": "0.2"}
    assert _task(**bracketed).detection == SpeechDetection(0.2, 0.3, 0.5)


DIARIZED = {"response_format": "diarized_json"}


def known(*names: str) -> dict[str, Any]:
    return {
        **DIARIZED,
        "known_speaker_names[]": list(names),
        "known_speaker_references[]": [f"data:audio/wav;base64,{number}" for number in range(len(names))],
    }


def test_speakers_are_told_apart_where_that_is_asked_for() -> None:
    task = _task(**DIARIZED, stream="true")
    assert (task.speakers, task.known_speakers, task.timed) == (True, (), False)
    given = _task(**known("Ann", "Bo")).known_speakers
    assert [(one.name, one.sample.url, one.sample.param) for one in given] == [
        ("Ann", "data:audio/wav;base64,0", "known_speaker_references[0]"),
        ("Bo", "data:audio/wav;base64,1", "known_speaker_references[1]"),
    ]
    assert _parsed(**DIARIZED).media_type == "application/json"
    with pytest.raises(OrchardError, match="must not be 'diarized_json' for a translation"):
        parse({"model": ["ears"], "response_format": ["diarized_json"]}, FILES, "r", translate=True)


def test_log_probabilities_are_given_where_they_are_asked_for() -> None:
    assert (_task().logprobs, _task(**{"include[]": "logprobs"}).logprobs, _task(include="logprobs").logprobs) == (
        False,
        True,
        True,
    )


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"temperature": "1.1"}, "temperature", "a number from 0"),
    ({"temperature": "hot"}, "temperature", "got a string"),
    ({"temperature": "true"}, "temperature", "got a string"),
    ({"stream": "maybe"}, "stream", "true or false"),
    ({"response_format": "xml"}, "response_format", "'diarized_json', 'json', 'srt', 'text', 'verbose_json', 'vtt'"),
    ({"response_format": "vtt", "stream": "true"}, "response_format", "for a stream"),
    ({"timestamp_granularities[]": "word"}, "timestamp_granularities", "verbose_json"),
    ({"timestamp_granularities[]": ["segment", "word"], "response_format": "srt"}, "timestamp_granularities", "may"),
    ({"chunking_strategy": "server_vad"}, "chunking_strategy", "must be"),
    ({"chunking_strategy": '{"type": "server_vad", "threshold": 2}'}, "chunking_strategy.threshold", "from 0"),
    ({"chunking_strategy": '{"a":' * 100_000}, "chunking_strategy", "nested too deeply"),
    ({"temperature": "[" * 100_000}, "temperature", "a number from 0 to 1"),
    ({"include[]": "logprobs", "response_format": "verbose_json"}, "include", "if `response_format` is 'json'"),
    ({"include[]": "tokens"}, "include[0]", "'logprobs'"),
    ({"keywords[]": "fox"}, "keywords", "give them in `prompt`"),
    ({"known_speaker_names[]": "Ann"}, "known_speaker_names", "if `response_format` is 'diarized_json'"),
    ({"known_speaker_references[]": "data:,"}, "known_speaker_references", "if `response_format` is"),
    ({**DIARIZED, "known_speaker_names[]": "Ann"}, "known_speaker_references", "a recording for each of"),
    ({**DIARIZED, "known_speaker_references[]": "data:,"}, "known_speaker_references", "0, not 1"),
    ({**known(*"ABCDE")}, "known_speaker_names", "at most 4"),
    ({**known("Ann", "Ann")}, "known_speaker_names", "twice"),
    ({**known("Ann", "\u202e")}, "known_speaker_names", "printable"),
    ({**known(" ")}, "known_speaker_names", "printable"),
    ({**known("A", "x" * 65)}, "known_speaker_names[1]", "64"),
    ({**known("A", "B"), "known_speaker_references[]": ["data:,", "http://a"]}, "known_speaker_references[1]", "data:"),
]


@pytest.mark.parametrize(("fields", "param", "message"), REFUSED)
def test_what_cant_be_served_is_refused(fields: dict[str, Any], param: str, message: str) -> None:
    with pytest.raises(OrchardError) as caught:
        _parsed(**fields)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)
    assert message in caught.value.message


def test_a_form_needs_a_recording() -> None:
    with pytest.raises(OrchardError, match="`file` is required: send the recording as a file of the form") as caught:
        parse({"model": ["ears"], "file": ["https://a/b.wav"]}, {}, "r")
    assert (caught.value.kind, caught.value.param) == ("invalid_request", "file")


NAMES = [*TranscriptionBody.__struct_fields__, "chunking_strategy[type]", "temperature[x]", "include[]", "model[a]"]


@given(st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), st.lists(st.text(max_size=20), max_size=3)))
def test_any_form_is_read_or_refused_as_a_bad_request(fields: dict[str, list[str]]) -> None:
    kinds = set()
    try:
        parse(fields, FILES, "req_1")
    except OrchardError as error:
        kinds.add(error.kind)
    assert kinds <= {"invalid_request"}
