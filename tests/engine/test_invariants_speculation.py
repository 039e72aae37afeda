"""Proposed tokens change nothing but the number of steps: neither a token nor a log-probability."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import Job
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import Sample, SamplingParams
from orchard.engine.scheduler import Limits
from tests.engine.test_invariants import EDGES, params
from tests.support.engine_driver import prompt
from tests.support.examples import examples
from tests.support.speculation import speculation
from tests.support.tiny_models import LOOSE, Course, alone, footprint, make_runner, network, run

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "dense": ("qwen3", {}),
    "windows": ("gemma3_text", {}),
    "delta net": ("qwen3_next", {}),
    "convolutions": ("lfm2", {}),
    "quantised from a place on": ("qwen3", {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 40}),
    "ring with a head": ("qwen3", {"max_kv_size": 24}),
}
WHOLE = {"ring with a head"}
"""Their logits depend on how prompts are cut, with or without speculation."""
every_kind = pytest.mark.parametrize("kind", KINDS)


@functools.cache
def model_of(kind: str) -> Any:
    name, options = KINDS[kind]
    model = network(name)
    if size := options.get("max_kv_size"):
        model = dataclasses.replace(model, max_kv_size=size, fingerprint=f"{model.fingerprint} {size}")
    return model


def expected(kind: str, job: Job) -> list[list[int]]:
    return alone(model_of(kind), replace(job, id=""), **KINDS[kind][1])


def samples(course: Course, job: Job) -> list[list[Sample]]:
    drawn = [one for step in course.steps for one in step.drawn if one.job == job.id]
    return [[one.sample for one in drawn if one.choice == choice] for choice in range(job.choices)]


@st.composite
def all_params(draw: st.DrawFn) -> SamplingParams:
    one = draw(params())
    contexts = {f"{name}_context_size": draw(st.sampled_from([0, 3])) for name in ("repetition", "frequency")}
    if draw(st.booleans()):
        contexts |= {"thinking_budget": draw(st.integers(0, 9)), "think_end": 7}
    return replace(one, **contexts)


@st.composite
def jobs(draw: st.DrawFn) -> list[Job]:
    lengths = st.one_of(st.sampled_from([1, 2, 39, 40, 41, *EDGES]), st.integers(1, 60))
    made = [
        Job(
            name,
            prompt(draw(st.integers(0, 2)), draw(lengths)),
            draw(all_params()),
            draw(st.integers(1, 24)),
            draw(st.integers(1, 2)),
        )
        for name in "abc"[: draw(st.integers(1, 3))]
    ]
    return [replace(job, speculates=draw(st.sampled_from([True, True, True, False]))) for job in made]


def play(runner: Runner, some: Sequence[Job], data: Any, happen: Sequence[str]) -> tuple[Course, set[str]]:
    """Run jobs that join at any step; some are paused and resumed, some cancelled. Return the names of the latter."""
    late = list(some[1:])
    gone: set[str] = set()
    paused: list[str] = []

    def meanwhile(course: Course) -> list[Job]:
        running = [name for name in course.outcomes if name not in gone]
        match data.draw(st.sampled_from(happen)):
            case "pause" if not paused:
                paused.append(data.draw(st.sampled_from(running or [""])))
                runner.pause(paused[0])
            case "cancel" if late and running:
                gone.add(data.draw(st.sampled_from(running)))
                for name in gone:
                    runner.cancel(name)
            case "join" if late:
                return [late.pop()]
        if paused and (data.draw(st.booleans()) or not late):
            runner.resume(paused.pop())
        return [late.pop()] if late and runner.idle else []

    course = run(runner, some[:1], meanwhile)
    return course, gone


@every_kind
@examples(15, derandomize=True, database=None)
@given(some=jobs(), data=st.data())
def test_speculation_changes_no_token(kind: str, some: list[Job], data: Any) -> None:
    """Over prompts, ways to draw, guesses, joins, leaves, pauses, preemptions and cached prompts."""
    model, options = model_of(kind), KINDS[kind][1]
    answers = {job.id: expected(kind, job) for job in some}
    guesses = speculation(
        answers,
        data.draw(st.sampled_from([1, 2, 5, 9])),
        data.draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
        silent=data.draw(st.sampled_from([0.0, 0.5])),
        raises=data.draw(st.sampled_from([0.0, 0.0, 0.1])),
    )
    limits = LOOSE
    if kind not in WHOLE and data.draw(st.booleans()):
        size = footprint(model, TextOptions(**options))
        growth = size.bytes(2) - size.bytes(1)
        # So that each job fits, but not all of them.
        most = max(job.choices * (size.bytes(len(job.prompt)) + (258 + job.max_tokens) * growth) for job in some)
        limits = Limits(max_rows=4, memory_bytes=most, chunk=16, idle_chunk=64, room=4)
    cache_bytes = 0 if kind in WHOLE else data.draw(st.sampled_from([0, 2**22]))
    happen = ["join", "wait", "wait", "wait", "cancel", *([] if kind in WHOLE else ["pause"])]
    runner = make_runner(model, limits, cache_bytes=cache_bytes, short=16, speculation=guesses, **options)
    for _ in range(2 if cache_bytes else 1):  # the second time from the cache
        course, gone = play(runner, some, data, happen)
        for job in some:
            for tokens, whole in zip(course.outcomes[job.id].tokens, answers[job.id], strict=True):
                assert tokens == (whole[: len(tokens)] if job.id in gone else whole), job
            assert not course.outcomes[job.id].broken
