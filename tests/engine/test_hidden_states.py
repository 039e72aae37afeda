"""Jobs that want a prompt's last hidden state: read in any pieces, beside any others, and never cached."""

from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from msgspec.structs import replace

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batched_cache import GROWTH
from orchard.engine.batching.job import Job
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.prefill import Prefill
from orchard.engine.engine import Engine
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import SamplingParams
from tests.engine.test_runner import preemptions, tight
from tests.support.engine_driver import greedy, prompt
from tests.support.models import ARCHITECTURES
from tests.support.tiny_models import LOOSE, Course, Other, alone, footprint, make_runner, network, run

TEXT = prompt(1, 40)


def wanted(name: str, tokens: list[int] = TEXT, **fields: Any) -> Job:
    return Job(name, tokens, SamplingParams(seed=0), 1, wants_hidden_state=True, **fields)


def expected(kind: str, tokens: list[int] = TEXT) -> Any:
    model = network(kind)
    return np.array(model.hidden_states(mx.array([tokens], mx.uint32), model.new_cache())[0, -1])


def vectors(course: Course) -> dict[str, Any]:
    found = [state for step in course.steps for state in step.hidden_states]
    assert len({state.job for state in found}) == len(found), "a job brought two"
    return {state.job: state.vector for state in found}


def close(vector: Any, other: Any) -> bool:
    return bool(np.abs(vector - other).max() < 1e-4)


@pytest.mark.parametrize("kind", ARCHITECTURES)
@pytest.mark.parametrize("chunk", [1, 7, 512])
def test_a_vector_is_the_models_own_however_the_prompt_is_read(kind: str, chunk: int) -> None:
    course = run(make_runner(network(kind), replace(LOOSE, chunk=chunk, idle_chunk=chunk)), [wanted("a")])
    vector = vectors(course)["a"]
    assert vector.dtype == np.float32
    assert close(vector, expected(kind))
    assert not close(vector, expected(kind, TEXT[:-1]))
    assert course.outcomes["a"].tokens == [[]]
    assert len(course.outcomes["a"].begun) == 1


def test_a_prompt_of_one_token() -> None:
    assert close(vectors(run(make_runner(network("qwen3")), [wanted("a", [7])]))["a"], expected("qwen3", [7]))


@pytest.mark.parametrize("batched_prefill", [False, True])
def test_beside_streams_both_are_as_alone(batched_prefill: bool) -> None:
    model = network("qwen3")
    streams = [greedy(name, prompt(seed, 20), 20) for seed, name in enumerate("xyz")]
    texts = {name: prompt(seed, 5 + 7 * seed) for seed, name in enumerate("abcdef")}
    limits = replace(LOOSE, chunk=8, idle_chunk=32)
    runner = make_runner(model, limits, batched_prefill=batched_prefill)
    course = run(runner, [*streams[:2], *(wanted(name, text) for name, text in texts.items()), streams[2]])
    for job in streams:
        assert course.outcomes[job.id].tokens == alone(model, job)
    for name, vector in vectors(course).items():
        assert close(vector, expected("qwen3", texts[name])), name
    assert vectors(course).keys() == texts.keys()


@pytest.mark.parametrize(("chunk", "shapes"), [(96, [(4, 64), (2, 64)]), (512, [(8, 64)])])
def test_texts_of_about_the_same_length_share_one_pass(chunk: int, shapes: list[tuple[int, int]]) -> None:
    passes: list[tuple[int, ...]] = []
    model = Other(network("qwen3"), before=lambda tokens, given: passes.append(tuple(tokens.shape)))
    texts = {name: prompt(seed, 20 + seed) for seed, name in enumerate("abcdef")}
    limits = replace(LOOSE, chunk=chunk, idle_chunk=chunk, pieces=8)
    runner = make_runner(model, limits, batched_prefill=True)
    passes.clear()
    course = run(runner, [wanted(name, text) for name, text in texts.items()])
    assert passes == shapes, "rows are rounded up"
    found = vectors(course)
    assert found.keys() == texts.keys()
    for name, vector in found.items():
        assert close(vector, expected("qwen3", texts[name])), name
    assert all(outcome.tokens == [[]] and len(outcome.begun) == 1 for outcome in course.outcomes.values())


def test_a_text_is_read_in_one_pass() -> None:
    passes: list[tuple[int, ...]] = []
    model = Other(network("qwen3"), before=lambda tokens, given: passes.append(tuple(tokens.shape)))
    runner = make_runner(model)
    passes.clear()
    run(runner, [wanted("a")])
    assert passes == [(1, len(TEXT))]


def test_one_that_breaks_a_shared_pass_leaves_the_others() -> None:
    bad = 323

    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if any(bad in row for row in tokens.tolist()):  # type: ignore[operator, union-attr]
            raise RuntimeError("unlucky")

    runner = make_runner(Other(network("qwen3"), before=before), batched_prefill=True)
    course = run(runner, [wanted("a"), wanted("b", [*TEXT[1:], bad]), wanted("c", TEXT[1:])])
    assert course.outcomes["b"].broken == ["the model failed on this request: RuntimeError: unlucky"]
    assert close(vectors(course)["a"], expected("qwen3"))
    assert vectors(course).keys() == {"a", "c"}


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text"])
def test_nothing_is_cached_and_nothing_cached_is_used(kind: str) -> None:
    model = network(kind)
    runner = make_runner(model, cache_bytes=2**24)
    empty = runner.store.counters()
    course = run(runner, [wanted("a")])
    assert runner.store.counters() == empty
    course = run(runner, [greedy("b", TEXT, 4)])
    assert course.outcomes["b"].begun[0].cached_tokens == 0
    known = runner.store.counters()
    course = run(runner, [wanted("c", [*TEXT, 7])])
    assert course.outcomes["c"].begun[0].cached_tokens == 0
    assert close(vectors(course)["c"], expected(kind, [*TEXT, 7]))
    assert runner.store.counters() == known


def test_a_quantised_cache_is_read_as_one_of_an_answer_is() -> None:
    options = TextOptions(kv_bits=8, kv_group_size=32, quantized_kv_start=16)
    model = network("qwen3")
    reading = Prefill(TEXT, (), KVStore(model, options).copy_without_cache(), wants_hidden_state=True)
    reading.advance(model, 100)
    assert type(reading.cache[0]).__name__ == "QuantizedKVCache"
    assert reading.hidden_state is not None
    assert 0 < np.abs(np.array(reading.hidden_state) - expected("qwen3")).max() < 0.5


def stepped(runner: Runner, course: Course, steps: int) -> None:
    for _ in range(steps):
        course.take(runner.step())


def begun(job: Job, steps: int, chunk: int = 8) -> tuple[Runner, Course]:
    """A runner that has read a part of a prompt."""
    runner, course = make_runner(network("qwen3"), replace(LOOSE, chunk=chunk, idle_chunk=chunk)), Course()
    course.expect(job)
    runner.add(job)
    stepped(runner, course, steps)
    assert not vectors(course)
    return runner, course


def finish(runner: Runner, course: Course) -> None:
    while not runner.is_idle:
        course.take(runner.step())


def test_a_cancelled_job_brings_nothing() -> None:
    runner, course = begun(wanted("a"), 2)
    runner.cancel("a")
    finish(runner, course)
    assert not vectors(course)
    assert (course.steps[-1].running, course.steps[-1].waiting) == (0, 0)


def test_a_paused_job_brings_its_vector_when_it_is_resumed() -> None:
    runner, course = begun(wanted("a"), 2)
    runner.pause("a")
    finish(runner, course)
    assert not vectors(course)
    assert (course.steps[-1].running, course.steps[-1].waiting) == (0, 1)
    runner.resume("a")
    finish(runner, course)
    assert close(vectors(course)["a"], expected("qwen3"))
    assert len(course.outcomes["a"].begun) == 1


def test_a_preempted_job_begins_again() -> None:
    model = network("qwen3")
    answer, text = greedy("b", prompt(2, 10), 40), wanted("a", prompt(3, 60), priority="background")
    # Text "a" is still being read when answer "b" has grown.
    limits = replace(tight(model, [answer, text], 15, GROWTH), chunk=1, idle_chunk=1)
    runner = make_runner(model, limits)
    preempted = preemptions(runner)
    course = run(runner, [answer, text])
    assert preempted == ["a"]
    assert close(vectors(course)["a"], expected("qwen3", text.prompt))
    assert len(course.outcomes["a"].begun) == 1
    assert course.outcomes["b"].tokens == alone(model, answer)


def test_one_that_fails_leaves_the_others() -> None:
    bad = 323

    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if bad in (tokens.tolist()[0]):  # type: ignore[index, operator]
            raise RuntimeError("unlucky")

    runner = make_runner(Other(network("qwen3"), before=before))
    course = run(runner, [wanted("a"), wanted("b", [*TEXT, bad]), wanted("c", TEXT[:9])])
    assert course.outcomes["b"].broken == ["the model failed on this request: RuntimeError: unlucky"]
    assert vectors(course).keys() == {"a", "c"}


def test_one_that_does_not_fit_is_refused() -> None:
    model = network("qwen3")
    limits = replace(LOOSE, memory_bytes=footprint(model, TextOptions()).bytes(20))
    course = run(make_runner(model, limits), [wanted("a")])
    assert "bytes for its KV cache" in course.outcomes["a"].broken[0]


def test_nothing_is_fetched_from_the_disk() -> None:
    added: list[Job] = []
    asked: list[list[int]] = []

    def fetch(job: Job, done: Any) -> bool:
        asked.append(job.prompt)
        return False

    runner: Any = SimpleNamespace(fetch=fetch, add=added.append)
    engine: Engine[Any] = Engine(lambda: network("qwen3"), lambda step: None, TextOptions())
    jobs = [wanted("a"), greedy("b", prompt(2, 3), 1)]
    for job in jobs:
        engine._add(runner, job)
    assert added == jobs
    assert asked == [jobs[1].prompt]
