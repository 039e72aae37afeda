"""The interface of transcription models."""

from collections.abc import Callable, Generator
from typing import Protocol

from msgspec import Struct

from orchard.core.tasks.transcribe import Recording, Segment, Transcribe

Beat = Callable[[], None]


class Advance(Struct):
    """The results of a piece of work, and how many seconds of the recording are finished."""

    results: list[Recording | Segment]
    done_seconds: float = 0.0


class Recognizer(Protocol):
    """A loaded transcription model."""

    weights_bytes: int
    tells_speakers: bool
    """Whether it serves `Transcribe.speakers`."""

    def transcribe(self, task: Transcribe, beat: Beat) -> Generator[Advance, None, None]:
        """Decode a recording and transcribe it, in pieces of work of a few seconds each.

        Advances before the one with the `Recording` are empty. A silent recording has no segments. `beat` is called for
        each token, if the model allows it, and may raise. Raise OrchardError("invalid_request") if the recording or an
        option can't be used; the caller has checked `Transcribe.speakers`.
        """
        ...
