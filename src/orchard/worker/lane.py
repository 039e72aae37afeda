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

T = TypeVar("T")

_STACK_BYTES = 16 * 2**20
_FIRST = float("-inf")  # before whatever waits


def turn_of(yields: float) -> float:
    """Return when the turn of something is that comes now: what is large lets smaller ones go first for a few seconds.

    What comes after that, however small, has a later turn. So nothing waits for as long as others come.
    """
    return time.monotonic() + yields


class Lane:
    """One thread that does one piece of work after the other, until it is closed."""

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
        """How long the present piece of work has taken so far; 0: there is none."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    async def do(self, work: Callable[..., T], *args: Any, yields: float = 0.0) -> T:
        """Do a piece of work, after the present one and those whose turn is before its own: see `turn_of`.

        It does not begin if the caller is cancelled first.
        """
        future: Future[T] = Future()
        self._queue.put((turn_of(yields), next(self._numbers), (future, partial(work, *args))))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Wait for the present piece of work, and end the thread without beginning another."""
        self._queue.put((_FIRST, next(self._numbers), None))
        self._thread.join()

    def _run(self) -> None:
        while (item := self._queue.get()[2]) is not None:
            future, work = item
            if future.set_running_or_notify_cancel():
                self._began = time.monotonic()
                try:
                    settle = partial(future.set_result, work())
                except BaseException as error:
                    settle = partial(future.set_exception, error)
                self._began = None
                settle()
                del settle
            del item, future, work  # they may keep a model


class _Overdue(BaseException):
    """Raised within work that takes too long. Its own handlers of `Exception` don't catch it."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do a piece of work in this thread; raise TimeoutError if it takes longer.

    It is interrupted between two steps of Python; native code that does not return is not interrupted.
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
