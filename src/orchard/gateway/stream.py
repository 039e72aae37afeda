"""One request's events on their way from the worker's socket to the caller's."""

import asyncio
from collections.abc import Callable, Sequence

from orchard.core.events import Event, Failed, Finished


class EventStream:
    """A queue of events with one reader; it keeps the law of the stream whatever the writers do.

    `on_drop` is called once if the stream is closed before it has ended.
    """

    def __init__(self) -> None:
        self.on_drop: Callable[[], None] | None = None
        self.note = ""
        """What the caller waits for, in a few words; a stream that has nothing to say yet shows it in its comments."""
        self.ended = False
        self._events: list[Event] = []
        self._waiter: asyncio.Future[None] | None = None

    def push(self, events: Sequence[Event]) -> None:
        """Append events; whatever comes after the end is dropped."""
        if self.ended:
            return
        self._events.extend(events)
        self.ended = isinstance(events[-1], Finished | Failed)
        if self._waiter:
            _wake(self._waiter)

    async def next(self, timeout: float) -> list[Event]:
        """Give all events that have come since the last call; wait for some up to `timeout` seconds ([] after that)."""
        if not self._events:
            loop = asyncio.get_running_loop()
            self._waiter = waiter = loop.create_future()
            timer = loop.call_later(timeout, _wake, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
        events, self._events = self._events, []
        return events

    def close(self, reason: Failed | None = None) -> None:
        """Stop the work behind the stream; a reader that still waits gets `reason`. Closing twice is fine."""
        if self.ended:
            return
        if reason:
            self.push([reason])
        self.ended = True
        if self.on_drop:
            self.on_drop()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
