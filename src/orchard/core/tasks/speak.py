"""Speech: a text to speak, and its audio."""

from typing import Annotated, ClassVar, Literal

from msgspec import Struct, field

from orchard.core.request import JSON_BODY, LoadOptions, Task
from orchard.core.setting import setting, value_kind, when_unset

SoundFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]

MAX_INPUT_CHARS = 4096
"""The longest text of a request in characters, as in OpenAI's API."""
RATE = 24_000
"""The sample rate of all speech in Hz. It is that of OpenAI's `pcm`, whose files don't contain a rate."""


class VoiceSample(Struct, frozen=True):
    """A recording whose voice is to be copied: a WAV file with one channel at `RATE`, and what it says, if known."""

    sound: bytes
    transcript: str | None = None


class Speak(Task, frozen=True, tag="speak"):
    """Speak a text of 1 to `MAX_INPUT_CHARS` characters. The answer is `Sound`s, which together are one file.

    `voice`: see `core.voices`; None: the model's first one. `instructions` describe how to speak. `speed` 2 is twice as
    fast, at the same pitch. `sample`: the recording of the voice, if `voice` is the id of one that the caller has made.
    """

    gives: ClassVar[str] = "speech"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/audio/speech",)
    example: ClassVar[str] = JSON_BODY + """ '{"model": {name}, "input": "Hello"}' -o hello.mp3"""
    unit: ClassVar[str] = "seconds of speech"

    text: str
    voice: str | None = None
    instructions: str | None = None
    speed: float = 1.0
    format: SoundFormat = "mp3"
    sample: VoiceSample | None = None


class Sound(Struct, frozen=True, array_like=True):
    """The next bytes of the file."""

    data: bytes


class SpeechOptions(LoadOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a speech model is run."""

    voices: Annotated[
        dict[str, str],
        value_kind("voices"),
        setting(
            "models",
            "More names of a speech model's voices, each with one of the model's voices or, if its voice is a "
            "description, with a description.",
            scope="entry",
        ),
        when_unset(example="{alloy: ryan}"),
    ] = field(default_factory=dict)
