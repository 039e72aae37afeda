"""Log lines about repeated failures, at most one per minute."""

import logging
import time
from collections.abc import Callable

_SECONDS = 60.0


class Throttle:
    """Logs an error, then drops errors for a minute; the next line says how many were dropped."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._next = 0.0
        self._left_out = 0

    def error(self, message: str, *args: object) -> None:
        """Log an error, unless one was logged within the last minute."""
        if self._clock() < self._next:
            self._left_out += 1
            return
        more = f" ({self._left_out} more such lines were left out)" if self._left_out else ""
        self._log.error("%s%s", message % args, more)
        self._next = self._clock() + _SECONDS
        self._left_out = 0
