"""OpenAI's custom voices: a recording becomes a voice, if another one proves the speaker's consent."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from orchard.core.media import MediaPart
from orchard.dialects.common.fields import Refused
from orchard.dialects.common.form import parse_form_fields
from orchard.dialects.common.json_body import decode_body, invalid_field, refuse_fields

RecordingName = Annotated[str, Meta(min_length=1, max_length=256)]
_DESCRIBED = "voices are made from recordings; models that make them from descriptions take `instructions`"


class VoiceBody(Struct, kw_only=True):
    """The form of a voice, without its file."""

    name: RecordingName
    consent: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    type: Literal["audio_sample"] | None = None
    transcript: Annotated[str, Meta(max_length=4096, description="What the sample says.")] | None = None
    prompt: Refused | None = None
    model: Refused | None = None
    script_hint: Refused | None = None


class ConsentBody(Struct, kw_only=True):
    """The form of a consent, without its file."""

    name: RecordingName
    language: Annotated[str, Meta(min_length=2, max_length=35, pattern=r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$")]


class ConsentUpdate(Struct, kw_only=True):
    """A new name for a consent."""

    name: RecordingName


_voice_decoder = msgspec.json.Decoder(VoiceBody)
_consent_decoder = msgspec.json.Decoder(ConsentBody)
_update_decoder = msgspec.json.Decoder(ConsentUpdate)

Fields = Mapping[str, Sequence[str]]
Files = Mapping[str, Sequence[MediaPart]]


def parse_voice(fields: Fields, files: Files, *, needs_consent: bool) -> tuple[VoiceBody, MediaPart]:
    """Return the form of a voice and its sample. Raise OrchardError (invalid_request)."""
    if (kinds := fields.get("type")) and kinds[-1] == "prompt":
        raise invalid_field("type", f"must be 'audio_sample': {_DESCRIBED}.")
    body = decode_body(_voice_decoder, msgspec.json.encode(parse_form_fields(fields)))
    refuse_fields(body, dict.fromkeys(("prompt", "model", "script_hint"), _DESCRIBED))
    _check_name(body.name)
    if needs_consent and not body.consent:
        message = "is required: the id of a recording that POST /v1/audio/voice_consents has taken. The setting"
        raise invalid_field("consent", f"{message} `require_voice_consent: false` makes it optional.")
    return body, _only_file(files, "audio_sample")


def parse_consent(fields: Fields, files: Files) -> tuple[ConsentBody, MediaPart]:
    """Return the form of a consent and its recording. Raise OrchardError (invalid_request)."""
    body = decode_body(_consent_decoder, msgspec.json.encode(parse_form_fields(fields)))
    _check_name(body.name)
    return body, _only_file(files, "recording")


def parse_consent_update(body: bytes) -> str:
    """Return the new name of a consent. Raise OrchardError (invalid_request)."""
    name = decode_body(_update_decoder, body).name
    _check_name(name)
    return name


def voice_fields(id_: str, name: str, created_at: int) -> dict[str, Any]:
    """Return the object of a voice."""
    return {"id": id_, "object": "audio.voice", "type": "audio_sample", "name": name, "created_at": created_at}


def consent_fields(id_: str, name: str, language: str, created_at: int) -> dict[str, Any]:
    """Return the object of a consent."""
    about = {"name": name, "language": language, "created_at": created_at}
    return {"id": id_, "object": "audio.voice_consent", **about}


def _check_name(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise invalid_field("name", "must be a printable name.")


def _only_file(files: Files, name: str) -> MediaPart:
    if not (found := files.get(name)):
        raise invalid_field(name, "is required: send the recording as a file of the form.")
    return found[0]
