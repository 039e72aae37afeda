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
    """Counts the small pieces of one peer. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._paid_until = -math.inf

    def pause(self, pieces: int) -> float:
        """Count `pieces` more, and return for how many seconds nothing should be read."""
        now = self._clock()
        self._paid_until = max(self._paid_until, now - BURST / RATE) + pieces / RATE
        return max(0.0, self._paid_until - now)
