"""Speech to text: what a recording is transcribed to, and how."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Struct

from orchard.core.events import Output
from orchard.core.request import LoadOptions, Task


class SpeechDetection(Struct, frozen=True):
    """Where speech is looked for: sound that is louder than `threshold`, from 0 (the quietest) to 1 (the loudest).

    It begins `padding` seconds before such sound, and ends where there was none for `silence` seconds.
    """

    threshold: float = 0.5
    padding: float = 0.3
    silence: float = 0.5


class Transcribe(Task, frozen=True, tag="transcribe"):
    """Write down what is said in a recording, in its language or, with `translate`, in English.

    `path` is the file, which the field `file` of the request held. `language` is a code such as `de` or an English
    name; None: the model finds out. `prompt` is text that may have come before. `temperature` None or 0: greedy, and
    higher where that gives bad text. `words`: say when each word was spoken. `detection`: transcribe only what is
    found to be speech. `timed`: say when each segment was spoken, which not all models can.
    """

    gives: ClassVar[str] = "transcriptions"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/audio/transcriptions", "/v1/audio/translations")
    unit: ClassVar[str] = "seconds of audio"

    path: str
    language: str | None = None
    translate: bool = False
    prompt: str = ""
    temperature: float | None = None
    words: bool = False
    detection: SpeechDetection | None = None
    timed: bool = False


class TranscribeOptions(LoadOptions, frozen=True, kw_only=True):
    """How a transcription model is run."""

    most_requests: Annotated[int, Meta(ge=1)] = 256
    """Requests that are worked on in turn, a window of each; more are refused."""


class Word(Struct, frozen=True, array_like=True):
    """A word with its punctuation and the space before it; times are in seconds."""

    text: str
    start: float
    end: float


class Segment(Struct, frozen=True, array_like=True, tag="segment"):
    """A piece of a transcription, such as a sentence; times are in seconds.

    `seek` is where the window began in which it was found. `tokens` are empty where the model doesn't tell them; the
    numbers below are zero then.
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


class Recording(Struct, frozen=True, array_like=True, tag="recording"):
    """What was found out about a recording: its length in seconds, and its language in English, if the model tells."""

    seconds: float
    language: str | None = None


_decoder: msgspec.msgpack.Decoder[Segment | Recording] = msgspec.msgpack.Decoder(Segment | Recording)


def made(output: Output) -> Segment | Recording:
    """Return what an `Output` event of a transcription carries: first the recording, then segment after segment."""
    return _decoder.decode(output.data)
