"""Threads for work that would block the event loop. Smaller work overtakes larger work, even if that has begun."""

import asyncio
import itertools
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

from orchard.core.errors import catch_panics

T = TypeVar("T")

_STACK_BYTES = 16 * 2**20
_POLLING_SECONDS = 0.02
_FIRST_TURN = float("-inf")  # before everything that waits
_OVERTAKE_SHARE = 0.5  # what overtakes has less than this share of the yield_seconds, so few interruptions nest


def turn_of(yield_seconds: float) -> float:
    """Return the turn of a piece of work that is queued now; work with the earliest turn goes first.

    Smaller work that is queued in the next `yield_seconds` goes before large work; work that is queued later doesn't.
    So nothing waits forever.
    """
    return time.monotonic() + yield_seconds


class CallerCancelled(BaseException):
    """Raised inside work whose caller is cancelled. Handlers of `Exception` in that work don't catch it."""


class _LaneWork:
    """A piece of work; `call` is None once it has begun."""

    def __init__(self, call: Callable[[], Any], yield_seconds: float) -> None:
        self.call: Callable[[], Any] | None = call
        self.yield_seconds = yield_seconds
        self.future: Future[Any] = Future()
        self.caller_cancelled = False


class Lane:
    """A thread that does one piece of work after the other, until it is closed."""

    def __init__(self, name: str) -> None:
        self._began: float | None = None
        self._work: _LaneWork | None = None
        self._beside: list[float] = []  # when each call began that runs in another thread
        self._queue: queue.PriorityQueue[tuple[float, int, _LaneWork | None]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        usual = threading.stack_size(_STACK_BYTES)  # llguidance recurses deeply
        self._thread.start()
        threading.stack_size(usual)

    @property
    def silent_seconds(self) -> float:
        """The seconds since the current work began or gave way, or since its oldest `run_beside` began; 0 when idle."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - min((began, *self._beside))

    async def do(self, work: Callable[..., T], *args: Any, yield_seconds: float = 0.0) -> T:
        """Do a piece of work after those with earlier turns, see `turn_of`; return its result, or raise what it raises.

        If the caller is cancelled, the work doesn't begin, or ends where it gives way (see `give_way`).
        """
        waiting = _LaneWork(partial(work, *args), yield_seconds)
        self._queue.put((turn_of(yield_seconds), next(self._numbers), waiting))
        try:
            found: T = await asyncio.wrap_future(waiting.future)
        except asyncio.CancelledError:
            waiting.caller_cancelled = True
            raise
        return found

    def close(self) -> None:
        """Wait for the current piece of work, and end the thread without beginning another."""
        self._queue.put((_FIRST_TURN, next(self._numbers), None))
        self._thread.join()

    def give_way(self) -> None:
        """See the function `give_way`."""
        assert self._work, "only work gives way"
        self._let_overtake(self._work)
        self.check_cancelled()
        self._began = time.monotonic()

    def check_cancelled(self) -> None:
        """See the function `check_cancelled`."""
        if self._work and self._work.caller_cancelled:
            raise CallerCancelled

    def run_beside(self, call: Callable[[], T]) -> T:
        """See the function `run_beside`."""
        current, result = self._work, Future[T]()
        assert current, "only work is done beside other work"
        threading.Thread(target=_settle, args=(result, call), daemon=True).start()  # raises if no thread is left
        began = time.monotonic()
        self._beside.append(began)
        while not wait([result], _POLLING_SECONDS).done:
            self._let_overtake(current)
        self._beside.remove(began)
        self.give_way()
        return result.result()

    def _let_overtake(self, current_work: _LaneWork) -> None:
        with self._queue.mutex:
            waiting = [work for _, _, work in sorted(self._queue.queue)]
        for work in waiting:
            if work and work.yield_seconds < current_work.yield_seconds * _OVERTAKE_SHARE:
                self._do(work)

    def _run(self) -> None:
        _current.lane = self
        while (work := self._queue.get()[2]) is not None:
            self._do(work)
            del work  # it may keep a model alive

    def _do(self, work: _LaneWork) -> None:
        call, work.call = work.call, None
        if call is None or not work.future.set_running_or_notify_cancel():
            return
        before, self._work = self._work, work
        self._began = time.monotonic()
        settle = _outcome(work.future, call)
        self._work = before
        self._began = None if before is None else time.monotonic()
        settle()


def _outcome(future: "Future[Any]", call: Callable[[], Any]) -> Callable[[], None]:
    """Call a function, and return a second one that stores the result or the error in a future."""
    try:
        with catch_panics():
            return partial(future.set_result, call())
    except BaseException as error:
        return partial(future.set_exception, error)


def _settle(future: "Future[Any]", call: Callable[[], Any]) -> None:
    _outcome(future, call)()


class _CurrentLane(threading.local):
    """The lane that this thread belongs to, if any."""

    lane: Lane | None = None


_current = _CurrentLane()


def give_way() -> None:
    """In a lane's thread, first do the waiting work that is much smaller than the current work.

    Call this between the parts of large work. Each call is a sign of life. Raise `CallerCancelled` if the work's caller
    is cancelled.
    """
    if _current.lane:
        _current.lane.give_way()


def check_cancelled() -> None:
    """In a lane's thread, raise `CallerCancelled` if the caller of the current work is cancelled."""
    if _current.lane:
        _current.lane.check_cancelled()


def run_beside(call: Callable[[], T]) -> T:
    """Call a long function of native code, which releases the interpreter's lock, and return its result.

    In a lane's thread, run the function in another thread, and do the lane's smaller work meanwhile. If the caller of
    the current work is cancelled, raise `CallerCancelled` only when the function ends, so that few such threads run.
    """
    return _current.lane.run_beside(call) if _current.lane else call()
