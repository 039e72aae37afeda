"""Parse OpenAI's Transcriptions and Translations: turn a form into a request."""

from collections.abc import Mapping, Sequence

import msgspec

from orchard.core.media import MediaPart, is_data_url
from orchard.core.tasks.transcribe import KnownSpeaker, SpeechDetection, Transcribe
from orchard.dialects.common.fields import header_priority, make_request
from orchard.dialects.common.form import parse_form_fields
from orchard.dialects.common.json_body import invalid_field, refuse_fields
from orchard.dialects.openai.transcriptions.encode import TranscriptionCall
from orchard.dialects.openai.transcriptions.schema import BODY, ServerVad, TranscriptionBody

_LISTS = (
    "timestamp_granularities",
    "include",
    "keywords",
    "languages",
    "known_speaker_names",
    "known_speaker_references",
)
_NUMBERS = ("temperature", "ttl", "threshold", "prefix_padding_ms", "silence_duration_ms")
_TIMED_FORMATS = ("srt", "vtt", "verbose_json")
_STREAMED_FORMATS = (None, "json", "text", "diarized_json")
_UNSUPPORTED = {
    "keywords": "give them in `prompt`",
    "languages": "give one `language`, or none, and the model finds out",
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
    _check_transcription(body, translate)
    task = Transcribe(
        recordings[0].path,
        body.language or None,
        translate,
        body.prompt or "",
        body.temperature,
        "word" in (body.timestamp_granularities or ()),
        _detection(body),
        body.response_format in _TIMED_FORMATS,
        body.response_format == "diarized_json",
        _known_speakers(body),
        bool(body.include),
    )
    request = make_request(body, request_id, task, header_priority(priority))
    return TranscriptionCall(
        request,
        bool(body.stream),
        body.response_format or "json",
        translate,
        tuple(body.timestamp_granularities or ["segment"]),
    )


def _check_transcription(body: TranscriptionBody, translate: bool) -> None:
    """Reject fields that can't be combined."""
    if translate and body.response_format == "diarized_json":
        raise invalid_field("response_format", "must not be 'diarized_json' for a translation.")
    if body.stream and body.response_format not in _STREAMED_FORMATS:
        raise invalid_field("response_format", "must be 'json', 'text' or 'diarized_json' for a stream.")
    if body.include and body.response_format not in (None, "json"):
        raise invalid_field("include", "may only have 'logprobs' if `response_format` is 'json'.")
    if "word" in (body.timestamp_granularities or ()) and body.response_format != "verbose_json":
        raise invalid_field("timestamp_granularities", "may only have 'word' if `response_format` is 'verbose_json'.")


def _detection(body: TranscriptionBody) -> SpeechDetection | None:
    found = body.chunking_strategy
    if not isinstance(found, ServerVad):
        return None
    return SpeechDetection(found.threshold, found.prefix_padding_ms / 1000, found.silence_duration_ms / 1000)


def _known_speakers(body: TranscriptionBody) -> tuple[KnownSpeaker, ...]:
    """Return the known speakers. Raise OrchardError (invalid_request) if names and recordings don't match."""
    names, references = body.known_speaker_names or [], body.known_speaker_references or []
    field = "known_speaker_names" if names else "known_speaker_references"
    if (names or references) and body.response_format != "diarized_json":
        raise invalid_field(field, "may only be given if `response_format` is 'diarized_json'.")
    if len(names) != len(references):
        message = f"must have a recording for each of `known_speaker_names`: {len(names)}, not {len(references)}."
        raise invalid_field("known_speaker_references", message)
    if not all(name.strip() and name.isprintable() for name in names):
        raise invalid_field("known_speaker_names", "must be printable names.")
    if len(set(names)) < len(names):
        raise invalid_field("known_speaker_names", "must not have a name twice.")
    for number, reference in enumerate(references):
        if not is_data_url(reference):
            message = "must be a data: URL with a recording, such as 'data:audio/wav;base64,UklGR...'."
            raise invalid_field(f"known_speaker_references[{number}]", message)
    return tuple(
        KnownSpeaker(name, MediaPart("audio", reference, f"known_speaker_references[{number}]"))
        for number, (name, reference) in enumerate(zip(names, references, strict=True))
    )
