"""The interface of speech models, and what their classes share."""

import contextlib
import io
from collections.abc import Generator, Iterable, Iterator, Sequence
from math import gcd
from typing import Any, Literal, NamedTuple, Protocol

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from orchard.core.errors import OrchardError
from orchard.core.tasks.speak import RATE

Instructions = Literal["refused", "optional", "voice"]
"""What a model does with instructions; "voice": they describe its voice, and it can't speak without them."""

PIECE_SECONDS = 0.5
"""The length of a piece, for models that make the sound of a passage in pieces."""
# These limit a passage's audio: a model may never stop. The slowest speech, in Chinese, needs half as much.
_LEAST_SECONDS, _SECONDS_PER_CHAR = 8.0, 0.5


class SpeechPiece(NamedTuple):
    """A piece of audio, in [-1, 1] at `RATE`, and the number of the model's tokens that it was made from."""

    sound: NDArray[np.float32]
    tokens: int


class SampleVoice(NamedTuple):
    """A voice to copy: its sound, in [-1, 1] at `RATE`, and what it says, if known."""

    sound: NDArray[np.float32]
    transcript: str | None

    def at_rate(self, rate: int) -> mx.array:
        """Return its samples, `rate` a second."""
        return mx.array(_resample(self.sound, RATE, rate))

    @property
    def words(self) -> str:
        """What it says. Raise OrchardError("invalid_request") if nobody has told."""
        if self.transcript is None:
            message = "this model copies a voice only if the `transcript` of its sample was given"
            raise OrchardError("invalid_request", message, param="voice")
        return self.transcript


class Speaker(Protocol):
    """A loaded speech model. Only the thread that owns MLX uses it."""

    voices: Sequence[str]
    """The first voice is the default. If there are none, it only copies voices."""
    instructions: Instructions
    copies: bool
    """Whether it copies voices of recordings."""

    def count_tokens(self, text: str) -> int:
        """Return the number of a text's tokens."""
        ...

    def say(self, passage: str, voice: str | SampleVoice, instructions: str | None) -> Generator[SpeechPiece]:
        """Yield the audio of a passage; make each piece when the caller asks for it."""
        ...


def most_frames(passage: str, frame_rate: float, most_seconds: float = float("inf")) -> int:
    """Return the most frames of audio for a passage: it may never end, and have at most `most_seconds`."""
    return int(frame_rate * min(most_seconds, max(_LEAST_SECONDS, _SECONDS_PER_CHAR * len(passage))))


def silence_library(results: Iterable[Any]) -> Iterator[Any]:
    """Yield a library's results; what it prints meanwhile is not the server's."""
    following = iter(results)
    while True:
        with contextlib.redirect_stdout(io.StringIO()):
            result = next(following, None)
        if result is None:
            return
        yield result


def sound_of_result(result: Any) -> NDArray[np.float32]:
    """Return the samples of mlx-audio's result, at `RATE`."""
    sound: NDArray[np.float32] = np.nan_to_num(np.array(result.audio.astype(mx.float32)).reshape(-1))
    return _resample(sound, result.sample_rate, RATE)


def _resample(sound: NDArray[np.float32], rate: int, to: int) -> NDArray[np.float32]:
    if rate == to:
        return sound
    from scipy.signal import resample_poly  # this import takes seconds

    common = gcd(rate, to)
    resampled: NDArray[np.float32] = resample_poly(sound, to // common, rate // common)
    return resampled
