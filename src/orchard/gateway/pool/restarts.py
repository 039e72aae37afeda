"""When a model that failed may be loaded again."""

import math

from orchard.gateway.pool.reduction import Reduction

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
        self.reduction = Reduction()
        self.refuses = False
        self.lacks_memory = False
        """The last load failed because memory ran out."""
        self._failures = 0
        self._until = 0.0

    def count_crash(self, now: float, reason: str, *, loading: bool, ran_out: tuple[int, int] | None = None) -> None:
        """Count a crash; `loading`: the process died while it loaded the model.

        `ran_out`: memory ran out, with this limit and these weights, in bytes. If there is no smaller limit to try, it
        rejects requests until `forgive`.
        """
        self.count += 1
        if ran_out:
            self.reduction.halve(*ran_out)
            reason += f": {self.reduction.note}"
        self._count_failure(now, reason)
        too_often = self._failures >= _MOST_FAILURES
        self.refuses = too_often or (loading and self._failures > 1)
        if too_often:
            self.reason = f"{self._failures} failures in a row, at last: {reason}"
        if ran_out and self.reduction.is_last:
            self.refuses, self._until = True, math.inf

    def count_failed_load(self, now: float, reason: str, *, lacks_memory: bool = False) -> None:
        """Count a load that failed; `lacks_memory`: because memory ran out."""
        self._count_failure(now, reason)
        self.lacks_memory = lacks_memory
        self.refuses = True

    @property
    def explanation(self) -> str | None:
        """What clients are told: why it failed last, or why it gets less memory than its share."""
        return self.reason or self.reduction.note or None

    def note_load(self) -> None:
        """Forget the reason of the last failure, because the model has been loaded."""
        self.reason = None
        self.refuses = False

    def note_success(self) -> None:
        """Reset the count of failures in a row, because a request has finished."""
        self._failures = 0

    def allow(self) -> bool:
        """End the pause, because a client has explicitly requested the load; False: no smaller limit is left to try."""
        if self._until != math.inf:
            self._until = 0.0
        return self._until == 0.0

    def forgive(self) -> None:
        """Forget that memory ran out, because a client has unloaded the model."""
        if self.reduction.halvings:
            self.reduction, self._until = Reduction(), 0.0

    def pause(self, now: float) -> float:
        """Return the seconds until the model may be loaded again."""
        return max(0.0, self._until - now)

    def _count_failure(self, now: float, reason: str) -> None:
        self.reason = reason
        self.lacks_memory = False
        self._failures += 1
        long = self._failures >= _MOST_FAILURES
        self._until = now + (_BREAK_SECONDS if long else _PAUSES[self._failures - 1])
