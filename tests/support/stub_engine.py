"""An engine that does only what the test says, in place of the one that computes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar

from orchard.core.speculation_report import SourceTotals
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batch import BatchMode
from orchard.engine.batching.job import DrawnToken, EngineStep, HiddenState, Job, JobFailure, JobStart
from orchard.engine.memory import Use


class StubEngine:
    """Loads its model at once, keeps jobs, and delivers the steps that the test makes up."""

    made: ClassVar[list["StubEngine"]] = []

    weights_bytes = 1234
    batch_mode = BatchMode.BY_LENGTH
    is_warming_up = True
    mlx_bytes = 5678
    speculation_report: ClassVar[dict[str, SourceTotals]] = {
        "ngram": SourceTotals(4, 3, 0.5),
        "prediction": SourceTotals(2, 0, -0.25),
    }

    def __init__(
        self,
        load: Callable[[], Any],
        deliver: Callable[[EngineStep], None],
        options: TextOptions,
        progress: Callable[[float], None],
        load_draft: Callable[[Any], None],
    ) -> None:
        self.options = options
        self.advance = progress
        self.silent_seconds = 0.0
        self.use = Use(10, 20, 30)
        self.read_tokens: dict[str, int] = {}
        self.memory_limits: list[tuple[int, int]] = []
        self.jobs: list[Job] = []
        self.cancelled: list[str] = []
        self.paused: list[str] = []
        self.counters: dict[str, int] | None = {"entries": 3}
        self._news = asyncio.Event()
        self._load = load
        self._deliver = deliver
        self.made.append(self)

    def start(self) -> "Future[Any]":
        ready: Future[Any] = Future()
        ready.set_result(self._load())
        return ready

    def add_job(self, job: Job) -> None:
        self.jobs.append(job)
        self._news.set()

    async def until(self, ids: set[str]) -> None:
        """Wait until there are jobs of these ids."""
        while not ids <= {job.id for job in self.jobs}:
            self._news.clear()
            await self._news.wait()

    def cancel(self, job_id: str, choice: int | None = None) -> None:
        self.cancelled.append(job_id)

    def pause(self, job_id: str) -> None:
        self.paused.append(job_id)

    def resume(self, job_id: str) -> None:
        self.paused.remove(job_id)

    def report(self, done: Callable[[dict[str, int]], None]) -> None:
        if self.counters is not None:
            done(self.counters)

    def limit_memory(self, memory_bytes: int, most_bytes: int) -> None:
        self.memory_limits.append((memory_bytes, most_bytes))

    def close(self, save_seconds: float) -> None:
        pass

    def join(self, timeout: float | None = None) -> bool:
        return True

    def step(
        self,
        *,
        begun: tuple[JobStart, ...] = (),
        drawn: tuple[DrawnToken, ...] = (),
        broken: tuple[JobFailure, ...] = (),
        hidden: tuple[HiddenState, ...] = (),
        running: int = 1,
    ) -> None:
        self._deliver(EngineStep(list(begun), list(drawn), list(broken), running, 0, hidden_states=list(hidden)))
