"""The audio that a client sends: what is not committed yet, and where speech begins and ends in it."""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from orchard.core.tasks.judge_turn import JUDGED_SECONDS
from orchard.dialects.openai.realtime.schema import SemanticVad, ServerVad, TurnDetection
from orchard.gateway.realtime.samples import Resampler, SoundFormat, to_float
from orchard.gateway.realtime.silero.network import RATE, WINDOW, VoiceDetector

MOST_SECONDS = 600
"""The longest turn."""
# As in Silero's own code: while somebody speaks, a probability that is so much lower still counts as speech, but none
# below `_SILENCE`.
_HYSTERESIS, _SILENCE = 0.15, 0.01
# A pause lasts `_PAUSE_MS` at least. It is not reported if the turn would end within `_LEAST_AFTER_MS`, nor in a turn
# of more than `_MOST_BEFORE_SECONDS`: the early transcription of a long turn is much work, which may be in vain.
_PAUSE_MS, _LEAST_AFTER_MS, _MOST_BEFORE_SECONDS = 200, 100, 30
# The detector misses a word now and then. A sound that is louder than this part of the turn's loudest is no pause.
_QUIET = 0.125


class TurnStart(Struct, frozen=True):
    """Somebody begins to speak; milliseconds since the session began to receive audio."""

    milliseconds: int


class TurnEnd(Struct, frozen=True):
    """Somebody has been silent for as long as the turn detection says; `audio` is the turn, in 16 bits."""

    milliseconds: int
    audio: bytes


class TurnPause(Struct, frozen=True):
    """Somebody who speaks is silent for a moment; `audio` is the turn so far. It may go on, or end."""

    audio: bytes


class TurnGoesOn(Struct, frozen=True):
    """Somebody goes on speaking after a pause."""


class TurnMayEnd(Struct, frozen=True):
    """Somebody who speaks is silent for a moment: whether the turn is over is for a model to judge.

    If it is, `Microphone.end_turn` is to be called before more is heard. `audio` is the end of the turn so far.
    """

    audio: bytes


Heard = TurnStart | TurnPause | TurnGoesOn | TurnMayEnd | TurnEnd


class Microphone:
    """The input audio buffer. With `detection`, it finds turns; else it keeps everything until `take`."""

    def __init__(self, form: SoundFormat, detection: TurnDetection | None) -> None:
        self.form = form
        self.is_speaking = False
        self._begin_ms = 0.0  # of the first sample in this format
        self._first = 0  # the number of the first sample in `_held`
        self._held = bytearray()
        self.detect(detection)

    def detect(self, detection: TurnDetection | None) -> None:
        """Find turns in this way from now on; None: find none."""
        self._detection, self._rules, self._asks = detection, None, False
        if isinstance(detection, SemanticVad):
            self._rules, self._asks = ServerVad(silence_duration_ms=detection.longest_silence_ms), True
        elif detection:
            self._rules = detection
        self._detector = VoiceDetector() if detection else None
        self._resampler = Resampler(self.form.rate, RATE)
        self._window = WINDOW * self.form.rate // RATE
        self._heard = self._end  # the number of the first sample that the detector has not heard
        self._silent = self._quiet = 0
        self._loudest = 0.0
        self.is_speaking = self._is_pause = False

    def change_format(self, form: SoundFormat) -> None:
        """Forget what is held, and take audio in another format from now on."""
        if form != self.form:
            self._begin_ms += self._end * 1000 / self.form.rate
            self.form, self._first = form, 0
            self._held.clear()
            self.detect(self._detection)

    @property
    def nbytes(self) -> int:
        """The bytes that are held."""
        return len(self._held)

    @property
    def held_ms(self) -> float:
        """How much is held, in milliseconds."""
        return len(self._held) // 2 * 1000 / self.form.rate

    def append(self, audio: bytes) -> Iterator[Heard | None]:
        """Append a piece; yield what is heard of turns in it, and None where a window has nothing of it."""
        self._held += self.form.decode(audio)
        while self._rules and self._detector and self._heard + self._window <= self._end:
            begin = 2 * (self._heard - self._first)
            window = self._resampler.feed(to_float(bytes(self._held[begin : begin + 2 * self._window])))
            self._heard += self._window
            yield from self._listen(self._rules, self._detector.listen(window), float(np.abs(window).max())) or (None,)

    def take(self) -> bytes:
        """Return what is held, and forget it; a turn that has begun is over."""
        taken = bytes(self._held)
        self._drop(self._end)
        self.detect(self._detection)
        return taken

    def end_turn(self) -> TurnEnd:
        """End the turn that has begun with what has been heard."""
        self.is_speaking = False
        audio = self._turn_audio()
        self._drop(self._heard)
        return TurnEnd(self._milliseconds(self._heard), audio)

    @property
    def _end(self) -> int:
        return self._first + len(self._held) // 2

    def _drop(self, place: int) -> None:
        """Forget what is before a sample."""
        del self._held[: 2 * max(0, place - self._first)]
        self._first = max(self._first, place)

    def _listen(self, detection: ServerVad, probability: float, loudness: float) -> list[Heard]:
        """Say what the last window begins or ends; `loudness` is its largest sample."""
        rate = self.form.rate
        if not self.is_speaking:
            self._drop(self._heard - self._window - detection.prefix_padding_ms * rate // 1000)
            if probability < detection.threshold:
                return []
            self.is_speaking, self._is_pause, self._silent, self._quiet = True, False, 0, 0
            self._loudest = loudness
            return [TurnStart(self._milliseconds(self._first))]
        is_speech = probability >= max(detection.threshold - _HYSTERESIS, _SILENCE)
        self._silent = 0 if is_speech else self._silent + self._window
        self._loudest = max(self._loudest, loudness) if is_speech else self._loudest
        is_over = not is_speech and self._silent * 1000 >= detection.silence_duration_ms * rate
        if is_over or self._heard - self._first >= MOST_SECONDS * rate:
            return [self.end_turn()]
        found = self._hear_pause(detection, is_quiet=not is_speech and loudness <= _QUIET * self._loudest)
        if self._asks and 0 <= self._silent * 1000 - _PAUSE_MS * rate < self._window * 1000:
            found.append(TurnMayEnd(self._turn_audio(JUDGED_SECONDS)))
        return found

    def _hear_pause(self, detection: ServerVad, *, is_quiet: bool) -> list[Heard]:
        """Say whether a pause begins or ends with the last window of a turn."""
        if not is_quiet:
            self._quiet = 0
            was_pause, self._is_pause = self._is_pause, False
            return [TurnGoesOn()] if was_pause else []
        self._quiet += self._window
        rate = self.form.rate
        is_short = self._quiet * 1000 < _PAUSE_MS * rate
        is_late = self._silent * 1000 > (detection.silence_duration_ms - _LEAST_AFTER_MS) * rate
        if self._is_pause or is_short or is_late or self._heard - self._first > _MOST_BEFORE_SECONDS * rate:
            return []
        self._is_pause = True
        return [TurnPause(self._turn_audio())]

    def _turn_audio(self, most_seconds: int = MOST_SECONDS + 1) -> bytes:
        """Return the turn so far, or its last seconds."""
        end = 2 * (self._heard - self._first)
        return bytes(self._held[max(0, end - 2 * most_seconds * self.form.rate) : end])

    def _milliseconds(self, place: int) -> int:
        return round(self._begin_ms + place * 1000 / self.form.rate)
