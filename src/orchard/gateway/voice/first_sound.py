"""The time to the first sound of an answer, divided into its parts."""

import time
from collections.abc import Callable, Mapping

from orchard.gateway.metrics.counters import SoundPart


class FirstSound:
    """Divides the time from now to the first sound into parts, and gives them to `count` once it is heard."""

    def __init__(
        self, count: Callable[[Mapping[SoundPart, float]], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count = count
        self._clock = clock
        self._lap_began = clock()
        self._seconds: dict[SoundPart, float] = {}

    def end(self, part: SoundPart) -> None:
        """Note that a part is over; only the first time counts. `sound` is the last one."""
        if part in self._seconds or "sound" in self._seconds:
            return
        now = self._clock()
        self._seconds[part] = now - self._lap_began
        self._lap_began = now
        if part == "sound":
            self._count(self._seconds)
