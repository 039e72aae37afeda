"""Divides the time from a request's arrival to its first token into parts."""

import time
from collections.abc import Callable
from typing import Literal

Part = Literal[
    "body", "model", "media", "render", "tokenise", "queue", "restore", "lookup", "prefill", "decode", "delivery"
]
"""What takes the time, in the order of a request's way. docs/metrics.md explains each part."""


class Stopwatch:
    """Adds up the seconds of each part until it is stopped. Only one thread may use it at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds: dict[Part, float] = {}
        self.is_running = True
        self._clock = clock
        self._lap_began = clock()

    def lap(self, part: Part) -> None:
        """Count the time since the last lap for a part. Do nothing if it is stopped."""
        if self.is_running:
            now = self._clock()
            self.seconds[part] = self.seconds.get(part, 0.0) + now - self._lap_began
            self._lap_began = now

    def stop(self, part: Part) -> None:
        """Count the last lap, for a part."""
        self.lap(part)
        self.is_running = False

    @property
    def seconds_since_stop(self) -> float:
        """The seconds since it was stopped; 0 while it runs."""
        return 0.0 if self.is_running else self._clock() - self._lap_began
