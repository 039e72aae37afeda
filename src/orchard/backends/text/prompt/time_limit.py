"""A time limit for work that might never end."""

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_RETRY_SECONDS = 0.1


class _Overdue(BaseException):
    """Raised inside work that takes too long. Handlers of `Exception` in that work don't catch it."""


# Made once, so that each use is a single call: see `run_with_time_limit`.
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_OVERDUE = ctypes.py_object(_Overdue)


def run_with_time_limit(seconds: float, work: Callable[[], T]) -> T:
    """Do a piece of work in this thread and return its result; raise TimeoutError if it takes longer than `seconds`.

    The work is interrupted between two bytecodes of Python, again and again until it ends: a handler may catch the
    exception, and Python drops an exception in a callback of native code. Native code itself is not interrupted.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    done = threading.Event()
    ended = late = False

    def watch() -> None:
        nonlocal late
        pause = seconds
        while not done.wait(pause):
            pause = _RETRY_SECONDS
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
        done.set()
        if late:
            raise TimeoutError from None
