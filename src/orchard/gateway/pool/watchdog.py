"""Whether a worker that has something to do still lives."""


class Watchdog:
    """Counts how long a worker has been silent.

    The time is counted in ticks, and not by the clock: a gateway that was stopped for a while blames nobody.
    """

    def __init__(self, limit: float) -> None:
        """`limit`: seconds of silence that are too many; 0: none are."""
        self._limit = limit
        self._silent = 0.0

    @property
    def interval(self) -> float:
        """Seconds between ticks."""
        return min(1.0, self._limit / 4) if self._limit else 1.0

    def heard(self, silent_seconds: float = 0.0) -> None:
        """Note a sign of life; `silent_seconds`: how long the engine has worked at its present piece of work."""
        self._silent = silent_seconds

    def tick(self, at_least: float = 0.0) -> bool:
        """Count an interval; return whether the worker has been silent for too long.

        `at_least`: seconds that its present work may take even where the limit is lower.
        """
        self._silent += self.interval
        return self._limit > 0 and self._silent > max(self._limit, at_least)
