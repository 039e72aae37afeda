"""The engine's thread: it alone loads, evaluates and frees what belongs to MLX."""

import atexit
import gc
import logging
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

import mlx.core as mx

from orchard.engine.job import Job, SamplingParams, Step
from orchard.engine.model import Model
from orchard.engine.scheduler import Scheduler

log = logging.getLogger("orchard.engine")

M = TypeVar("M", bound=Model)

MAX_ROWS = 64
_CRASHED = 70  # sysexits.h: EX_SOFTWARE
_STEPS_PER_CLEAR = 256
_PREFILLED_TOKENS_PER_CLEAR = 1024
_SECONDS_UNTIL_IDLE_CLEAR = 5.0
_SECONDS_TO_END = 10.0


def prefill_chunk() -> int:
    """Give the number of prompt tokens read in one step: few enough that running streams barely notice."""
    return 256 if mx.default_device() == mx.cpu else 512


def warm(model: Model, chunk: int) -> None:
    """Run the shapes and kernels that serving uses, so that no request waits for their compilation."""
    scheduler = Scheduler(model, max_rows=2, prefill_chunk=chunk)
    # A whole chunk takes the CPU seconds with a large model, and there is nothing to compile for it.
    prompt = [0] * (17 if mx.default_device() == mx.cpu else chunk + 1)
    scheduler.add(Job("greedy", prompt, SamplingParams(seed=0, temperature=0.0), max_tokens=4))
    sampled = SamplingParams(
        seed=0, top_p=0.9, top_k=20, min_p=0.01, repetition_penalty=1.1, presence_penalty=0.1, top_logprobs=1
    )
    scheduler.add(Job("sampled", prompt, sampled, max_tokens=4))
    while not scheduler.idle:
        if broken := scheduler.step().broken:
            raise RuntimeError(broken[0].message)
    mx.clear_cache()


class Engine(Generic[M]):
    """Runs jobs on a model of its own. Every method may be called from any thread and returns at once."""

    def __init__(self, load: Callable[[], M], deliver: Callable[[Step], None], max_rows: int = MAX_ROWS) -> None:
        """`load` and `deliver` are called in the engine's thread; `deliver` gets each step that brought news."""
        self._load = load
        self._deliver = deliver
        self._max_rows = max_rows
        self._inbox: queue.SimpleQueue[Callable[[Scheduler], None] | None] = queue.SimpleQueue()
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
        self._inbox.put(lambda scheduler: scheduler.add(job))

    def cancel(self, job_id: str, choice: int | None = None) -> None:
        """Forget a job, or one choice of it, before the next step. A step under way may still deliver tokens of it."""
        self._inbox.put(lambda scheduler: scheduler.cancel(job_id, choice))

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
            chunk = prefill_chunk()
            warm(model, chunk)
        except Exception as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(model)
        del self._ready  # it must not keep the model
        self._loop(Scheduler(model, self._max_rows, chunk))

    def _loop(self, scheduler: Scheduler) -> None:
        steps = 0
        prefilled = 0
        told = (0, 0)
        while self._take(scheduler):
            step = scheduler.step()
            if step.drawn or step.broken or told != (step.running, step.waiting):
                told = (step.running, step.waiting)
                self._deliver(step)
            steps += 1
            if steps >= _STEPS_PER_CLEAR or scheduler.prefilled_tokens - prefilled >= _PREFILLED_TOKENS_PER_CLEAR:
                steps, prefilled = 0, scheduler.prefilled_tokens
                mx.clear_cache()

    def _take(self, scheduler: Scheduler) -> bool:
        """Do what was asked since the last step, waiting while there is nothing to do; False: close."""
        wait = scheduler.idle
        while True:
            try:
                message = self._inbox.get(wait, _SECONDS_UNTIL_IDLE_CLEAR)
            except queue.Empty:
                if not wait:
                    return True
                mx.clear_cache()
                message = self._inbox.get()
            if message is None:
                return False
            message(scheduler)
            wait = False
