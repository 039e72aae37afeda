"""Speech: a text to speak, and its audio."""

from typing import ClassVar, Literal

from msgspec import Struct

from orchard.core.request import Task

SoundFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]

MAX_INPUT_CHARS = 4096
"""The longest text of a request in characters, as in OpenAI's API."""
RATE = 24_000
"""The sample rate of all speech in Hz. It is that of OpenAI's `pcm`, whose files don't contain a rate."""


class Speak(Task, frozen=True, tag="speak"):
    """Speak a text of 1 to `MAX_INPUT_CHARS` characters. The answer is `Sound`s, which make one file of the format.

    `voice` None: the model's first one. `instructions` describe how to speak. `speed` 2 is twice as fast, at the same
    pitch.
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
