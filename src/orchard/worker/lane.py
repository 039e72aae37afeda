"""Threads beside the event loop, for what would hold it up; and an end for what would never end."""

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
_FIRST = -1  # of sizes


class Lane:
    """One thread in which pieces of work take turns. Close it, or it stays."""

    def __init__(self, name: str) -> None:
        self._began: float | None = None
        self._queue: queue.PriorityQueue[tuple[int, int, Callable[[], Callable[[], None]] | None]] = (
            queue.PriorityQueue()
        )
        self._numbers = itertools.count()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        usual = threading.stack_size(_STACK_BYTES)  # llguidance recurses deeply
        self._thread.start()
        threading.stack_size(usual)

    @property
    def silent_seconds(self) -> float:
        """How long the thread has been at its present piece of work; 0: it has none."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    async def do(self, work: Callable[..., T], *args: Any, size: int = 0) -> T:
        """Do a piece of work, after the one under way, smaller ones, and equal ones that came before.

        Where the caller is cancelled first, it is not begun.
        """
        future: Future[T] = Future()
        self._queue.put((size, next(self._numbers), partial(_done, future, partial(work, *args))))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Wait for the piece under way, and end the thread; nothing is begun any more."""
        self._queue.put((_FIRST, next(self._numbers), None))
        self._thread.join()

    def _run(self) -> None:
        while (work := self._queue.get()[2]) is not None:
            self._began = time.monotonic()
            settle = work()
            self._began = None
            settle()
            del work, settle  # they may keep a model


def _done(future: Future[T], work: Callable[[], T]) -> Callable[[], None]:
    """Do a piece of work that nobody has given up; return what tells the future of it."""
    if not future.set_running_or_notify_cancel():
        return lambda: None
    try:
        return partial(future.set_result, work())
    except BaseException as error:
        return partial(future.set_exception, error)


class _Overdue(BaseException):
    """Raised within work that has taken too long. No handler of its own catches it."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do a piece of work in this thread; raise TimeoutError where it takes longer.

    It ends between two steps of Python's: native code that does not return is not ended.
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
