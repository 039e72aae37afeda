"""How often one peer may make the event loop read: small pieces gather in the system's buffer meanwhile."""

import math
from collections.abc import Callable

BURST = 32
"""Small pieces that are read at once."""
RATE = 50.0
"""Small pieces a second that are read after that."""
MOST_FRAMING = 64 * 1024
"""Bytes that chunked transfer encoding may add to a content, besides as many as the content has."""


class ReadPace:
    """Counts the small pieces of one peer: `burst` at once, then `rate` a second. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float], burst: float = BURST, rate: float = RATE) -> None:
        self._clock = clock
        self._burst = burst
        self._rate = rate
        self._paid_until = -math.inf

    def pause(self, pieces: float) -> float:
        """Count `pieces` more, and return for how many seconds nothing should be read."""
        now = self._clock()
        self._paid_until = max(self._paid_until, now - self._burst / self._rate) + pieces / self._rate
        return max(0.0, self._paid_until - now)
