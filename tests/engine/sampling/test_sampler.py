import math
from collections import Counter
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from orchard.engine.sampling.grammar import mask_of
from orchard.engine.sampling.params import Sample, SamplingParams
from orchard.engine.sampling.sampler import Sampler

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
    sampler = Sampler(len(logits))
    sampler.add(params, prompt or [0], choice)
    return [sampler.draw(mx.array([logits])).read()[0] for _ in range(count)]


def tokens(params: SamplingParams, count: int = 400) -> Counter[int]:
    """Count what many choices draw first."""
    sampler = Sampler(SIZE)
    for choice in range(count):
        sampler.add(params, [0], choice)
    return Counter(sample.token for sample in sampler.draw(mx.array([LOGITS] * count)).read())


def greedy(**settings: Any) -> SamplingParams:
    return SamplingParams(seed=1, temperature=0.0, **settings)


@pytest.mark.parametrize("temperature", [0.0, 1e-300, 1e-6])
def test_no_or_tiny_temperatures_are_greedy(temperature: float) -> None:
    assert tokens(SamplingParams(seed=1, temperature=temperature), 3) == {0: 3}


def test_ties_go_to_the_lowest_id() -> None:
    sampler = Sampler(700)
    for _ in range(5):
        sampler.add(greedy(), [0], 0)
    logits = np.zeros((5, 700), np.float32)
    logits[:, [300, 650]] = 1
    assert [sample.token for sample in sampler.draw(mx.array(logits)).read()] == [300] * 5


@pytest.mark.parametrize(
    ("params", "survivors"),
    [
        (SamplingParams(seed=2, temperature=9.0, top_k=1), {0}),
        (SamplingParams(seed=2, temperature=9.0, top_k=3), {0, 1, 2}),
        (SamplingParams(seed=2, temperature=9.0, top_k=SIZE), set(range(SIZE))),
        (SamplingParams(seed=2, temperature=9.0, top_k=10**30), set(range(SIZE))),
        (SamplingParams(seed=2, temperature=9.0, top_p=0.0), {0}),
        (SamplingParams(seed=2, temperature=9.0, top_p=1e-30), {0}),
        (SamplingParams(seed=2, temperature=9.0, top_p=1.0), set(range(SIZE))),
        (SamplingParams(seed=2, temperature=9.0, top_k=4, top_p=0.0), {0}),
        (SamplingParams(seed=2, temperature=9.0, top_k=4, top_p=1e-30), {0}),
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
        (SamplingParams(seed=2, top_p=0.95, min_p=0.3), {0, 1}),
        (SamplingParams(seed=2, temperature=1e300), set(range(SIZE))),
        (SamplingParams(seed=2, temperature=1e-4), {0}),
        # XTC: .56 .21 .12 are above a tenth, and only the least of them stays.
        (SamplingParams(seed=2, temperature=1.0, xtc_probability=1.0, top_k=4), {2, 3}),
        (SamplingParams(seed=2, xtc_probability=1.0, xtc_threshold=0.1, top_p=0.85), {2}),
        (SamplingParams(seed=2, xtc_probability=1.0, xtc_threshold=0.2, min_p=0.3), {1}),
        (SamplingParams(seed=2, xtc_probability=1.0, xtc_threshold=0.5, top_k=2), {0, 1}),
        (SamplingParams(seed=2, xtc_probability=1.0, xtc_threshold=0.0, min_p=0.1), {3}),
        (SamplingParams(seed=2, xtc_probability=1.0, xtc_keep=(0, 999), top_p=0.85), {0, 2}),
        (SamplingParams(seed=2, xtc_probability=1.0, xtc_keep=(1,), min_p=0.1), {1, 2, 3}),
        (SamplingParams(seed=2, xtc_probability=0.5, min_p=0.2), {0, 1, 2}),
    ],
)
def test_cut_offs(params: SamplingParams, survivors: set[int]) -> None:
    assert set(tokens(params)) <= survivors
    if survivors != set(range(SIZE)):
        assert set(tokens(params)) == survivors


@pytest.mark.parametrize("settings", [{}, {"top_p": 0.5}, {"top_k": 2}, {"min_p": 0.5}, {"xtc_probability": 1.0}])
def test_impossible_tokens_and_one_certain_token(settings: dict[str, Any]) -> None:
    for temperature in (0.0, 0.01, 1.0, 1e300):
        params = SamplingParams(seed=3, temperature=temperature, **settings)
        lone = [-math.inf, -math.inf, 4.0, -math.inf]
        assert {sample.token for sample in draw(params, lone, count=20)} == {2}
        assert {sample.token for sample in draw(params, [-1e4, 3e4, -math.inf], count=20)} <= {0, 1}


def test_a_seed_fixes_the_draws_and_choices_differ() -> None:
    params = SamplingParams(seed=7, temperature=5.0)
    first = [sample.token for sample in draw(params, count=30)]
    assert first == [sample.token for sample in draw(params, count=30)]
    assert first != [sample.token for sample in draw(params, count=30, choice=1)]
    assert first != [sample.token for sample in draw(SamplingParams(seed=8, temperature=5.0), count=30)]


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**200])
def test_any_integer_is_a_seed(seed: int) -> None:
    assert 0 <= draw(SamplingParams(seed=seed))[0].token < SIZE


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_any_float_type_and_the_logits_stay_as_they_are(dtype: mx.Dtype) -> None:
    sampler = Sampler(SIZE)
    sampler.add(greedy(logit_bias={5: 100.0}, repetition_penalty=2.0), [0, 1], 0)
    sampler.add(greedy(), [0], 1)
    logits = mx.array([LOGITS] * 2, dtype)
    assert [sample.token for sample in sampler.draw(logits).read()] == [5, 0]
    assert logits.tolist() == [LOGITS] * 2


def test_logit_bias() -> None:
    assert draw(greedy(logit_bias={5: 100.0, 0: -100.0}))[0].token == 5
    assert draw(greedy(logit_bias={0: -100.0}))[0].token == 1


def test_presence_and_frequency_count_generated_tokens_only() -> None:
    # Token 0 falls to 0.8 after its first use, below token 1, which then falls to -0.2, and so on.
    assert [s.token for s in draw(greedy(presence_penalty=1.2), count=4, prompt=[0, 0, 1])] == [0, 1, 0, 0]
    assert [s.token for s in draw(greedy(frequency_penalty=0.6), count=4, prompt=[0, 0, 1])] == [0, 0, 1, 0]


def test_repetition_penalty_counts_the_prompt_and_knows_signs() -> None:
    assert [s.token for s in draw(greedy(repetition_penalty=3.0), count=3, prompt=[0])] == [1, 0, 0]
    assert draw(greedy(repetition_penalty=3.0), [-1.0, -2.0, -10.0], prompt=[0])[0].token == 1


def test_logit_bias_is_added_before_the_penalties() -> None:
    # (2 + 4) / 3 is below 1 + 1.5; 2 / 3 + 4 would be above it.
    assert draw(greedy(logit_bias={0: 4.0, 1: 1.5}, repetition_penalty=3.0), prompt=[0])[0].token == 1


def test_a_context_forgets() -> None:
    presence = greedy(presence_penalty=9.0, presence_context_size=2)
    assert [s.token for s in draw(presence, count=6)] == [0, 1, 2, 0, 1, 2]
    repetition = greedy(repetition_penalty=9.0, repetition_context_size=1)
    assert [s.token for s in draw(repetition, count=4, prompt=[1, 0])] == [1, 0, 1, 0]


def test_thinking_is_ended_after_its_budget() -> None:
    end = {"think_end": 4, "thinking_budget": 2}
    assert [s.token for s in draw(greedy(**end), count=5)] == [0, 0, 4, 0, 0]
    assert [s.token for s in draw(greedy(**end | {"thinking_budget": 0}), count=3)] == [4, 0, 0]
    assert [s.token for s in draw(greedy(**end | {"think_end": -1}), count=3)] == [0, 0, 0]
    # A row that ends its reasoning by itself is left alone.
    assert [s.token for s in draw(greedy(**end | {"think_end": 0}, presence_penalty=5.0), count=4)] == [0, 1, 2, 3]


def test_thinking_goes_on_where_a_row_resumes() -> None:
    params = greedy(think_end=4, thinking_budget=2)
    sampler = Sampler(SIZE)
    for generated in ([], [0], [0, 0], [4], [0, 0, 4]):
        sampler.add(params, [4], 0, generated)
    sampler.add(greedy(), [0], 0)
    sampler.keep([5, 4, 3, 2, 1, 0])
    steps = [[sample.token for sample in sampler.draw(mx.array([LOGITS] * 6)).read()] for _ in range(3)]
    assert steps == [[0, 0, 0, 4, 0, 0], [0, 0, 0, 0, 4, 0], [0, 0, 0, 0, 0, 4]]


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


def test_logprobs_for_those_who_ask() -> None:
    sampler = Sampler(SIZE)
    for wanted in (None, 2, None, 0, 1):
        sampler.add(greedy(top_logprobs=wanted), [0], 0)
    samples = sampler.draw(mx.array([LOGITS] * 5)).read()
    assert [len(sample.top) for sample in samples] == [0, 2, 0, 0, 1]
    assert [sample.logprob is None for sample in samples] == [True, False, True, False, False]
    assert samples[1] == draw(greedy(top_logprobs=2))[0]


def test_infinite_logits_give_finite_logprobs() -> None:
    sample = draw(greedy(logit_bias={1: 1.0}, top_logprobs=2), [0.0, -math.inf])[0]
    assert all(math.isfinite(value) for _, value in sample.top)


def test_draws_are_launched_ahead_and_feed_each_other() -> None:
    sampler = Sampler(SIZE)
    sampler.add(greedy(presence_penalty=1.2, presence_context_size=2, think_end=3, thinking_budget=2), [0], 0)
    assert len(sampler) == 1
    draws = []
    for _ in range(3):
        draws.append(sampler.draw(mx.array([LOGITS])))
        draws[-1].launch()
    assert draws[0].token.dtype == mx.uint32
    assert [one.read()[0].token for one in draws] == [0, 1, 3]


HARSH = [
    {},
    {"temperature": 0.0},
    {"top_p": 0.1},
    {"top_k": 1},
    {"top_k": 70},
    {"min_p": 1.0},
    {"xtc_probability": 1.0, "xtc_threshold": 0.0},
    {"xtc_probability": 1.0, "top_p": 0.9},
    {"temperature": 1e300},
    {"repetition_penalty": 1e30},
]


@pytest.mark.parametrize("size", [6, 100, 3000])
@pytest.mark.parametrize("settings", HARSH)
def test_only_what_is_allowed_is_drawn(settings: dict[str, Any], size: int) -> None:
    """However unlikely it is, and whatever else holds for the row; the rows beside it draw what they draw alone."""
    rng = np.random.default_rng(size)
    logits = rng.normal(size=(4, size)).astype(np.float32) * 5
    logits[1, 3] = logits[2, 3] = -np.inf
    ways = [{}, {"logit_bias": {3: -100.0, 5: 100.0}}, {"logit_bias": {3: -1e300, 5: -1e300}}, {}]
    may = {1: {3}, 2: {3, 5, size - 1}}
    likeliest = logits.argmax(axis=-1)
    for seed in range(3):
        sampler, alone = Sampler(size), {}
        for row, way in enumerate(ways):
            params = SamplingParams(seed=seed, top_logprobs=1, **settings | way)
            sampler.add(params, [3, 5], 0)
            if row not in may:
                single = Sampler(size)
                single.add(params, [3, 5], 0)
                (alone[row],) = single.draw(mx.array(logits[row : row + 1])).read()
        allowed = np.stack([mask_of(sorted(may.get(row, range(size))), size) for row in range(4)])
        samples = sampler.draw(mx.array(logits), mx.array(allowed)).read()
        assert {row: samples[row] for row in alone} == alone
        assert all(samples[row].token in some for row, some in may.items())
        # The log-probabilities stay the model's own.
        assert [samples[row].top[0][0] for row in may] == [likeliest[row] for row in may]


def test_a_mask_for_every_row() -> None:
    sampler = Sampler(SIZE)
    sampler.add(greedy(), [0], 0)
    sampler.add(greedy(), [0], 1)
    allowed = np.stack([mask_of([4, 5], SIZE), mask_of([1, 3], SIZE)])
    assert [sample.token for sample in sampler.draw(mx.array([LOGITS] * 2), mx.array(allowed)).read()] == [4, 1]
