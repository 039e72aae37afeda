"""Parse OpenAI's Transcriptions and Translations: turn a form into a request."""

from collections.abc import Mapping, Sequence

import msgspec

from orchard.core.media import MediaPart
from orchard.core.tasks.transcribe import SpeechDetection, Transcribe
from orchard.dialects.common.fields import header_priority, make_request
from orchard.dialects.common.form import parse_form_fields
from orchard.dialects.common.json_body import invalid_field, refuse_fields
from orchard.dialects.openai.transcriptions.encode import TranscriptionCall
from orchard.dialects.openai.transcriptions.schema import BODY, ServerVad, TranscriptionBody

_LISTS = ("timestamp_granularities", "include", "keywords", "languages", "known_speaker_names")
_NUMBERS = ("temperature", "ttl", "threshold", "prefix_padding_ms", "silence_duration_ms")
_TIMED_FORMATS = ("srt", "vtt", "verbose_json")
_UNSUPPORTED = {
    "include": "no model here tells log-probabilities of a transcription",
    "keywords": "give them in `prompt`",
    "languages": "give one `language`, or none, and the model finds out",
    "known_speaker_names": "speakers are not told apart",
    "known_speaker_references": "speakers are not told apart",
}


def parse(
    fields: Mapping[str, Sequence[str]],
    files: Mapping[str, Sequence[MediaPart]],
    request_id: str,
    priority: str | None = None,
    *,
    translate: bool = False,
    model: str | None = None,
    default: str | None = None,
) -> TranscriptionCall:
    """Return the call of a form.

    Raise OrchardError (invalid_request), whose `param` names the field to blame.
    """
    form = parse_form_fields(fields, numbers=_NUMBERS, lists=_LISTS, objects=("chunking_strategy",))
    body = BODY.decode(msgspec.json.encode(form), model, default)
    if not (recordings := files.get("file")):
        raise invalid_field("file", "is required: send the recording as a file of the form.")
    refuse_fields(body, _UNSUPPORTED)
    _check_transcription(body)
    task = Transcribe(
        recordings[0].path,
        body.language or None,
        translate,
        body.prompt or "",
        body.temperature,
        "word" in (body.timestamp_granularities or ()),
        _detection(body),
        body.response_format in _TIMED_FORMATS,
    )
    request = make_request(body, request_id, task, header_priority(priority))
    return TranscriptionCall(
        request,
        bool(body.stream),
        body.response_format or "json",
        translate,
        tuple(body.timestamp_granularities or ["segment"]),
    )


def _check_transcription(body: TranscriptionBody) -> None:
    """Reject fields that can't be combined."""
    if body.stream and body.response_format not in (None, "json", "text"):
        raise invalid_field("response_format", "must be 'json' or 'text' for a stream, which has no timestamps.")
    if "word" in (body.timestamp_granularities or ()) and body.response_format != "verbose_json":
        raise invalid_field("timestamp_granularities", "may only have 'word' if `response_format` is 'verbose_json'.")


def _detection(body: TranscriptionBody) -> SpeechDetection | None:
    found = body.chunking_strategy
    if not isinstance(found, ServerVad):
        return None
    return SpeechDetection(found.threshold, found.prefix_padding_ms / 1000, found.silence_duration_ms / 1000)
