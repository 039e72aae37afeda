"""The form of OpenAI's Transcriptions and Translations, without its file."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from orchard.dialects.common.fields import BodyType, Refused, ServingFields

Format = Literal["json", "text", "srt", "verbose_json", "vtt", "diarized_json"]


SpeakerName = Annotated[str, Meta(min_length=1, max_length=64)]
MOST_KNOWN_SPEAKERS = 4
"""As many as in OpenAI's API."""


class ServerVad(Struct, kw_only=True):
    """How speech is detected before it is transcribed; times are in milliseconds."""

    type: Literal["server_vad"]
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.5
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=10_000)] = 300
    silence_duration_ms: Annotated[int, Meta(ge=0, le=10_000)] = 500


class TranscriptionBody(ServingFields, kw_only=True):
    """A request to transcribe or to translate a recording."""

    language: Annotated[str, Meta(max_length=64)] | None = None
    prompt: Annotated[str, Meta(max_length=65_536)] | None = None
    response_format: Format | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    timestamp_granularities: Annotated[list[Literal["word", "segment"]], Meta(max_length=2)] | None = None
    stream: bool | None = None
    chunking_strategy: Literal["auto"] | ServerVad | None = None
    include: Annotated[list[Literal["logprobs"]], Meta(max_length=1)] | None = None
    known_speaker_names: Annotated[list[SpeakerName], Meta(min_length=1, max_length=MOST_KNOWN_SPEAKERS)] | None = None
    known_speaker_references: Annotated[list[str], Meta(max_length=MOST_KNOWN_SPEAKERS)] | None = None
    keywords: Refused | None = None
    languages: Refused | None = None


BODY = BodyType(TranscriptionBody, model_kind="transcription model")
