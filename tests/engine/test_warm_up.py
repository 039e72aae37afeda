"""An engine that serves while its model is still calibrated and warmed up."""

import gc
import queue
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.engine import runner as runner_module
from orchard.engine import start
from orchard.engine.batching.job import EngineStep, Job
from orchard.engine.engine import Engine
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.ticket import Limits
from tests.support.engine_driver import greedy, prompt, wait_until_warm
from tests.support.grammars import lark
from tests.support.tiny_models import Other, alone, footprint, make_runner, network


class Warming:
    """An engine whose start has units that the test steers: each waits until `go_on` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, failure: Exception | None = None) -> None:
        """The second unit raises `failure`, if there is one."""
        self.steps: queue.Queue[EngineStep] = queue.Queue()
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.ended = threading.Event()
        monkeypatch.setattr("orchard.engine.engine._SECONDS_BEFORE_UNITS", 0.0)
        monkeypatch.setattr(start._Start, "_finish", lambda *_: self._units(failure))
        self.engine: Engine[TextModel] = Engine(
            lambda: load_text_model(str(folder)), self.steps.put, TextOptions(speculation="off")
        )
        self.model = self.engine.start().result(60)

    def _units(self, failure: Exception | None) -> Iterator[None]:
        try:
            yield
            if failure:
                raise failure
            self.begun.set()
            while not self.go_on.is_set():
                yield
        finally:
            self.ended.set()

    def tokens(self, job: Job) -> list[list[int]]:
        """Run a job to its end; return each choice's tokens."""
        self.engine.add_job(job)
        answers: list[list[int]] = [[] for _ in range(job.choices)]
        left = job.choices
        while left:
            for drawn in (step := self.steps.get(timeout=60)).tokens:
                if drawn.job == job.id:
                    answers[drawn.choice].append(drawn.sample.token)
                    left -= drawn.reason is not None
            assert not step.failures
        return answers

    def close(self) -> None:
        self.engine.close()
        assert self.engine.join(60)


def jobs() -> list[Job]:
    sampled = SamplingParams(seed=5, temperature=0.8, top_p=0.9)
    return [
        greedy("greedy", prompt(0, 12), 9),
        Job("several", prompt(1, 30), sampled, 7, 3),
        greedy("bound", prompt(2, 12), 20, grammar=lark('start: "yes" | "no"')),
    ]


def test_it_answers_while_it_warms_up(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warming = Warming(monkeypatch, model_folder)
    assert warming.begun.wait(60)
    during = [warming.tokens(job) for job in jobs()]
    warming.engine.add_job(greedy("cancelled", prompt(3, 9), 10**9))
    while not any(drawn.job == "cancelled" for drawn in warming.steps.get(timeout=60).tokens):
        pass
    warming.engine.cancel("cancelled")
    assert warming.engine.is_warming_up
    warming.go_on.set()
    wait_until_warm(warming.engine)
    assert warming.ended.is_set()
    assert [warming.tokens(job) for job in jobs()] == during == [alone(warming.model, job) for job in jobs()]
    warming.close()


@pytest.mark.parametrize("failure", [RuntimeError("unlucky"), MemoryError("std::bad_alloc")])
def test_a_unit_that_fails_ends_the_warm_up_alone(
    failure: Exception, model_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    warming = Warming(monkeypatch, model_folder, failure)
    wait_until_warm(warming.engine)
    assert warming.ended.is_set()
    assert ("the warm-up failed" if isinstance(failure, RuntimeError) else "memory ran out") in caplog.text
    job = greedy("a", prompt(0, 12), 9)
    assert warming.tokens(job) == alone(warming.model, job)
    warming.close()


def test_a_model_is_freed_while_it_warms_up(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warming = Warming(monkeypatch, model_folder)
    assert warming.begun.wait(60)
    loaded: weakref.ref[Any] = weakref.ref(warming.model.network)
    del warming.model
    warming.engine.add_job(greedy("a", prompt(0, 12), 10**9))
    warming.close()
    assert warming.ended.is_set()
    gc.collect()
    assert loaded() is None


def test_memory_may_shrink_while_it_warms_up(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warming = Warming(monkeypatch, model_folder)
    assert warming.begun.wait(60)
    job = greedy("a", prompt(0, 200), 9)
    warming.engine.limit_memory(warming.engine.weights_bytes, warming.engine.weights_bytes + 2**30)
    warming.engine.add_job(job)
    while not warming.steps.get(timeout=60).starved_jobs:
        pass
    warming.engine.limit_memory(warming.engine.weights_bytes + 2**30, warming.engine.weights_bytes + 2**30)
    answer: list[int] = []
    while len(answer) < 9:
        answer += [drawn.sample.token for drawn in warming.steps.get(timeout=60).tokens]
    assert [answer] == alone(warming.model, job)
    warming.close()


def test_an_error_of_the_steps_before_a_unit_leaves_the_unit_to_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Metal, a step's lack of memory is reported late: when the unit after it begins."""
    model = Other(network("qwen3"))
    model.fingerprint = "late errors"
    runner, units = start.make_runner(model, TextOptions(), 0, lambda: None)
    runner.add(greedy("a", prompt(0, 20), 40))
    for _ in range(5):
        runner.step()
    failures = iter(["[METAL] Command buffer execution failed: Insufficient Memory"])

    def raise_once() -> None:
        for message in failures:
            raise RuntimeError(message)

    monkeypatch.setattr(runner_module, "raise_late_errors", raise_once)
    done: list[str] = []

    def run_unit() -> bool:
        next(units)
        done.append("unit")
        return True

    assert runner.work_beside(run_unit)
    assert not done
    assert runner.work_beside(run_unit)
    assert done == ["unit"]


def test_work_beside_a_long_answer_waits_for_the_memory_that_the_answer_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchard.engine.job_size.GROWTH", 0)
    model, memory = network("qwen3"), 2**17
    size = footprint(model, TextOptions())
    most = (3 * memory // 4 - size.bytes(0)) // (size.bytes(2) - size.bytes(1))
    runner = make_runner(model, Limits(max_rows=4, memory_bytes=memory, chunk=64, idle_chunk=64))
    runner.add(job := greedy("a", prompt(0, 20), most))
    runner.reserve(memory)
    answer: list[int] = []
    done: list[int] = []

    def work() -> bool:
        done.append(len(answer))
        return True

    while len(answer) < most:
        step = runner.step()
        assert (step.waiting, step.failures) == (0, [])  # it is not preempted
        answer += [drawn.sample.token for drawn in step.tokens]
        assert runner.work_beside(work)
    assert [answer] == alone(model, job)
    assert done[-1] == most  # the row has ended
    assert sorted({*done[:-1]}) == list(range(done[-2] + 1))
    assert most // 4 < done[-2] < 3 * most // 4
