"""Measures how long steps take."""

import time


class StepClock:
    """Measures how long each step takes, from the end of the one before. Steps with other work are left out."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._skipped = 1  # how many of the next laps don't count

    def disturb(self, laps: int) -> None:
        """Leave out the next `laps` laps: they do other work or wait for it."""
        self._skipped = max(self._skipped, laps)

    def lap(self) -> float | None:
        """End a lap; return its seconds, or None if it doesn't count."""
        since, self._since = self._since, time.perf_counter()
        if self._skipped:
            self._skipped -= 1
            return None
        return self._since - since
