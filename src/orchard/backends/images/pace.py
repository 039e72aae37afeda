"""Estimates how long a step may take, so that the watchdog doesn't take a large image on a slow machine for a hang."""

_SLACK = 3.0  # times as long as expected


class Pace:
    """Learns from each step how long later steps may take; the expected time doesn't count as silence."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._pixels = 1
        self._expected = 0.0

    def learn(self, seconds: float, pixels: int) -> None:
        """Note the seconds of a step of an image of `pixels` pixels. The slowest step of the largest image counts."""
        if pixels > self._pixels:
            self._pixels, self._seconds = pixels, 0.0
        if pixels == self._pixels:
            self._seconds = max(self._seconds, seconds)

    def expect(self, pixels: int) -> None:
        """Prepare for steps of an image of `pixels` pixels."""
        growth = max(1.0, pixels / self._pixels)
        self._expected = _SLACK * growth * self._seconds

    def allow(self, seconds: float) -> None:
        """Prepare for a piece of work that takes at most `seconds`."""
        self._expected = seconds

    def silence(self, seconds: float) -> float:
        """Return by how much the seconds of the current work exceed the expected time."""
        return max(0.0, seconds - self._expected)
