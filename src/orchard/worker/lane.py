"""A time limit for work that might never end."""

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


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
