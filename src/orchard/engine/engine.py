"""The engine's thread: the only thread that uses MLX. It loads the model, runs jobs on it and frees it."""

import atexit
import gc
import logging
import os
import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import mlx.core as mx
from msgspec.structs import replace

from orchard.core.speculation_report import SpeculationReport
from orchard.core.tasks.text_options import TextOptions
from orchard.device.memory import limit_device
from orchard.device.mlx_thread import run_in_lasting_thread
from orchard.device.out_of_memory import is_out_of_memory
from orchard.engine import memory
from orchard.engine.batching.batch import BatchMode
from orchard.engine.batching.job import EngineStep, Job
from orchard.engine.batching.model import LanguageModel
from orchard.engine.drafting.head import PredictionHead
from orchard.engine.ranks.group import RankGroup
from orchard.engine.runner import Runner
from orchard.engine.speculation.speculation import Speculation
from orchard.engine.start import Units, make_runner

log = logging.getLogger("orchard.engine")

M = TypeVar("M", bound=LanguageModel)


class Peak(NamedTuple):
    """The bytes that MLX held at most in a step, and those that were planned for it, with the weights."""

    taken_bytes: int = 0
    planned_bytes: int = 0


_CRASH_STATUS = 70  # sysexits.h: EX_SOFTWARE
_SECONDS_UNTIL_IDLE_CLEAR = 5.0
_SECONDS_UNTIL_SAVING = 0.5  # most next turns of a conversation come sooner, and saving would delay them
_SECONDS_BETWEEN_USES = 0.25
_SECONDS_BEFORE_UNITS = 0.5  # the request for which the model was loaded comes first
_LEAST_SECONDS_BETWEEN_UNITS = 0.1
_SECONDS_TO_END = 10.0
_SECONDS_TO_SAVE = 5.0
_SECONDS_FOR_FILES = 5.0  # a worker that still saves to the folder leaves it in this time
_LOADING_SHARE = 0.8  # of the reported progress; the rest is calibration and warm-up


class Engine(Generic[M]):
    """Runs jobs on its own model. Any thread may call its public methods; all but `join` return at once."""

    def __init__(
        self,
        load: Callable[[], M],
        deliver: Callable[[EngineStep], None],
        options: TextOptions,
        progress: Callable[[float], None] = lambda fraction: None,
        load_draft: Callable[[M], LanguageModel | PredictionHead | None] = lambda model: None,
    ) -> None:
        """`load`, `deliver`, `progress` and `load_draft` are called in the engine's thread.

        `load` may call `advance`. `load_draft` gets the loaded model and returns its draft model or MTP head, or None.
        `deliver` gets each step that has news. `progress` gets the fraction of the start that is done, from 0 to 1.
        """
        self._load = load
        self._deliver = deliver
        self._options = options
        self._progress = progress
        self._load_draft = load_draft
        self._busy_since: float | None = None
        self.mlx_bytes = 0
        """The bytes that MLX held when the current piece of work began."""
        self.weights_bytes = 0
        """The bytes that the ready model takes without jobs, including what it may keep of earlier jobs."""
        self.batch_mode = BatchMode.SEQUENTIAL
        """Which rows of the ready model share a forward pass."""
        self._speculation: Speculation | None = None
        self.is_warming_up = False
        """Whether the ready model is still being calibrated or warmed up."""
        self._units_from = self._next_unit_at = 0.0
        self.in_pieces = True
        """Whether the ready model can prefill prompts in chunks."""
        self.use = memory.Use()
        """What the rows and the cached prompts of the ready model took a moment ago."""
        self.read_tokens: Mapping[str, int] = {}
        """How many tokens of their prompts the jobs in prefill had read a moment ago, by id."""
        self.peak = Peak()
        """The step that took most memory so far."""
        self._inbox: queue.SimpleQueue[Callable[[Runner], None] | None] = queue.SimpleQueue()
        self._use_noted_at = 0.0
        self._limit = 0
        self._has_exceeded_plan = False
        self._fetching: set[str] = set()  # jobs whose prompts are read from disk; for the engine's thread only
        self._saves_from = 0.0
        self._save_seconds = _SECONDS_TO_SAVE
        self._ready: Future[M] = Future()
        self._closed = threading.Event()

    @property
    def silent_seconds(self) -> float:
        """The seconds that the current step or phase of loading has taken so far; 0 if the engine is idle."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def speculation_report(self) -> SpeculationReport:
        """The results of speculative decoding so far, by source; empty if there is no speculation."""
        return self._speculation.controller.totals if self._speculation else {}

    def start(self) -> "Future[M]":
        """Begin to load; return a future of the warm model, or of the exception that loading raised."""
        # If the interpreter ends while a thread is inside MLX, the process aborts.
        atexit.register(self._end)
        self._begin_work()
        self._limit = memory.memory_limit(self._options)
        limit_device(self._limit)
        ready = self._ready
        run_in_lasting_thread(self._main, self._closed.set)
        return ready

    def advance(self, fraction: float) -> None:
        """Report the fraction of `load` that is done. Only the engine's thread may call this."""
        self._begin_work()
        self._progress(_LOADING_SHARE * fraction)

    def add_job(self, job: Job) -> None:
        """Queue a job. It must be valid: every token id in the vocabulary, at most `max_rows` choices."""
        self._inbox.put(lambda runner: self._add(runner, job))

    def cancel(self, job_id: str, choice: int | None = None) -> None:
        """Cancel a job, or one choice of it (which must have begun), before the next step.

        The current step may still deliver its tokens. Unknown ids are ignored.
        """
        self._inbox.put(lambda runner: self._cancel(runner, job_id, choice))

    def pause(self, job_id: str) -> None:
        """Stop a job at the next step and free its memory, until it is resumed. Unknown ids are ignored."""
        self._inbox.put(lambda runner: runner.pause(job_id))

    def resume(self, job_id: str) -> None:
        """Continue a paused job from its tokens. Unknown ids are ignored."""
        self._inbox.put(lambda runner: runner.resume(job_id))

    def report(self, callback: Callable[[dict[str, int]], None]) -> None:
        """Call `callback` with the prefix cache's counters, in the engine's thread."""
        self._inbox.put(lambda runner: callback(runner.store.counters()))

    def limit_memory(self, memory_bytes: int, most_bytes: int) -> None:
        """Limit weights, KV caches and cached prompts together to `memory_bytes`, from the next step on.

        `most_bytes`: what that would be if nothing else took memory. A job that needs more than this is rejected; one
        that needs more than `memory_bytes` waits.
        """
        self._limit = memory_bytes
        limit_device(memory_bytes)
        self._options = options = replace(self._options, memory_limit=max(memory_bytes, most_bytes))
        self._inbox.put(
            lambda runner: runner.limit_memory(memory.divide_memory(options, self.weights_bytes, memory_bytes))
        )

    def close(self, save_seconds: float = _SECONDS_TO_SAVE) -> None:
        """Stop after the current step, save cached prompts for at most `save_seconds`, and free the model."""
        self._save_seconds = save_seconds
        self._inbox.put(None)

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds until the model is freed; return whether it is."""
        return self._closed.wait(timeout)

    def _end(self) -> None:
        self.close()
        self.join(_SECONDS_TO_END)

    def _main(self) -> None:
        try:
            self._load_and_run()
            self._begin_work()
            gc.collect()
            mx.clear_cache()
        except BaseException:
            # End the whole process: with a live socket and a dead engine, callers would wait forever.
            log.critical("the engine broke; this worker ends", exc_info=True)
            logging.shutdown()
            os._exit(_CRASH_STATUS)
        atexit.unregister(self._end)
        self._note_idle()

    def _begin_work(self) -> None:
        """Note that another piece of work begins."""
        self._busy_since = time.monotonic()
        self.mlx_bytes = mx.get_active_memory() + mx.get_cache_memory()

    def _note_idle(self) -> None:
        """Note that the engine is idle."""
        self._begin_work()
        self._busy_since = None

    def _load_and_run(self) -> None:
        """Load the model and run jobs until the engine is closed. On return, nothing holds the model any more."""
        ready = self._ready
        del self._ready  # the future must not keep the model alive
        try:
            model = self._load()
            self._begin_work()
            draft = self._load_draft(model)
            self._begin_work()
            kept = getattr(model, "cache_bytes", 0)  # a vision model, for example, keeps encoded images
            self.weights_bytes = mx.get_active_memory() + kept
            wake = partial(self._inbox.put, lambda _: None)
            group: RankGroup | None = getattr(model, "group", None)
            runner, units = make_runner(
                model, self._options, self.weights_bytes, wake, self._report_preparation, draft=draft, group=group
            )
            self.batch_mode, self.in_pieces = runner.batch_mode, runner.store.in_pieces
            self.is_warming_up = True
            self._speculation = runner.speculation
            self._note_idle()  # the watchdog is for MLX, not for a slow disk or another worker that uses the folder
            runner.store.wait_for_files(_SECONDS_FOR_FILES)
        except Exception as error:
            traceback.clear_frames(error.__traceback__)  # the frames would keep the model alive
            ready.set_exception(error)
            return
        ready.set_result(model)
        self._units_from = self._next_unit_at = time.monotonic() + _SECONDS_BEFORE_UNITS
        del ready, model, draft
        self._loop(runner, units)
        runner.close(self._save_seconds)

    def _report_preparation(self, fraction: float) -> None:
        self._begin_work()
        self._progress(_LOADING_SHARE + (1 - _LOADING_SHARE) * fraction)

    def _loop(self, runner: Runner, units: Units) -> None:
        reported: tuple[int, int, list[str]] = (0, 0, [])
        while self._handle_messages(runner):
            self._begin_work()
            if self.is_warming_up and time.monotonic() >= (self._units_from if runner.is_idle else self._next_unit_at):
                self._run_unit(runner, units)
                continue  # somebody may have asked for something meanwhile
            mx.reset_peak_memory()
            before, step = runner.planned_bytes, runner.step()
            # The device may still compute the step before, and rows that have left are freed in the next one.
            self._note_peak(mx.get_peak_memory(), max(before, runner.planned_bytes) + self.weights_bytes)
            jobs = step.running, step.waiting + len(self._fetching), step.starved_jobs
            if step.starts or step.scores or step.tokens or step.hidden_states or step.failures or reported != jobs:
                reported = jobs
                self._deliver(replace(step, waiting=jobs[1]))

    def _run_unit(self, runner: Runner, units: Units) -> None:
        """Run a unit of the calibration or the warm-up; if it fails, run no more.

        After it, jobs run for as long as it took, if there are any.
        """

        def run() -> bool:
            try:
                return next(units, self) is None
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                log.warning("the warm-up failed; requests may wait for what it has not done", exc_info=error)
                return False

        begin = time.monotonic()
        self.is_warming_up = runner.work_beside(run)
        if not self.is_warming_up:
            units.close()
            mx.clear_cache()
        self.batch_mode, self._speculation = runner.batch_mode, runner.speculation
        end = time.monotonic()
        self._next_unit_at = end + max(end - begin, _LEAST_SECONDS_BETWEEN_UNITS)

    def _note_peak(self, taken_bytes: int, planned_bytes: int) -> None:
        # Up to its limit, MLX may run ahead of the device, whatever was planned.
        if taken_bytes > max(planned_bytes, self._limit) and not self._has_exceeded_plan:
            self._has_exceeded_plan = True
            text = "a step took %s bytes of memory; %s were planned, and the model may take %s"
            log.warning(text, f"{taken_bytes:,}", f"{planned_bytes:,}", f"{self._limit:,}")
        if taken_bytes > self.peak.taken_bytes:
            self.peak = Peak(taken_bytes, planned_bytes)

    def _handle_messages(self, runner: Runner) -> bool:
        """Handle the messages since the last step; wait for one while idle. Return False if the engine must close."""
        while True:
            wait = self._seconds_to_wait(runner)
            if wait or time.monotonic() - self._use_noted_at > _SECONDS_BETWEEN_USES:
                self.use, self._use_noted_at = runner.use, time.monotonic()
                self.read_tokens = runner.read_tokens_by_job
            if wait:
                self._note_idle()
            try:
                message = self._inbox.get(wait > 0, wait)
            except queue.Empty:
                if not runner.is_idle or self.is_warming_up:
                    return True
                if wait < _SECONDS_UNTIL_IDLE_CLEAR:
                    continue
                mx.clear_cache()
                self._note_idle()
                message = self._inbox.get()
            self._begin_work()
            if message is None:
                return False
            message(runner)

    def _seconds_to_wait(self, runner: Runner) -> float:
        """Return how many seconds to wait for a message; after a short idle time, give cached prompts to the disk."""
        now = time.monotonic()
        if not runner.is_idle or self.is_warming_up:
            self._saves_from = now + _SECONDS_UNTIL_SAVING
            return max(self._units_from - now, 0.0) if runner.is_idle else 0.0
        if now < self._saves_from:
            return self._saves_from - now
        return 0.0 if runner.write_back() else _SECONDS_UNTIL_IDLE_CLEAR

    def _add(self, runner: Runner, job: Job) -> None:
        def add(runner: Runner) -> None:
            if job.id in self._fetching:  # otherwise it was cancelled
                self._fetching.remove(job.id)
                job.stopwatch.lap("restore")
                runner.add(job)

        job.stopwatch.lap("queue")
        self._fetching.add(job.id)
        wake = partial(self._inbox.put, add)
        if job.wants_hidden_state or not runner.fetch(job, wake):
            add(runner)

    def _cancel(self, runner: Runner, job_id: str, choice: int | None) -> None:
        if choice is None:
            self._fetching.discard(job_id)
        runner.cancel(job_id, choice)
