"""Drives a real engine in its thread: what jobs join, what they give, and who leaves at which of whose tokens."""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import msgspec
import pytest

from orchard.backends.text.model import load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.engine import calibration
from orchard.engine import engine as engine_module
from orchard.engine.batching import attention
from orchard.engine.batching.batch import BatchMode, VerifyMode
from orchard.engine.batching.job import EndReason, EngineStep, Job
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.model import LanguageModel
from orchard.engine.calibration import Calibration
from orchard.engine.engine import Engine
from orchard.engine.memory import memory_limit
from orchard.engine.prefix_cache.disk_io import DiskTier
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.step_work import estimate_step_work
from tests.support.models import make_architecture

WORDS = 300
_PATIENCE = 60.0
# Hundreds of engines start in tests. They are calibrated and warmed up only where a test waits for that, because it
# takes longer than what most tests ask of them. Until then, rows take turns, and nothing is proposed.
engine_module._SECONDS_BEFORE_UNITS = 3600.0


@dataclass
class Result:
    """What a job gave. A choice that was cancelled has no reason; `cached_tokens` is None where it never began."""

    tokens: list[list[int]]
    reasons: list[EndReason | None]
    cached_tokens: int | None = None
    broken: str | None = None

    @property
    def only(self) -> list[int]:
        """The tokens of a job of one choice."""
        (tokens,) = self.tokens
        return tokens


class At(NamedTuple):
    """The moment after the step that brought a job's n-th token, of all its choices; or the job's last, if earlier."""

    job: str
    tokens: int


class Leave(NamedTuple):
    """A cancellation of a job, or of one choice of it."""

    job: str
    choice: int | None = None


class Pause(NamedTuple):
    """A job is paused, as if its client read slowly."""

    job: str


class Resume(NamedTuple):
    """A paused job goes on."""

    job: str


class Squeeze(NamedTuple):
    """Other programs take all memory, until the next step with news."""


Happening = tuple[At, Job | Leave | Pause | Resume | Squeeze]


@dataclass
class _Run:
    """One call of `Driver.run`; only the engine's thread touches it, but for its beginning and its end."""

    engine: "Engine[Any]"
    memory_bytes: int
    prefix: str
    happenings: list[Happening]
    results: dict[str, Result] = field(default_factory=dict)
    open: dict[str, set[int]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    count: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    squeezed: bool = False
    done: threading.Event = field(default_factory=threading.Event)

    def join(self, job: Job) -> None:
        if job.id not in self.gone:
            self.engine.add_job(msgspec.structs.replace(job, id=self.prefix + job.id))

    def leave(self, leave: Leave) -> None:
        open_ = self.open[leave.job]
        open_ -= {leave.choice} if leave.choice is not None else set(open_)
        if not open_:
            self.gone.add(leave.job)
        # The engine forgets a whole job at its own word only: without its last choice it would still be one.
        self.engine.cancel(self.prefix + leave.job, leave.choice if open_ else None)

    def squeeze(self, squeezed: bool) -> None:
        self.squeezed = squeezed
        self.engine.limit_memory(self.engine.weights_bytes if squeezed else self.memory_bytes, self.memory_bytes)

    def take(self, step: EngineStep) -> None:
        if self.squeezed:
            self.squeeze(False)
        for begun in step.starts:
            self._begin(begun.job, begun.cached_tokens)
        for drawn in step.tokens:
            self._draw(drawn.job, drawn.choice, drawn.sample.token, drawn.reason)
        for broken in step.failures:
            if (name := self._name(broken.job)) is not None:
                self.results[name].broken = broken.message
                self.open[name].clear()
        self._happen()
        if not any(self.open.values()):
            self.done.set()

    def _name(self, job_id: str) -> str | None:
        """None: the job is of an earlier run."""
        return job_id.removeprefix(self.prefix) if job_id.startswith(self.prefix) else None

    def _begin(self, job_id: str, cached_tokens: int) -> None:
        if (name := self._name(job_id)) is None:
            return
        if self.results[name].cached_tokens is not None:
            self.wrong.append(f"{name} began twice")
        self.results[name].cached_tokens = cached_tokens

    def _draw(self, job_id: str, choice: int, token: int, reason: EndReason | None) -> None:
        if (name := self._name(job_id)) is None:
            return
        result = self.results[name]
        if result.cached_tokens is None:
            self.wrong.append(f"{name} brought a token before it began")
        if choice not in self.open[name]:
            self.wrong.append(f"choice {choice} of {name} brought a token after its end")
            return
        self.count[name] += 1
        result.tokens[choice].append(token)
        result.reasons[choice] = reason
        if reason:
            self.open[name].remove(choice)

    def _happen(self) -> None:
        """Let happen what is due, and what that makes due."""
        while due := [item for item in self.happenings if self._reached(item[0])]:
            self.happenings.remove(due[0])
            match due[0][1]:
                case Job() as job:
                    self.join(job)
                case Leave() as leave:
                    self.leave(leave)
                case Pause(job):
                    self.engine.pause(self.prefix + job)
                case Resume(job):
                    self.engine.resume(self.prefix + job)
                case Squeeze():
                    self.squeeze(True)

    def _reached(self, at: At) -> bool:
        return self.count[at.job] >= at.tokens or not self.open[at.job]


def wait_until_warm(engine: Engine[Any]) -> None:
    """Let the calibration and the warm-up of an engine that was started begin at once, and wait for their end."""
    while engine.is_warming_up:
        engine._units_from = engine._next_unit_at = 0.0  # the thread sets them once, as soon as it is ready
        between_units: Future[object] = Future()
        engine.report(between_units.set_result)
        between_units.result(_PATIENCE)


class Driver:
    """An engine that runs jobs while the caller waits. It is started, warm-up included, and must be closed."""

    def __init__(self, load_model: Callable[[], Any], **options: Any) -> None:
        """`options` are those of `TextOptions`."""
        self._run: _Run | None = None
        self._numbers = itertools.count()
        self._memory_bytes = memory_limit(TextOptions(**options))
        self._engine: Engine[Any] = Engine(load_model, self._deliver, TextOptions(**options))
        self.model = self._engine.start().result(_PATIENCE)
        wait_until_warm(self._engine)
        self.batch_mode = self._engine.batch_mode

    def run(self, jobs: Sequence[Job], happenings: Sequence[Happening] = ()) -> dict[str, Result]:
        """Submit `jobs` at once and the rest at its time; gives each job's result when all of them have ended."""
        every = [*jobs, *(act for _, act in happenings if isinstance(act, Job))]
        run = _Run(self._engine, self._memory_bytes, f"{next(self._numbers)}/", list(happenings))
        for job in every:
            run.results[job.id] = Result([[] for _ in range(job.choices)], [None] * job.choices)
            run.open[job.id] = set(range(job.choices))
        if self._run and self._run.squeezed:
            self._run.squeeze(False)
        self._run = run
        for job in jobs:
            run.join(job)
        assert run.done.wait(_PATIENCE), f"these never ended: {[name for name, left in run.open.items() if left]}"
        assert not run.wrong, run.wrong
        broken = {name: result.broken for name, result in run.results.items() if result.broken}
        assert not broken, broken
        return run.results

    def alone(self, job: Job) -> Result:
        """Run one job and nothing else."""
        return self.run([job])[job.id]

    def close(self) -> None:
        """Wait until the engine has saved its prompts and ended."""
        self.stop()
        self.join()

    def stop(self) -> None:
        """Let the engine save its prompts and end."""
        self._engine.close(_PATIENCE)

    def join(self) -> None:
        """Wait until the engine has ended."""
        assert self._engine.join(_PATIENCE)

    def _deliver(self, step: EngineStep) -> None:
        """In the engine's thread, between two steps: what is asked here holds from the next step on."""
        if self._run and not self._run.done.is_set():
            self._run.take(step)


def store_calibration(model: LanguageModel, options: TextOptions) -> None:
    """Store what tests of calibration show of a model, unless something is stored, so that its loads are quick."""
    name = calibration.calibration_key(model, options)
    if calibration.load_calibration(name):
        return
    attention.install_attention()
    known = Calibration(
        BatchMode.SHARED,
        batched_prefill=False,
        chunk=512,
        tokens_per_second=1e4,
        measured_at=time.time(),
        in_pieces=True,
        draws_from_prompt=calibration.draws_from_prompt(model, options),
        verify_mode=VerifyMode.TOGETHER,
        work=estimate_step_work(model),
    )
    calibration.save_calibration(name, known)


class Engines:
    """Engines on tiny models, one for each kind of model and set of options, each started when first asked for."""

    def __init__(self, base: Path) -> None:
        """`base` is where the models' folders are, or will be."""
        self._base = base
        self._drivers: dict[tuple[Any, ...], Driver] = {}
        self._alone: dict[tuple[str, mx.Dtype, str], Result] = {}

    def folder(self, kind: str, dtype: mx.Dtype = mx.float32) -> Path:
        """Give the folder of a model that no test writes to."""
        folder = self._base / f"tiny-{kind}-{str(dtype).rpartition('.')[2]}"
        if not folder.exists():
            folder.mkdir()
            self._make(folder, kind, dtype)
        return folder

    def get(self, kind: str, dtype: mx.Dtype = mx.float32, **options: Any) -> Driver:
        """Give an engine that other tests may have used, and will."""
        key = (kind, dtype, *sorted(options.items()))
        if key not in self._drivers:
            self._drivers[key] = self._start(kind, dtype, options)
        return self._drivers[key]

    def alone(self, kind: str, job: Job, dtype: mx.Dtype = mx.float32) -> Result:
        """Give what a job must give: what it gives alone in an engine that caches nothing and has the usual options."""
        key = (kind, dtype, repr(job))
        if key not in self._alone:
            self._alone[key] = self.get(kind, dtype, prompt_cache_bytes=0).alone(job)
        return self._alone[key]

    @contextmanager
    def fresh(self, kind: str, dtype: mx.Dtype = mx.float32, **options: Any) -> Iterator[Driver]:
        """Give an engine of the caller's own."""
        driver = self._start(kind, dtype, options)
        try:
            yield driver
        finally:
            driver.close()

    def close(self) -> None:
        """End all that were asked for."""
        for driver in self._drivers.values():
            driver.stop()
        for driver in self._drivers.values():
            driver.join()
        self._drivers.clear()

    def _make(self, folder: Path, kind: str, dtype: mx.Dtype) -> None:
        make_architecture(folder, kind, dtype)

    def _load(self, folder: Path, options: TextOptions) -> Any:
        return load_text_model(str(folder), options)

    def _start(self, kind: str, dtype: mx.Dtype, options: dict[str, Any]) -> Driver:
        folder, given = self.folder(kind, dtype), TextOptions(**options)

        def load() -> Any:
            model = self._load(folder, given)
            if mx.default_device() == mx.cpu and not given.max_kv_size:
                store_calibration(model, given)
            return model

        return Driver(load, **options)


def hold_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the files on disk be found no sooner than somebody waits for that."""
    waited = threading.Event()
    scan, wait = DiskTier._scan, KVStore.wait_for_files

    def held(disk: DiskTier) -> None:
        waited.wait(_PATIENCE)
        scan(disk)

    def waits(store: KVStore, timeout: float) -> None:
        waited.set()
        wait(store, timeout)

    monkeypatch.setattr(DiskTier, "_scan", held)
    monkeypatch.setattr(KVStore, "wait_for_files", waits)


def prompt(seed: int, length: int) -> list[int]:
    """Give random words; with one seed, the shorter prompt is the head of the longer; with two, no head is shared."""
    rng = random.Random(seed)
    return [seed % WORDS, *(rng.randrange(WORDS) for _ in range(length - 1))]


def greedy(name: str, tokens: list[int], count: int = 7, **fields: Any) -> Job:
    """Give a job that always takes the likeliest token."""
    return Job(name, tokens, SamplingParams(seed=0, temperature=0.0), count, **fields)
