"""Threads for MLX's work."""

import asyncio
import atexit
import gc
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

import mlx.core as mx

from orchard.device.kernel_folder import keep_kernels

T = TypeVar("T")

_SECONDS_TO_END = 10.0

_Tasks = queue.SimpleQueue[tuple[Callable[[], None], Callable[[], None]]]
_idle_threads: list[_Tasks] = []  # one for each idle thread


def run_in_lasting_thread(work: Callable[[], None], done: Callable[[], None]) -> None:
    """Do a piece of work, which must not raise, in a thread that never ends; then call `done` there.

    When a thread ends, MLX's thread-local state takes the interpreter's lock; if the interpreter is ending, too, that
    aborts the process. So the thread stays and waits for other work.
    """
    try:
        tasks = _idle_threads.pop()
    except IndexError:
        tasks = queue.SimpleQueue()
        threading.Thread(target=_run_tasks, args=(tasks,), name="engine", daemon=True).start()
    tasks.put((work, done))


def _run_tasks(tasks: _Tasks) -> None:
    keep_kernels()
    while True:
        work, done = tasks.get()
        work()
        _idle_threads.append(tasks)
        done()
        del work, done  # they must not keep an engine alive


class MlxThread:
    """A thread that does one piece of a model's work after the other, until it is closed."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._busy_since: float | None = None
        self.mlx_bytes = 0
        """The bytes that MLX held when the current or last piece of work began."""
        self._closed = threading.Event()
        # If the interpreter ends while a thread is inside MLX, the process aborts.
        atexit.register(self._end)
        run_in_lasting_thread(self._work, self._closed.set)

    @property
    def silent_seconds(self) -> float:
        """The seconds that the current piece of work has taken so far; 0 if there is none."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    def advance(self) -> None:
        """Count the rest of the current work as a new piece, because a part of it is done. Call this in the thread."""
        self._busy_since = time.monotonic()
        self.mlx_bytes = mx.get_active_memory() + mx.get_cache_memory()

    async def do(self, work: Callable[..., T], *args: Any) -> T:
        """Do a piece of work after the earlier ones and return its result; don't begin if the caller is cancelled."""
        future: Future[T] = Future()
        self._inbox.put((future, partial(work, *args)))
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Finish all work, free MLX's unused memory and release the thread."""
        self._inbox.put(None)
        await asyncio.to_thread(self._closed.wait)

    def _end(self) -> None:
        self._inbox.put(None)
        self._closed.wait(_SECONDS_TO_END)

    def _work(self) -> None:
        while item := self._inbox.get():
            future, work = item
            if future.set_running_or_notify_cancel():
                self.advance()
                try:
                    settle = partial(future.set_result, work())
                except BaseException as error:
                    settle = partial(future.set_exception, error)
                self._busy_since = None
                settle()
                del settle
            del item, future, work  # they may keep a model alive
        gc.collect()
        mx.clear_cache()
        atexit.unregister(self._end)
