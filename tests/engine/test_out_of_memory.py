"""Whenever memory runs out, and however late the device tells: no answer changes, and nothing is left behind."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.engine.batching.job import Job
from orchard.engine.batching.model import LanguageModel
from orchard.engine.runner import Runner
from tests.engine.sampling.test_grammar import some_jobs
from tests.engine.test_invariants_speculation import Tally, answers_of, mixes, model_of, play, tight, tokens_of
from tests.support.drafting import drafting
from tests.support.engine_driver import greedy, prompt
from tests.support.examples import examples
from tests.support.memory_faults import Fault, MemoryFaults
from tests.support.speculation import speculation
from tests.support.tiny_models import LOOSE, alone, make_runner, network, run

_SETTINGS: dict[str, Any] = {"derandomize": True, "database": None}


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> MemoryFaults:
    made = MemoryFaults()
    made.install(monkeypatch)
    return made


@st.composite
def schedules(draw: st.DrawFn) -> list[Fault]:
    """Up to two faults follow each other closely: a third one without a token in between would end a job that is alone."""
    gaps = st.integers(0, 60), st.integers(0, 60), st.integers(60, 120)
    return [Fault(draw(gaps[number % 3]), draw(st.integers(0, 3))) for number in range(draw(st.integers(1, 6)))]


def check_nothing_is_left(runner: Runner) -> None:
    assert runner._scheduler.used_bytes == 0
    assert not runner._work
    assert not runner._results.held
    rows = runner._rows
    assert (rows._active, rows._joining, rows._batch.slots, len(rows._sampler)) == ([], [], [], 0)
    if prefixes := runner.store._prefixes:
        memory = prefixes._memory
        assert memory.nbytes == sum(slot.nbytes for slot in memory.order)
        assert not memory.fresh
        in_tree = {slot for node in memory.root.subtree() for slot in node.slots if slot.value is not None}
        assert in_tree == set(memory.order)


@pytest.mark.parametrize("kind", ["dense", "windows", "delta net"])
def test_answers_are_what_they_are_with_enough_memory(faults: MemoryFaults, kind: str) -> None:
    """Over joins, leaves, pauses, preemptions, long prompts, cached prompts and speculation."""
    model, tally = model_of(kind), Tally()

    @examples(60, **_SETTINGS)
    @given(jobs=mixes(), data=st.data(), schedule=schedules())
    def check(jobs: list[Job], data: Any, schedule: list[Fault]) -> None:
        answers = answers_of(model, jobs)
        guesses = data.draw(st.sampled_from(["none", "oracle", "draft"]))
        speculates = {
            "none": lambda: None,
            "oracle": lambda: speculation(tokens_of(answers), 5, 0.7),
            "draft": lambda: drafting(network("qwen3"), cache_bytes=2**22),
        }[guesses]()
        limits = LOOSE if data.draw(st.booleans()) else tight(model, jobs)
        cache_bytes = data.draw(st.sampled_from([0, 2**22]))
        runner = make_runner(model, limits, cache_bytes=cache_bytes, short=16, speculation=speculates)
        happen = ["join", "wait", "wait", "wait", "cancel", "pause"]
        with faults.among(schedule):
            course, gone = play(runner, jobs, data, happen)
        tally.check(course, jobs, answers, gone)
        course, gone = play(runner, jobs, data, happen)  # from the cache, which has no zeros
        tally.check(course, jobs, answers, gone)
        runner.write_back()
        check_nothing_is_left(runner)

    check()
    assert faults.told > 3
