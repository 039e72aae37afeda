"""Measures what steps cost."""

import time


class StepClock:
    """Tells how long steps take, each from the end of the one before, where they do nothing else."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._worked = time.thread_time()
        self.waited = 0.0
        """How long, of the last lap, the thread had nothing to do."""
        self._skipped = 1  # so many laps don't count

    def disturb(self, laps: int) -> None:
        """Note that the next laps have, or wait for, other work."""
        self._skipped = max(self._skipped, laps)

    def lap(self) -> float | None:
        """Return the seconds since the last lap; None: they don't count."""
        since, self._since = self._since, time.perf_counter()
        worked, self._worked = self._worked, time.thread_time()
        self.waited = max(self._since - since - (self._worked - worked), 0.0)
        if self._skipped:
            self._skipped -= 1
            return None
        return self._since - since
