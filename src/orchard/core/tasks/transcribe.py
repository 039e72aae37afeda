"""Speech to text: how a recording is transcribed, and the results."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Struct

from orchard.core.events import Output, TokenLogprob
from orchard.core.media import MediaPart
from orchard.core.request import LoadOptions, Task
from orchard.core.setting import Name, setting, when_unset

LEAST_REFERENCE_SECONDS, MOST_REFERENCE_SECONDS = 2, 10
"""How long the recording of a known speaker may be, as in OpenAI's API."""


class SpeechDetection(Struct, frozen=True):
    """What counts as speech: audio that is louder than `threshold`, from 0 (the quietest) to 1 (the loudest).

    Speech begins `padding` seconds before such audio, and ends after `silence` seconds without any.
    """

    threshold: float = 0.5
    padding: float = 0.3
    silence: float = 0.5


class KnownSpeaker(Struct, frozen=True):
    """Somebody who may speak in a recording: a name, and a short recording of nobody else."""

    name: str
    sample: MediaPart


class Transcribe(Task, frozen=True, tag="transcribe"):
    """Transcribe a recording in its language or, with `translate`, in English.

    `path` is the file from the field `file` of the request. `language` is a code such as `de` or an English
    name; None: the model detects it. `prompt` is text that may have come before. `temperature` None or 0: greedy, and
    higher if that gives bad text. `words`: give the times of each word. `detection`: transcribe only what is
    detected as speech. `timed`: give the times of each segment, which not all models can. `speakers`: say who speaks
    each segment, by the name of a known speaker or by a letter. `logprobs`: give the log-probability of each token.
    """

    gives: ClassVar[str] = "transcriptions"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/audio/transcriptions", "/v1/audio/translations")
    example: ClassVar[str] = "-F model={name} -F file=@recording.wav"
    unit: ClassVar[str] = "seconds of audio"

    path: str
    language: str | None = None
    translate: bool = False
    prompt: str = ""
    temperature: float | None = None
    words: bool = False
    detection: SpeechDetection | None = None
    timed: bool = False
    speakers: bool = False
    known_speakers: tuple[KnownSpeaker, ...] = ()
    logprobs: bool = False


class TranscribeOptions(LoadOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a transcription model is run."""

    diarizer: Annotated[
        Name | None,
        setting(
            "models",
            "A model that tells speakers apart for a transcription model (`response_format: diarized_json`). A folder "
            "or a Hugging Face id.",
            scope="named",
        ),
        when_unset("no diarizer", example="mlx-community/diar_streaming_sortformer_4spk-v2.1-fp16"),
    ] = None

    most_requests: Annotated[int, Meta(ge=1)] = 256
    """The most requests that take turns, window by window; further ones are rejected."""


class Word(Struct, frozen=True, array_like=True):
    """A word with its punctuation and the space before it; times are in seconds."""

    text: str
    start: float
    end: float


class Segment(Struct, frozen=True, array_like=True, tag="segment"):
    """A piece of a transcription, such as a sentence; times are in seconds.

    `seek` is the beginning of the window that it was found in. `tokens` are empty if the model doesn't give them; the
    numbers below are zero then. `speaker`: who speaks, if the request asks; `logprobs`: of the tokens of its text, too.
    """

    start: float
    end: float
    text: str
    seek: float = 0.0
    tokens: tuple[int, ...] = ()
    temperature: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 0.0
    no_speech_prob: float = 0.0
    words: tuple[Word, ...] = ()
    speaker: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()


class Recording(Struct, frozen=True, array_like=True, tag="recording"):
    """A recording's length in seconds and, if the model tells, its language in English."""

    seconds: float
    language: str | None = None


_decoder: msgspec.msgpack.Decoder[Segment | Recording] = msgspec.msgpack.Decoder(Segment | Recording)


def decode_transcription(output: Output) -> Segment | Recording:
    """Return what an `Output` event of a transcription carries: first the `Recording`, then each `Segment`."""
    return _decoder.decode(output.data)
