"""The rows that decode: what is launched, what is read, and what is kept of those that go."""

import random
from typing import Any

import mlx.core as mx
import pytest

from orchard.engine.batching.batch import BatchMode
from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams
from tests.support.engine_driver import greedy, prompt
from tests.support.tiny_models import Course, Other, alone, has, make_runner, network, run


def job_of(number: int) -> Job:
    """A job unlike its neighbours in everything that a row keeps."""
    params = SamplingParams(
        seed=number,
        temperature=[0.0, 0.8, 1.2][number % 3],
        top_p=[1.0, 0.9][number % 2],
        repetition_penalty=[1.0, 1.3, 1.0, 1.1][number % 4],
        presence_penalty=[0.0, 0.0, 0.5][number % 3],
        top_logprobs=[None, 2][number % 2],
    )
    return Job(str(number), prompt(number, 1 + 7 * number % 40), params, 3 + 5 * number % 17, choices=1 + number % 3)


@pytest.mark.parametrize("mode", BatchMode)
@pytest.mark.parametrize("kind", ["qwen3", "lfm2"])
def test_every_row_keeps_what_is_its_own(kind: str, mode: BatchMode) -> None:
    """Rows join and leave in any order, so that the batch's order is not that in which they came."""
    rng = random.Random(1)
    model = network(kind)
    left = [job_of(number) for number in range(12)]
    jobs = list(left)

    def join(course: Course) -> list[Job]:
        return [left.pop() for _ in range(min(rng.randrange(3), len(left)))]

    runner = make_runner(model, mode=mode, short=8, cache_bytes=2**22)
    course = run(runner, [left.pop()], lambda course: join(course) or ([left.pop()] if left and runner.is_idle else []))
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(model, job), job.id


def test_no_token_is_launched_beyond_the_last() -> None:
    passes: list[int] = []
    model = Other(network("qwen3"), before=lambda tokens, given: passes.append(tokens.shape[0]))
    runner = make_runner(model)
    passes.clear()
    course = run(runner, [greedy("a", [5], 7)])
    assert passes == [1] * 7
    assert len(course.outcomes["a"].tokens[0]) == 7
    # The first token is read at once. Then each step launches a token and reads the one before it. The last only reads.
    assert [len(step.tokens) for step in course.steps] == [1, 0, *[1] * 6]


def test_a_first_token_does_not_wait_for_the_next_pass_unless_others_would() -> None:
    jobs = [greedy("a", prompt(1, 5), 9), greedy("b", prompt(2, 5), 9)]
    late = greedy("c", prompt(3, 5), 3)
    course = run(make_runner(network("qwen3")), jobs, lambda course: [late] if len(course.steps) == 4 else [])
    steps = [sorted(one.job for one in step.tokens) for step in course.steps]
    first = steps.index(["a", "b"])
    assert steps[first : first + 2] == [["a", "b"], []]
    assert all({"a", "b"} <= {*step} for step in steps[first + 2 :] if "c" in step)


def test_where_errors_come_late_a_token_waits_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchard.engine.runner.has_late_errors", lambda: True)
    course = run(make_runner(network("qwen3")), [greedy("a", [5], 7)])
    assert [len(step.tokens) for step in course.steps] == [1, 0, 0, *[1] * 4, 2]


def test_the_end_of_a_turn() -> None:
    """It is delivered, with its reason; the pass that was under way by then is read by nobody."""
    model = network("qwen3")
    (eos, *_) = model.eos_token_ids
    params = SamplingParams(seed=0, temperature=0.0, logit_bias={eos: 1e9})
    jobs = [greedy("a", prompt(1, 5), 9), Job("b", prompt(2, 5), params, 9), Job("c", prompt(3, 5), params, 1)]
    course = run(make_runner(model), jobs)
    assert course.outcomes["b"].tokens == course.outcomes["c"].tokens == [[eos]]
    assert course.outcomes["b"].reasons == course.outcomes["c"].reasons == ["stop"]
    assert course.outcomes["a"].reasons == ["length"]


@pytest.mark.parametrize("moment", range(1, 8))
@pytest.mark.parametrize("company", [False, True])
def test_a_job_may_be_cancelled_after_any_step(moment: int, company: bool) -> None:
    """What it has read by then is kept; the cache is right, for a later job goes on from there."""
    model = network("qwen3")
    runner = make_runner(model, cache_bytes=2**22)
    jobs = [greedy("a", prompt(1, 9), 20), *([greedy("b", prompt(2, 8), 12)] if company else [])]

    def cancel(course: Course) -> list[Job]:
        if len(course.steps) == moment:
            runner.cancel("a")
            course.outcomes["a"].reasons = ["length"]
        return []

    course = run(runner, jobs, cancel)
    (tokens,) = course.outcomes["a"].tokens
    assert len(tokens) == max(moment - 2, moment > 1)
    if company:
        assert course.outcomes["b"].tokens == alone(model, jobs[1])
    rows = runner._rows
    assert (rows._active, rows._joining, rows._batch.slots, len(rows._sampler), runner._work) == ([], [], [], 0, {})
    later = Job("c", [*prompt(1, 9), *tokens, 7], jobs[0].params, 12)
    outcome = run(runner, [later]).outcomes["c"]
    assert outcome.begun[0].cached_tokens in (9 + len(tokens), 9 + len(tokens) - (moment < 3))
    assert outcome.tokens == alone(model, later)


def test_an_unknown_job_may_be_cancelled() -> None:
    runner = make_runner(network("qwen3"))
    runner.cancel("nobody")
    runner.cancel("nobody", 0)
    assert runner.is_idle


def test_rows_that_failed_are_freed_at_once() -> None:
    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if has(tokens, 323):
            raise RuntimeError("unlucky")

    runner = make_runner(Other(network("qwen3"), before=before))
    run(runner, [Job("a", [1, 2], SamplingParams(seed=0, logit_bias={323: 1e9}), 4, choices=2)])
    assert runner.is_idle
    assert not runner._rows._batch.slots
    assert not runner._rows._batch._groups
