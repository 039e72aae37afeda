"""The stream of a request's events, from the worker's socket to the caller's."""

import asyncio
from collections.abc import Callable, Sequence

from orchard.core.events import Collected, Collector, Event, Failed, Finished, Output, Reasoning, Text, ToolArgs

_WAIT_SECONDS = 60.0
_LAG_BYTES = 256 * 1024  # of unread events
_LAG_SECONDS = 2.0
_MOST_BYTES_UNDER_WAY = 4 * 2**20
_MOST_LAG_SECONDS = 120.0
_TOO_LATE = Failed(
    "timeout", f"the client read nothing of this answer for {_MOST_LAG_SECONDS:g} seconds, so it was stopped"
)
_TOO_SLOW = Failed("timeout", "the client read this answer too slowly, so it was stopped")
# The memory that Python uses for an event and a token's log-probability, and the most for a character.
_EVENT_BYTES = 128
_LOGPROB_BYTES = 256
_CHAR_BYTES = 4


class EventStream:
    """A queue of events with one reader. It ends with the first `Finished` or `Failed`, and drops events after that.

    `on_drop` is called once if the stream is closed before it has ended, `on_end` once when it is over in either way.
    `on_lag` is called with True when so much is unread, or for so long, that no more should be made, and with False
    once it is read. The stream fails if the reader lags for two minutes, because its model can't be unloaded or evicted
    meanwhile, or if too many events still arrive while it lags, because its memory must be limited.
    """

    def __init__(self) -> None:
        self.on_drop: Callable[[], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.on_lag: Callable[[bool], None] | None = None
        self.on_events: Callable[[Sequence[Event]], None] | None = None
        """Called with all pushed events, and with the reason of a close."""
        self.waits_for: Callable[[], str] = str
        """Returns what the caller waits for in a few words, for keep-alive comments."""
        self.begun = False
        """An event has been pushed."""
        self.ended = False
        self.finished = False
        """It has ended with `Finished`."""
        self.forget: Callable[[], None] | None = None
        """Makes the reader forget the events that it has read; None: the caller may have seen them."""
        self._events: list[Event] = []
        self._unread_bytes = 0
        self._unread_since: float | None = None
        self._most_bytes = 0
        self._lagging: asyncio.TimerHandle | None = None
        self._seen = False
        self._waiter: asyncio.Future[None] | None = None

    def may_restart(self, forget: Callable[[], None] | None) -> None:
        """Allow a restart after events were read: `forget` must then drop them. None: disallow it."""
        self.forget = forget

    def push(self, events: Sequence[Event]) -> None:
        """Append events; drop those after the end."""
        if self.ended:
            return
        self.begun = True
        self.ended = isinstance(events[-1], Finished | Failed)
        self.finished = isinstance(events[-1], Finished)
        self._show(events)
        if self.ended:
            self._finish()

    def restart(self) -> bool:
        """Forget all events and return True; return False if the stream has ended, or the caller may have seen one."""
        if self.ended or not self._drop():
            return False
        self.begun = False
        self.on_drop = self.on_lag = None
        return True

    async def next(self, timeout: float) -> list[Event]:
        """Return all events since the last call. Wait up to `timeout` seconds for some; return [] after that."""
        if not self._events:
            loop = asyncio.get_running_loop()
            self._waiter = waiter = loop.create_future()
            timer = loop.call_later(timeout, _wake, waiter)  # asyncio.timeout costs several times as much
            try:
                await waiter
            finally:
                timer.cancel()
        events, self._events = self._events, []
        self._unread_since = None
        self._catch_up()
        self._seen = self._seen or bool(events)
        return events

    def close(self, reason: Failed | None = None) -> None:
        """Stop the request; a reader that still waits gets `reason`. Closing again does nothing."""
        if self.ended:
            return
        self.ended = True
        if reason:
            self._show([reason])
        if self.on_drop:
            self.on_drop()
        self._finish()

    def tell_lag(self, lags: bool) -> None:
        """Tell the producer that the reader lags behind, or no longer does."""
        if self.on_lag and not self.ended:
            self.on_lag(lags)

    def _show(self, events: Sequence[Event]) -> None:
        if self.on_events:
            self.on_events(events)
        self._take(events)

    def _take(self, events: Sequence[Event]) -> None:
        self._events.extend(events)
        self._unread_bytes += sum(map(_nbytes, events))
        is_busy = not self._waiter or self._waiter.done()  # with earlier events: mostly it sends them
        if self._waiter:
            _wake(self._waiter)
        if self.ended or not (self._unread_bytes > _LAG_BYTES or (is_busy and self._is_unread_for_long())):
            return
        if not self._lagging:
            self._most_bytes = self._unread_bytes + _MOST_BYTES_UNDER_WAY
            self._lagging = asyncio.get_running_loop().call_later(_MOST_LAG_SECONDS, self.close, _TOO_LATE)
            self.tell_lag(True)
        elif self._unread_bytes > self._most_bytes:
            self.close(_TOO_SLOW)

    def _is_unread_for_long(self) -> bool:
        """Return whether the reader has taken nothing for long."""
        now = asyncio.get_running_loop().time()
        self._unread_since = self._unread_since or now
        return now - self._unread_since > _LAG_SECONDS

    def _catch_up(self) -> None:
        """Note that everything has been read."""
        self._unread_bytes = 0
        if self._lagging:
            self._lagging.cancel()
            self._lagging = None
            self.tell_lag(False)

    def _drop(self) -> bool:
        if self.forget:
            self.forget()
        elif self._seen:
            return False
        self._events.clear()
        self._catch_up()
        return True

    def _finish(self) -> None:
        if self._lagging:
            self._lagging.cancel()
        on_end, self.on_end = self.on_end, None
        if on_end:
            on_end()


async def collect_events(stream: EventStream) -> Collected:
    """Return the collected events of a stream, which may restart until its end. Raise OrchardError if it fails."""
    collector = Collector()
    stream.may_restart(collector.clear)
    while collector.result is None:
        collector.add(await stream.next(_WAIT_SECONDS))
    return collector.result


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _nbytes(event: Event) -> int:
    """Return roughly the most bytes of memory that an event takes."""
    match event:
        case Text():
            logprobs = sum(1 + len(one.top) for one in event.logprobs) if event.logprobs else 0
            return _EVENT_BYTES + _CHAR_BYTES * len(event.text) + _LOGPROB_BYTES * logprobs
        case Reasoning():
            return _EVENT_BYTES + _CHAR_BYTES * len(event.text)
        case ToolArgs():
            return _EVENT_BYTES + _CHAR_BYTES * len(event.json)
        case Output():
            return _EVENT_BYTES + len(event.data)
    return _EVENT_BYTES
