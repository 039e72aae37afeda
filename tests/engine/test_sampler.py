import math
from collections import Counter

import mlx.core as mx
import numpy as np
import pytest

from orchard.engine.job import Sample, SamplingParams
from orchard.engine.sampler import Sampler

LOGITS = [2.0, 1.0, 0.5, 0.0, -1.0, -3.0]
SIZE = len(LOGITS)


def draw(
    params: SamplingParams,
    logits: list[float] = LOGITS,
    *,
    count: int = 1,
    prompt: list[int] | None = None,
    choice: int = 0,
) -> list[Sample]:
    sampler = Sampler(params, prompt or [0], len(logits), choice)
    return [sampler.draw(mx.array([logits])).read() for _ in range(count)]


def tokens(params: SamplingParams, count: int = 400) -> Counter[int]:
    return Counter(sample.token for sample in draw(params, count=count))


def test_temperature_0_takes_the_likeliest() -> None:
    assert tokens(SamplingParams(seed=1, temperature=0.0), 3) == {0: 3}


@pytest.mark.parametrize("temperature", [1e-300, 1e-6])
def test_tiny_temperatures_are_greedy(temperature: float) -> None:
    assert tokens(SamplingParams(seed=1, temperature=temperature), 3) == {0: 3}


def test_draws_follow_the_distribution() -> None:
    counts = tokens(SamplingParams(seed=5, temperature=2.0), 4000)
    expected = np.exp(np.array(LOGITS) / 2)
    expected /= expected.sum()
    assert all(abs(counts[token] / 4000 - expected[token]) < 0.03 for token in range(SIZE))


@pytest.mark.parametrize(
    ("params", "survivors"),
    [
        (SamplingParams(seed=2, temperature=9.0, top_k=1), {0}),
        (SamplingParams(seed=2, temperature=9.0, top_k=3), {0, 1, 2}),
        (SamplingParams(seed=2, temperature=9.0, top_k=SIZE), set(range(SIZE))),
        (SamplingParams(seed=2, temperature=9.0, top_k=10**9), set(range(SIZE))),
        (SamplingParams(seed=2, temperature=9.0, top_p=0.0), {0}),
        (SamplingParams(seed=2, temperature=9.0, top_p=1e-30), {0}),
        (SamplingParams(seed=2, temperature=9.0, top_p=1.0), set(range(SIZE))),
        # At temperature 1 the probabilities are .56 .21 .12 .08 .03 .004.
        (SamplingParams(seed=2, top_p=0.5), {0}),
        (SamplingParams(seed=2, top_p=0.6), {0, 1}),
        # Of the three that top_k leaves, the first two have .86.
        (SamplingParams(seed=2, top_k=3, top_p=0.85), {0, 1}),
        (SamplingParams(seed=2, top_k=3, top_p=0.9), {0, 1, 2}),
        (SamplingParams(seed=2, temperature=9.0, min_p=0.0), set(range(SIZE))),
        (SamplingParams(seed=2, temperature=9.0, min_p=1.0), {0}),
        (SamplingParams(seed=2, temperature=9.0, min_p=5.0), {0}),
        (SamplingParams(seed=2, min_p=0.3), {0, 1}),
        (SamplingParams(seed=2, top_k=2, min_p=0.01), {0, 1}),
    ],
)
def test_cut_offs(params: SamplingParams, survivors: set[int]) -> None:
    assert set(tokens(params)) <= survivors
    if survivors != set(range(SIZE)):
        assert set(tokens(params)) == survivors


def test_a_seed_fixes_the_draws_and_choices_differ() -> None:
    params = SamplingParams(seed=7, temperature=5.0)
    first = [sample.token for sample in draw(params, count=30)]
    assert first == [sample.token for sample in draw(params, count=30)]
    assert first != [sample.token for sample in draw(params, count=30, choice=1)]
    assert first != [sample.token for sample in draw(SamplingParams(seed=8, temperature=5.0), count=30)]


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**200])
def test_any_integer_is_a_seed(seed: int) -> None:
    assert 0 <= draw(SamplingParams(seed=seed))[0].token < SIZE


def test_logit_bias() -> None:
    assert draw(SamplingParams(seed=0, temperature=0.0, logit_bias={5: 100.0, 0: -100.0}))[0].token == 5


def test_presence_and_frequency_count_generated_tokens_only() -> None:
    presence = SamplingParams(seed=0, temperature=0.0, presence_penalty=1.2)
    # Token 0 falls to 0.8 after its first use, below token 1, which then falls to -0.2, and so on.
    assert [s.token for s in draw(presence, count=4, prompt=[0, 0, 1])] == [0, 1, 0, 0]
    frequency = SamplingParams(seed=0, temperature=0.0, frequency_penalty=0.6)
    assert [s.token for s in draw(frequency, count=4, prompt=[0, 0, 1])] == [0, 0, 1, 0]


def test_repetition_penalty_counts_the_prompt_and_knows_signs() -> None:
    params = SamplingParams(seed=0, temperature=0.0, repetition_penalty=3.0)
    assert [s.token for s in draw(params, count=3, prompt=[0])] == [1, 0, 0]
    negative = [-1.0, -2.0, -10.0]
    assert draw(params, negative, prompt=[0])[0].token == 1


def test_logprobs_are_the_models_own() -> None:
    logprobs = np.array(LOGITS) - math.log(sum(math.exp(logit) for logit in LOGITS))
    params = SamplingParams(seed=3, temperature=0.3, top_k=2, logit_bias={5: 100.0}, top_logprobs=3)
    sample = draw(params)[0]
    assert sample.token == 5
    assert sample.logprob == pytest.approx(logprobs[5], abs=1e-5)
    assert [token for token, _ in sample.top] == [0, 1, 2]
    assert [value for _, value in sample.top] == pytest.approx(list(logprobs[:3]), abs=1e-5)


@pytest.mark.parametrize(("wanted", "given"), [(0, 0), (1, 1), (SIZE, SIZE), (99, SIZE)])
def test_any_number_of_top_logprobs(wanted: int, given: int) -> None:
    sample = draw(SamplingParams(seed=3, top_logprobs=wanted))[0]
    assert len(sample.top) == given
    assert sample.logprob is not None


def test_no_logprobs_unless_wanted() -> None:
    assert draw(SamplingParams(seed=3)) == [Sample(draw(SamplingParams(seed=3))[0].token)]


def test_infinite_logits_give_finite_logprobs() -> None:
    sample = draw(SamplingParams(seed=0, temperature=0.0, logit_bias={1: 1.0}, top_logprobs=2), [0.0, -math.inf])[0]
    assert all(math.isfinite(value) for _, value in sample.top)
