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
from typing import Any, TypeVar

from orchard.core.errors import without_panics

T = TypeVar("T")

_STACK_BYTES = 16 * 2**20
_FIRST = float("-inf")  # before everything that waits


def turn_of(yields: float) -> float:
    """Return the turn of a piece of work that is queued now; work with the earliest turn goes first.

    Large work lets smaller work that is queued in the next `yields` seconds go first, but none that is queued later.
    So nothing waits forever.
    """
    return time.monotonic() + yields


class Lane:
    """A thread that does one piece of work after the other, until it is closed."""

    def __init__(self, name: str) -> None:
        self._began: float | None = None
        self._queue: queue.PriorityQueue[tuple[float, int, tuple[Future[Any], Callable[[], Any]] | None]] = (
            queue.PriorityQueue()
        )
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

        It doesn't begin if the caller is cancelled first.
        """
        future: Future[T] = Future()
        self._queue.put((turn_of(yields), next(self._numbers), (future, partial(work, *args))))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Wait for the current piece of work, and end the thread without beginning another."""
        self._queue.put((_FIRST, next(self._numbers), None))
        self._thread.join()

    def _run(self) -> None:
        while (item := self._queue.get()[2]) is not None:
            future, work = item
            if future.set_running_or_notify_cancel():
                self._began = time.monotonic()
                try:
                    with without_panics():
                        settle = partial(future.set_result, work())
                except BaseException as error:
                    settle = partial(future.set_exception, error)
                self._began = None
                settle()
                del settle
            del item, future, work  # they may keep a model


class _Overdue(BaseException):
    """Raised inside work that takes too long. Handlers of `Exception` in that work don't catch it."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do a piece of work in this thread and return its result; raise TimeoutError if it takes longer than `seconds`.

    It is interrupted between two bytecodes of Python; native code is not interrupted.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    done = False

    def end() -> None:
        with lock:
            if not done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_Overdue))

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        try:
            return work()
        finally:
            with lock:
                done = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, None)  # it may be on its way
            timer.cancel()
    except _Overdue:
        raise TimeoutError from None
