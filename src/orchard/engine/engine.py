"""The engine's thread: it alone loads, evaluates and frees what belongs to MLX."""

import atexit
import gc
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

import mlx.core as mx
from msgspec.structs import replace

from orchard.core.options import TextOptions
from orchard.engine.fit import fit
from orchard.engine.job import Job, Step
from orchard.engine.model import Model
from orchard.engine.runner import Runner

log = logging.getLogger("orchard.engine")

M = TypeVar("M", bound=Model)

_CRASHED = 70  # sysexits.h: EX_SOFTWARE
_STEPS_PER_CLEAR = 256
_READ_TOKENS_PER_CLEAR = 4096
_SECONDS_UNTIL_IDLE_CLEAR = 5.0
_SECONDS_UNTIL_SAVING = 0.5  # the next turn of a conversation mostly comes sooner, and would have to wait
_SECONDS_TO_END = 10.0
_SECONDS_TO_SAVE = 5.0


class Engine(Generic[M]):
    """Runs jobs on a model of its own. Every method may be called from any thread and returns at once."""

    def __init__(self, load: Callable[[], M], deliver: Callable[[Step], None], options: TextOptions) -> None:
        """`load` and `deliver` are called in the engine's thread; `deliver` gets each step that brought news."""
        self._load = load
        self._deliver = deliver
        self._options = options
        self._inbox: queue.SimpleQueue[Callable[[Runner], None] | None] = queue.SimpleQueue()
        self._fetching: set[str] = set()  # jobs whose prompts come from the disk; the engine's thread alone uses it
        self._saves_from = 0.0
        self._ready: Future[M] = Future()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._main, name="engine", daemon=True)

    def start(self) -> "Future[M]":
        """Begin to load; the future gives the warm model or the exception that loading raised."""
        # A thread that the interpreter's end finds within MLX aborts the process.
        atexit.register(self._end)
        self._thread.start()
        return self._ready

    def submit(self, job: Job) -> None:
        """Queue a job. It must be valid: every token id in the vocabulary, at most `max_rows` choices."""
        self._inbox.put(lambda runner: self._add(runner, job))

    def cancel(self, job_id: str, choice: int | None = None) -> None:
        """Forget a job, or one choice of it (which must have begun), before the next step.

        A step under way may still deliver tokens of it.
        """
        self._inbox.put(lambda runner: self._cancel(runner, job_id, choice))

    def report(self, done: Callable[[dict[str, int]], None]) -> None:
        """Let `done` have the prefix cache's numbers, in the engine's thread."""
        self._inbox.put(lambda runner: done(runner.store.numbers()))

    def close(self) -> None:
        """Stop after the step under way and free the model."""
        self._inbox.put(None)

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds until the model is free; says whether it is."""
        return self._closed.wait(timeout)

    def _end(self) -> None:
        self.close()
        self.join(_SECONDS_TO_END)

    def _main(self) -> None:
        try:
            self._live()
            gc.collect()
            mx.clear_cache()
        except BaseException:
            # A live socket in front of a dead engine would leave callers hanging: the whole process goes, at once.
            log.critical("the engine broke; this worker ends", exc_info=True)
            logging.shutdown()
            os._exit(_CRASHED)
        atexit.unregister(self._end)
        self._closed.set()
        # The thread itself stays: MLX's thread-local state takes the interpreter's lock when a thread ends, and where
        # the interpreter is ending too, that aborts the process.
        threading.Event().wait()

    def _live(self) -> None:
        """From loading to closing; nothing of the model is left when this returns."""
        try:
            model = self._load()
            runner = fit(model, self._options, lambda: self._inbox.put(lambda _: None))
        except Exception as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(model)
        del self._ready, model  # they must not keep the model
        self._loop(runner)
        runner.store.close(_SECONDS_TO_SAVE)

    def _loop(self, runner: Runner) -> None:
        steps = 0
        read = 0
        told = (0, 0)
        while self._take(runner):
            step = runner.step()
            numbers = step.running, step.waiting + len(self._fetching)
            if step.begun or step.drawn or step.broken or told != numbers:
                told = numbers
                self._deliver(replace(step, waiting=numbers[1]))
            steps += 1
            if steps >= _STEPS_PER_CLEAR or runner.read_tokens - read >= _READ_TOKENS_PER_CLEAR:
                steps, read = 0, runner.read_tokens
                mx.clear_cache()

    def _take(self, runner: Runner) -> bool:
        """Do what was asked since the last step, waiting while there is nothing to do; False: close."""
        while True:
            wait = self._wait(runner)
            try:
                message = self._inbox.get(wait > 0, wait)
            except queue.Empty:
                if not runner.idle:
                    return True
                if wait < _SECONDS_UNTIL_IDLE_CLEAR:
                    continue
                mx.clear_cache()
                message = self._inbox.get()
            if message is None:
                return False
            message(runner)

    def _wait(self, runner: Runner) -> float:
        """Give how long to wait for a message. Feeds the disk's thread when there was nothing to do for a while."""
        now = time.monotonic()
        if not runner.idle:
            self._saves_from = now + _SECONDS_UNTIL_SAVING
            return 0.0
        if now < self._saves_from:
            return self._saves_from - now
        return 0.0 if runner.store.tend() else _SECONDS_UNTIL_IDLE_CLEAR

    def _add(self, runner: Runner, job: Job) -> None:
        def fetched(runner: Runner) -> None:
            if job.id in self._fetching:  # else it was cancelled
                self._fetching.remove(job.id)
                runner.add(job)

        self._fetching.add(job.id)
        if job.embed or not runner.store.fetch(job.prompt, lambda: self._inbox.put(fetched)):
            fetched(runner)

    def _cancel(self, runner: Runner, job_id: str, choice: int | None) -> None:
        if choice is None:
            self._fetching.discard(job_id)
        runner.cancel(job_id, choice)
