"""Callers that wait for a model, and timers."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orchard.core.errors import OrchardError

_FOR_EVER = 1e8  # seconds


class Waiters:
    """Callers that wait for the next time that an event happens."""

    def __init__(self) -> None:
        self._futures: set[asyncio.Future[None]] = set()

    def __bool__(self) -> bool:
        return bool(self._futures)

    @contextmanager
    def add_waiter(self) -> Iterator["asyncio.Future[None]"]:
        """Add a caller while the context lasts. Yield the future to await, which may raise OrchardError."""
        future = asyncio.get_running_loop().create_future()
        self._futures.add(future)
        try:
            yield future
        finally:
            self._futures.discard(future)

    def notify(self, error: OrchardError | None = None) -> None:
        """Tell all callers that the event has happened, or that `error` prevents it."""
        futures, self._futures = self._futures, set()
        for future in futures:
            if future.done():
                continue
            if error:
                future.set_exception(error)
            else:
                future.set_result(None)


class Timer:
    """Calls a function once, after some seconds, unless it is stopped."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        """Whether a call is scheduled."""
        return self._handle is not None

    @property
    def due(self) -> float | None:
        """The event loop's time of the scheduled call; None: none is scheduled."""
        return self._handle.when() if self._handle else None

    def start(self, seconds: float | None) -> None:
        """Schedule the call in `seconds`, instead of any earlier schedule; None: never."""
        self.stop()
        if seconds is not None and seconds < _FOR_EVER:
            self._handle = asyncio.get_running_loop().call_later(max(0.0, seconds), self._fire)

    def stop(self) -> None:
        """Cancel the scheduled call."""
        if self._handle:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._call()
