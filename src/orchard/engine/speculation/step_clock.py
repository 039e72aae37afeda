"""Measures what steps cost."""

import time


class StepClock:
    """Tells how long steps take, each from the end of the one before, where they do nothing else."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._skipped = 1  # so many laps don't count

    def disturb(self, laps: int) -> None:
        """Note that the next laps have, or wait for, other work."""
        self._skipped = max(self._skipped, laps)

    def lap(self) -> float | None:
        """Return the seconds since the last lap; None: they don't count."""
        since, self._since = self._since, time.perf_counter()
        if self._skipped:
            self._skipped -= 1
            return None
        return self._since - since
