"""Waiting for what a model does: for an event, for a time, and for nothing to be done."""

import asyncio
from collections.abc import Callable

from orchard.core.errors import OrchardError

_FOR_EVER = 1e8  # seconds


class Waiters:
    """Those who wait for the next time that something happens."""

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    def __bool__(self) -> bool:
        return any(not future.done() for future in self._futures)

    def add(self) -> "asyncio.Future[None]":
        """Give what to wait for; it may raise an OrchardError. Whoever gives up cancels it."""
        self._futures = [future for future in self._futures if not future.done()]
        self._futures.append(asyncio.get_running_loop().create_future())
        return self._futures[-1]

    def tell(self, error: OrchardError | None = None) -> None:
        """It has happened, or won't."""
        futures, self._futures = self._futures, []
        for future in futures:
            if future.done():
                continue
            if error:
                future.set_exception(error)
            else:
                future.set_result(None)


class Timer:
    """Calls once, after some seconds, unless it is stopped before."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._handle: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        """Whether it is going to call."""
        return self._handle is not None

    def start(self, seconds: float) -> None:
        """Call so many seconds from now, and not before."""
        self.stop()
        self._handle = asyncio.get_running_loop().call_later(seconds, self._over)

    def stop(self) -> None:
        """Don't call."""
        if self._handle:
            self._handle.cancel()
            self._handle = None

    def _over(self) -> None:
        self._handle = None
        self._call()


class IdleClock:
    """Calls when nothing has been done for as long as that may be."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._timer = Timer(call)
        self.ttl: float | None = None
        """What the last request said of how long that is, in seconds."""

    def start(self, default: float | None) -> None:
        """Begin to wait, for so many seconds unless the last request has said otherwise; None: for ever."""
        ttl = default if self.ttl is None else self.ttl
        self._timer.stop()
        if ttl is not None and ttl < _FOR_EVER:
            self._timer.start(max(0.0, ttl))

    def stop(self) -> None:
        """Something is done."""
        self._timer.stop()
