"""Threads for work that would block the event loop. Smaller work overtakes larger work, even while that is done."""

import asyncio
import itertools
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

_STACK_BYTES = 16 * 2**20
_FIRST = float("-inf")  # before everything that waits
_HALF = 0.5  # what overtakes work yields less than this part of its seconds, so few works are interrupted at a time


def turn_of(yields: float) -> float:
    """Return the turn of a piece of work that is queued now; work with the earliest turn goes first.

    Large work lets smaller work that is queued in the next `yields` seconds go first, but none that is queued later.
    So nothing waits forever.
    """
    return time.monotonic() + yields


class GivenUp(BaseException):
    """Raised inside work whose caller is cancelled. Handlers of `Exception` in that work don't catch it."""


class _Work:
    """A piece of work; `call` is None once it has begun."""

    def __init__(self, call: Callable[[], Any], yields: float) -> None:
        self.call: Callable[[], Any] | None = call
        self.yields = yields
        self.future: Future[Any] = Future()
        self.given_up = False


class Lane:
    """A thread that does one piece of work after the other, until it is closed."""

    def __init__(self, name: str) -> None:
        self._began: float | None = None
        self._work: _Work | None = None
        self._queue: queue.PriorityQueue[tuple[float, int, _Work | None]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        usual = threading.stack_size(_STACK_BYTES)  # llguidance recurses deeply
        self._thread.start()
        threading.stack_size(usual)

    @property
    def silent_seconds(self) -> float:
        """The seconds since the current piece of work began or gave way; 0 if there is none."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    async def do(self, work: Callable[..., T], *args: Any, yields: float = 0.0) -> T:
        """Do a piece of work after those with earlier turns, see `turn_of`; return its result, or raise what it raises.

        If the caller is cancelled, the work doesn't begin, or ends where it gives way (see `give_way`).
        """
        waiting = _Work(partial(work, *args), yields)
        self._queue.put((turn_of(yields), next(self._numbers), waiting))
        try:
            found: T = await asyncio.wrap_future(waiting.future)
        except asyncio.CancelledError:
            waiting.given_up = True
            raise
        return found

    def close(self) -> None:
        """Wait for the current piece of work, and end the thread without beginning another."""
        self._queue.put((_FIRST, next(self._numbers), None))
        self._thread.join()

    def give_way(self) -> None:
        """See the function `give_way`."""
        current = self._work
        assert current, "only work gives way"
        with self._queue.mutex:
            waiting = [work for _, _, work in sorted(self._queue.queue)]
        for work in waiting:
            if work and work.yields < current.yields * _HALF and not current.given_up:
                self._do(work)
        if current.given_up:
            raise GivenUp
        self._began = time.monotonic()

    def _run(self) -> None:
        _here.lane = self
        while (work := self._queue.get()[2]) is not None:
            self._do(work)
            del work  # it may keep a model

    def _do(self, work: _Work) -> None:
        call, work.call = work.call, None
        if call is None or not work.future.set_running_or_notify_cancel():
            return
        before, self._work = self._work, work
        self._began = time.monotonic()
        try:
            settle = partial(work.future.set_result, call())
        except BaseException as error:
            settle = partial(work.future.set_exception, error)
        self._work = before
        self._began = None if before is None else time.monotonic()
        settle()


class _Here(threading.local):
    """The lane of this thread, if it is one's."""

    lane: Lane | None = None


_here = _Here()


def give_way() -> None:
    """Let waiting work go first that is much smaller than the current work of this thread's lane, if it is a lane's.

    Call this between pieces of work that are large together. Each such piece is a sign of life. Raise `GivenUp` if the
    work's caller is cancelled.
    """
    if _here.lane:
        _here.lane.give_way()
