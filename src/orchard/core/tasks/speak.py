"""Speech: what a model is asked to say, and the sound of it."""

from typing import ClassVar, Literal

from msgspec import Struct

from orchard.core.request import Task

SoundFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]

MAX_INPUT_CHARS = 4096
"""The longest text of a request, as in OpenAI's API."""
RATE = 24_000
"""Samples a second of all speech: those of OpenAI's `pcm`, which doesn't name them."""


class Speak(Task, frozen=True, tag="speak"):
    """Say a text of 1 to `MAX_INPUT_CHARS` characters; the answer is `Sound`s, which make one file of the format.

    `voice` None: the model's first one. `instructions` say how to speak.
    `speed` 2 is twice as fast, with the same pitch.
    """

    gives: ClassVar[str] = "speech"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/audio/speech",)
    unit: ClassVar[str] = "seconds of speech"

    text: str
    voice: str | None = None
    instructions: str | None = None
    speed: float = 1.0
    format: SoundFormat = "mp3"


class Sound(Struct, frozen=True, array_like=True):
    """The next bytes of the file."""

    data: bytes
