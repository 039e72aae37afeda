"""Threads for work that would block the event loop, and a time limit for work that might never end."""

import asyncio
import ctypes
import itertools
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar

from orchard.backends.helper_process import GIVEN_UP

T = TypeVar("T")

_STACK_BYTES = 16 * 2**20
_FIRST = float("-inf")  # before everything that waits
_AGAIN_SECONDS = 0.1


def turn_of(yields: float) -> float:
    """Return the turn of a piece of work that is queued now; work with the earliest turn goes first.

    Large work lets smaller work that is queued in the next `yields` seconds go first, but none that is queued later.
    So nothing waits forever.
    """
    return time.monotonic() + yields


class _Piece(NamedTuple):
    """A piece of work, where its result goes, and whether its caller was cancelled."""

    work: Callable[[], Any]
    future: Future[Any]
    given_up: threading.Event


class Lane:
    """A thread that does one piece of work after the other, until it is closed."""

    def __init__(self, name: str) -> None:
        self._began: float | None = None
        self._queue: queue.PriorityQueue[tuple[float, int, _Piece | None]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        usual = threading.stack_size(_STACK_BYTES)  # llguidance recurses deeply
        self._thread.start()
        threading.stack_size(usual)

    @property
    def silent_seconds(self) -> float:
        """The seconds that the current piece of work has taken so far; 0 if there is none."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    async def do(self, work: Callable[..., T], *args: Any, yields: float = 0.0) -> T:
        """Do a piece of work after those with earlier turns, see `turn_of`; return its result, or raise what it raises.

        It doesn't begin if the caller is cancelled first. Later, `GIVEN_UP` is set in the lane's thread.
        """
        future: Future[T] = Future()
        given_up = threading.Event()
        self._queue.put((turn_of(yields), next(self._numbers), _Piece(partial(work, *args), future, given_up)))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            given_up.set()
            raise

    def close(self) -> None:
        """Wait for the current piece of work, and end the thread without beginning another."""
        self._queue.put((_FIRST, next(self._numbers), None))
        self._thread.join()

    def _run(self) -> None:
        while (piece := self._queue.get()[2]) is not None:
            work, future, given_up = piece
            if future.set_running_or_notify_cancel():
                self._began = time.monotonic()
                GIVEN_UP.set(given_up)
                try:
                    settle = partial(future.set_result, work())
                except BaseException as error:
                    settle = partial(future.set_exception, error)
                self._began = None
                settle()
                del settle
            del piece, work, future  # they may keep a model


class _Overdue(BaseException):
    """Raised inside work that takes too long. Handlers of `Exception` in that work don't catch it."""


# Made once, so that each use is a single call: see `within`.
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_OVERDUE = ctypes.py_object(_Overdue)


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do a piece of work in this thread and return its result; raise TimeoutError if it takes longer than `seconds`.

    It is interrupted between two bytecodes of Python, again and again until it ends: a handler may catch the exception,
    and Python drops one that is raised in a callback of native code. Native code itself is not interrupted.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    over = threading.Event()
    ended = late = False

    def watch() -> None:
        nonlocal late
        pause = seconds
        while not over.wait(pause):
            pause = _AGAIN_SECONDS
            if not ended:
                late = True
                _raise_in(thread, _OVERDUE)

    try:
        threading.Thread(target=watch, daemon=True).start()
        return work()
    finally:
        # The interpreter raises the exception, and changes threads, only behind a call, at a backward jump or at the
        # start of a function. So it does neither between the end of the work and the second line, nor in `if` above.
        ended = True
        _raise_in(thread, None)  # it may be on its way
        over.set()
        if late:
            raise TimeoutError from None
