"""How long a step may take: the watchdog must not take a large image on a slow machine for a hang."""

_SLACK = 3.0  # times as long as expected


class Pace:
    """Learns from each step how long the next ones may take; what is expected does not count as silence."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._pixels = 1
        self._expected = 0.0

    def learn(self, seconds: float, pixels: int) -> None:
        """Note how long a step of an image of so many pixels took. The slowest one of the largest image counts."""
        if pixels > self._pixels:
            self._pixels, self._seconds = pixels, 0.0
        if pixels == self._pixels:
            self._seconds = max(self._seconds, seconds)

    def expect(self, pixels: int) -> None:
        """Prepare for steps of an image of so many pixels."""
        growth = max(1.0, pixels / self._pixels)
        self._expected = _SLACK * growth * self._seconds

    def allow(self, seconds: float) -> None:
        """Prepare for a piece of work that takes at most so long."""
        self._expected = seconds

    def silence(self, seconds: float) -> float:
        """Return how much of the seconds that the present work has taken is more than was to be expected."""
        return max(0.0, seconds - self._expected)
