"""When a model that failed may be loaded again."""

_PAUSES = (0.0, 1.0, 2.0, 4.0)  # after the first failure, the second, ...
_MOST_FAILURES = 5
_BREAK_SECONDS = 60.0


class Restarts:
    """Counts a model's failures in a row: crashes and failed loads. Times are in seconds of any clock.

    The pause before the next load grows with each failure. A model that has crashed is loaded again after the pause,
    and its requests wait. One that could not be loaded, or has crashed too often, rejects requests until the pause is
    over; then the next request loads it again.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why it failed last; None: it has not failed, or it has been loaded since."""
        self.count = 0
        """All crashes."""
        self.refuses = False
        self._failures = 0
        self._until = 0.0

    def crashed(self, now: float, reason: str, *, loading: bool) -> None:
        """Count a crash; `loading`: the process died while it loaded the model."""
        self.count += 1
        self._failed(now, reason)
        too_often = self._failures >= _MOST_FAILURES
        self.refuses = too_often or (loading and self._failures > 1)
        if too_often:
            self.reason = f"{self._failures} failures in a row, at last: {reason}"

    def refused(self, now: float, reason: str) -> None:
        """Count a load that failed."""
        self._failed(now, reason)
        self.refuses = True

    def loaded(self) -> None:
        """Forget the reason of the last failure, because the model has been loaded."""
        self.reason = None
        self.refuses = False

    def served(self) -> None:
        """Reset the count of failures in a row, because a request has finished."""
        self._failures = 0

    def allow(self) -> None:
        """End the pause, because a client has explicitly requested the load."""
        self._until = 0.0

    def pause(self, now: float) -> float:
        """Return the seconds until the model may be loaded again."""
        return max(0.0, self._until - now)

    def _failed(self, now: float, reason: str) -> None:
        self.reason = reason
        self._failures += 1
        long = self._failures >= _MOST_FAILURES
        self._until = now + (_BREAK_SECONDS if long else _PAUSES[self._failures - 1])
