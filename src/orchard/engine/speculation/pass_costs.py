"""What steps, and a draft's guesses, cost on this machine and model, as far as they have been measured."""

from collections import deque
from collections.abc import Sequence
from statistics import median_low

_KEPT = 16  # samples of one kind of step
_FORGOTTEN = 1000  # steps without a draft after which its cost is unknown again
_EXACT = 8  # numbers of rows up to this are told apart; above, those within a quarter are alike


class _StepTimes:
    """The latest times of one kind of step."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_KEPT)
        self.seconds = 0.0
        """The median: what interrupts a step now and then is not its cost, but what makes every other step slow is."""
        self.step = 0
        """The number of the step that was measured last."""

    def __len__(self) -> int:
        return len(self._seconds)

    def add(self, seconds: float, step: int) -> None:
        self._seconds.append(seconds)
        self.seconds = median_low(self._seconds)
        self.step = step


class PassCosts:
    """Seconds of a step, by how many rows its pass has and how many tokens each of them brings (the width)."""

    def __init__(self) -> None:
        self._steps = 0
        self._samples: dict[int, dict[int, _StepTimes]] = {}

    def add(self, rows: int, width: int, seconds: float) -> None:
        """Note what a step took."""
        self._steps += 1
        self._samples.setdefault(_alike(rows), {}).setdefault(width, _StepTimes()).add(seconds, self._steps)

    def measured(self, samples: int, steps: int) -> Sequence[int]:
        """Return the numbers of rows of which so many plain steps were measured, the last at most `steps` ago."""
        return [rows for rows in self._samples if self.count(rows, 1) >= samples and self.age(rows, 1) <= steps]

    def known(self, rows: int) -> Sequence[int]:
        """Return the widths that were measured with so many rows, ascending."""
        return sorted(self._samples.get(_alike(rows), {}))

    def count(self, rows: int, width: int) -> int:
        """Return how many measurements are kept."""
        return len(self._samples.get(_alike(rows), {}).get(width, ()))

    def age(self, rows: int, width: int) -> int:
        """Return how many steps ago a width that is `known` was measured."""
        return self._steps - self._samples[_alike(rows)][width].step

    def seconds(self, rows: int, width: int) -> float | None:
        """Return what a step takes, from those measured at this width or at two around it; None: unknown.

        Where so many rows were measured with one token each only, the widths of another number of rows tell the ratio.
        """
        own = self._between(_alike(rows), width)
        if own is not None or width == 1 or (plain := self._between(_alike(rows), 1)) is None:
            return own
        for other in sorted(self._samples, key=lambda other: max(other, rows) / min(other, rows)):
            plain_there, there = self._between(other, 1), self._between(other, width)
            if plain_there and there:
                return plain * there / plain_there
        return None

    def _between(self, alike: int, width: int) -> float | None:
        samples = self._samples.get(alike, {})
        below = max((known for known in samples if known <= width), default=None)
        above = min((known for known in samples if known >= width), default=None)
        if below is None or above is None:
            return None
        if below == above:
            return samples[below].seconds
        share = (width - below) / (above - below)
        return samples[below].seconds * (1 - share) + samples[above].seconds * share


class DraftCosts:
    """Seconds that a draft takes to read texts and to guess. What is not known counts as nothing, so it is measured."""

    def __init__(self) -> None:
        self._guesses: dict[int, _StepTimes] = {}
        self._reading = _StepTimes()
        self._questions = 0

    def add(self, rows: int, tokens: int, seconds: float) -> None:
        """Note what it took to guess so many tokens for each of so many rows."""
        self._questions = 0
        self._guesses.setdefault(_alike(rows), _StepTimes()).add(seconds / tokens, 0)

    def add_reading(self, tokens: int, seconds: float) -> None:
        """Note what it took to read so many tokens."""
        self._reading.add(seconds / tokens, 0)

    def ask(self) -> None:
        """Note that a step asks; where none has measured for long, what is known is forgotten: it may be untrue now."""
        self._questions += 1
        if self._questions > _FORGOTTEN:
            self._guesses.clear()

    def guessing(self, rows: int, tokens: int) -> float:
        """Return what it takes to guess so many tokens a row, as for the number of rows that is most like it."""
        if not (self._guesses and rows):
            return 0.0
        like = min(self._guesses, key=lambda known: max(known, rows) / min(known, rows))
        return self._guesses[like].seconds * tokens

    def reading(self, tokens: int) -> float:
        """Return what it takes to read so many tokens."""
        return self._reading.seconds * tokens


def _alike(rows: int) -> int:
    """Return the number of rows that stands for so many."""
    step = max(rows.bit_length() - _EXACT.bit_length() + 1, 0)
    return rows >> step << step
