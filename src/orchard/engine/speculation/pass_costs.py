"""The measured times of steps and of a draft's guesses, on this machine and with this model."""

from collections import deque
from collections.abc import Sequence
from statistics import median_low

_MAX_SAMPLES = 16  # samples of one kind of step
_STEPS_UNTIL_FORGOTTEN = 1000  # steps without a draft after which its cost is unknown again
_EXACT_ROWS = 8  # numbers of rows below this are separate; from it on, numbers within a quarter share an entry


class _StepTimes:
    """The latest times of one kind of step."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_MAX_SAMPLES)
        self.seconds = 0.0
        """The median, since a rare interruption is not part of a step's cost, but one in every second step is."""
        self.step = 0
        """The number of the step that was measured last."""

    def __len__(self) -> int:
        return len(self._seconds)

    def add(self, seconds: float, step: int) -> None:
        self._seconds.append(seconds)
        self.seconds = median_low(self._seconds)
        self.step = step


class PassCosts:
    """Seconds of a step, by the rows of its pass and the tokens per row (the width)."""

    def __init__(self) -> None:
        self._steps = 0
        self._samples: dict[int, dict[int, _StepTimes]] = {}

    def add(self, rows: int, width: int, seconds: float) -> None:
        """Note the seconds of a step."""
        self._steps += 1
        self._samples.setdefault(_row_bucket(rows), {}).setdefault(width, _StepTimes()).add(seconds, self._steps)

    def measured_rows(self, samples: int, steps: int) -> Sequence[int]:
        """Return the numbers of rows with at least `samples` measured plain steps, the last at most `steps` ago."""
        return [rows for rows in self._samples if self.count(rows, 1) >= samples and self.age(rows, 1) <= steps]

    def measured_widths(self, rows: int) -> Sequence[int]:
        """Return the widths that were measured with `rows` rows, ascending."""
        return sorted(self._samples.get(_row_bucket(rows), {}))

    def count(self, rows: int, width: int) -> int:
        """Return how many measurements are kept for these rows and this width."""
        return len(self._samples.get(_row_bucket(rows), {}).get(width, ()))

    def age(self, rows: int, width: int) -> int:
        """Return how many steps ago a width was measured last; it must be one of `measured_widths`."""
        return self._steps - self._samples[_row_bucket(rows)][width].step

    def seconds(self, rows: int, width: int) -> float | None:
        """Return the seconds of a step, measured at this width or interpolated between two; None: unknown.

        If only width 1 was measured with `rows` rows, scale its time by the ratio for another number of rows.
        """
        own = self._interpolate(_row_bucket(rows), width)
        if own is not None or width == 1 or (plain := self._interpolate(_row_bucket(rows), 1)) is None:
            return own
        for other in sorted(self._samples, key=lambda other: max(other, rows) / min(other, rows)):
            plain_there, there = self._interpolate(other, 1), self._interpolate(other, width)
            if plain_there and there:
                return plain * there / plain_there
        return None

    def _interpolate(self, bucket: int, width: int) -> float | None:
        samples = self._samples.get(bucket, {})
        below = max((known for known in samples if known <= width), default=None)
        above = min((known for known in samples if known >= width), default=None)
        if below is None or above is None:
            return None
        if below == above:
            return samples[below].seconds
        share = (width - below) / (above - below)
        return samples[below].seconds * (1 - share) + samples[above].seconds * share


class DraftCosts:
    """Seconds that a draft takes to read texts and to guess. Unknown times count as 0, so that they get measured."""

    def __init__(self) -> None:
        self._guesses: dict[int, _StepTimes] = {}
        self._reading = _StepTimes()
        self._questions = 0

    def add(self, rows: int, tokens: int, seconds: float) -> None:
        """Note the seconds of guessing `tokens` tokens for each of `rows` rows."""
        self._questions = 0
        self._guesses.setdefault(_row_bucket(rows), _StepTimes()).add(seconds / tokens, 0)

    def add_reading(self, tokens: int, seconds: float) -> None:
        """Note the seconds of reading `tokens` tokens."""
        self._reading.add(seconds / tokens, 0)

    def ask(self) -> None:
        """Count a step that asks for these costs; forget guessing times that have not been measured for long."""
        self._questions += 1
        if self._questions > _STEPS_UNTIL_FORGOTTEN:
            self._guesses.clear()

    def guessing_seconds(self, rows: int, tokens: int) -> float:
        """Return the seconds of guessing `tokens` tokens per row, as measured for the most similar number of rows."""
        if not (self._guesses and rows):
            return 0.0
        like = min(self._guesses, key=lambda known: max(known, rows) / min(known, rows))
        return self._guesses[like].seconds * tokens

    def reading_seconds(self, tokens: int) -> float:
        """Return the seconds of reading `tokens` tokens."""
        return self._reading.seconds * tokens


def _row_bucket(rows: int) -> int:
    """Return the number of rows under which the times of `rows` rows are kept."""
    step = max(rows.bit_length() - _EXACT_ROWS.bit_length() + 1, 0)
    return rows >> step << step
