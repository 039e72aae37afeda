"""What a model says of a prompt's own tokens, piece by piece and in any company."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import pytest

from orchard.engine.batching.batch import BatchMode
from orchard.engine.batching.job import Job
from orchard.engine.sampling import logprobs
from orchard.engine.sampling.logprobs import Logprobs, Scoring
from orchard.engine.sampling.params import Sample
from orchard.engine.ticket import Limits
from tests.support.engine_driver import greedy, prompt
from tests.support.tiny_models import Course, Other, alone, make_runner, network, run

TOP = 3


@pytest.fixture(autouse=True)
def pieces_of_seven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logprobs, "_MOST_LOGITS", 7 * network("qwen3").vocab_size)


def scored(name: str, tokens: list[int], count: int = 1, **fields: Any) -> Job:
    return greedy(name, tokens, count, prompt_logprobs=TOP, **fields)


def check(samples: Sequence[Sample], tokens: Sequence[int], kind: str) -> None:
    """Compare with mlx-lm's model, which reads all of the prompt at once."""
    logits = network(kind).network(mx.array([tokens]))[0]
    expected = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    assert [sample.token for sample in samples] == list(tokens[1:])
    for place, sample in enumerate(samples):
        assert sample.logprob == pytest.approx(expected[place, sample.token].item(), abs=1e-4)
        best = mx.argsort(-expected[place])[:TOP].tolist()
        assert [token for token, _ in sample.top] == best
        assert [value for _, value in sample.top] == pytest.approx(expected[place, mx.array(best)].tolist(), abs=1e-4)


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "lfm2"])
@pytest.mark.parametrize("chunk", [5, 512])
def test_a_prompt_is_scored_as_by_mlx_lm(kind: str, chunk: int) -> None:
    limits = Limits(max_rows=8, memory_bytes=2**40, chunk=chunk, idle_chunk=chunk)
    jobs = [scored(f"{length}", prompt(length, length), 4) for length in (1, 2, 8, 40)]
    course = run(make_runner(network(kind), limits), jobs)
    for job in jobs:
        check(course.outcomes[job.id].scored, job.prompt, kind)
        assert course.outcomes[job.id].tokens == alone(network(kind), greedy(job.id, job.prompt, 4))


def test_no_pass_makes_more_logits_than_there_may_be() -> None:
    sizes: list[int] = []
    model = Other(network("qwen3"), before=lambda tokens, given: sizes.append(tokens.shape[1]))
    run(make_runner(model), [scored("a", prompt(1, 30))])
    assert sizes == [1, 7, 7, 7, 7, 1, 1]  # the first one is for the footprint, the last two are in decode


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "lfm2"])
def test_what_is_cached_is_read_again_for_its_scores(kind: str) -> None:
    runner = make_runner(network(kind), cache_bytes=2**24)
    first, again, longer = scored("a", prompt(1, 30)), scored("b", prompt(1, 30)), greedy("c", prompt(1, 40), 4)
    for job in (first, again):
        outcome = run(runner, [job]).outcomes[job.id]
        check(outcome.scored, job.prompt, kind)
        assert (outcome.begun[0].cached_tokens, outcome.begun[0].miss) == (0, None)
    outcome = run(runner, [longer]).outcomes["c"]
    assert outcome.tokens == alone(network(kind), longer)
    assert outcome.begun[0].cached_tokens == 30


@pytest.mark.parametrize("mode", list(BatchMode))
def test_scores_are_the_same_in_company(mode: BatchMode) -> None:
    limits = Limits(max_rows=8, memory_bytes=2**40, chunk=9, idle_chunk=9)
    jobs = [
        greedy("a", prompt(1, 20), 30),
        scored("b", prompt(2, 50), 6, choices=2),
        greedy("c", prompt(3, 35), 30),
        scored("d", prompt(2, 45), 6),
    ]
    course = run(make_runner(network("qwen3"), limits, mode, cache_bytes=2**24, batched_prefill=True), jobs)
    for job in jobs:
        outcome = course.outcomes[job.id]
        assert outcome.tokens == alone(
            network("qwen3"), greedy(job.id, job.prompt, job.max_tokens, choices=job.choices)
        )
        if job.prompt_logprobs is not None:
            check(outcome.scored, job.prompt, "qwen3")


def test_others_decode_while_a_prompt_is_scored() -> None:
    limits = Limits(max_rows=8, memory_bytes=2**40, chunk=7, idle_chunk=7)
    course = run(make_runner(network("qwen3"), limits), [greedy("a", prompt(1, 2), 20), scored("b", prompt(2, 70))])
    reading = [step for step in course.steps if step.scores]
    assert len(reading) == 10
    assert all("a" in [one.job for one in step.tokens] for step in reading[:-1])


def test_a_job_that_leaves_is_scored_no_further() -> None:
    runner = make_runner(network("qwen3"), Limits(max_rows=8, memory_bytes=2**40, chunk=7, idle_chunk=7))

    def leave(course: Course) -> Sequence[Job]:
        if len(course.steps) == 3:
            runner.cancel("a")
        return ()

    course = run(runner, [scored("a", prompt(1, 70))], leave)
    assert len(course.outcomes["a"].scored) == 14
    assert not any(step.scores for step in course.steps[3:])


def test_a_logarithm_that_json_does_not_have_is_a_small_number() -> None:
    raw = mx.array([[0.0, -mx.inf, 0.0], [mx.nan, 0.0, 0.0]])
    (first, second) = Logprobs.from_logits(raw, mx.array([1, 1], mx.uint32), 3).read()
    assert first.logprob == -9999.0
    assert first.top[2] == (1, -9999.0)
    assert second.logprob == -9999.0


def test_no_more_are_likely_than_there_are() -> None:
    scoring = Scoring(99, 50)
    scoring.add(mx.random.normal((2, 50)), [3, 4])
    (piece,) = scoring.take()
    assert [(sample.token, len(sample.top)) for sample in piece.read()] == [(3, 50), (4, 50)]
    assert scoring.take() == []


def test_own_and_likeliest_are_the_same_number() -> None:
    (sample,) = Logprobs.from_logits(mx.random.normal((1, 50)), mx.array([7], mx.uint32), 50).read()
    assert dict(sample.top)[7] == sample.logprob
