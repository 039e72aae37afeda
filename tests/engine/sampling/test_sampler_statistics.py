"""What is drawn follows the distribution that numpy computes in float64 by sorting; seeds are fixed."""

import math
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.engine.sampling import categorical
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.sampling.sampler import Sampler
from tests.support.examples import examples, some

DRAWS = 6000


def reference(params: SamplingParams, logits: Any) -> Any:
    """Give each token's probability, (vocab_size,)."""
    scores = logits.astype(np.float64) / params.temperature
    order = np.argsort(-scores, kind="stable")
    p = np.exp(scores - scores.max())
    if params.top_k:
        p[order[params.top_k :]] = 0
    p /= p.sum()
    before = np.cumsum(p[order]) - p[order]
    p[order[(before >= params.top_p) & (np.arange(len(p)) > 0)]] = 0
    p[p < p.max() * params.min_p] = 0
    p /= p.sum()
    if not params.xtc_probability:
        return p
    above = p > params.xtc_threshold
    rest = np.where(above & (p > p[above].min(initial=1)), 0, p)
    for token in params.xtc_keep:
        rest[token] = p[token]
    return (1 - params.xtc_probability) * p + params.xtc_probability * rest / rest.sum()


def chi_square_is_likely(counts: Any, expected: Any) -> bool:
    """Compare, with tokens of fewer than 5 expected draws put together; true but once in about 10^4 right samplers."""
    assert counts[expected == 0].sum() == 0
    order = np.argsort(-expected)
    counts, expected = counts[order], expected[order]
    large = max(int((expected >= 5).sum()), 1)
    counts = np.append(counts[:large], counts[large:].sum())
    expected = np.append(expected[:large], max(expected[large:].sum(), 1e-9))
    freedom = max(large - 1 + (expected[-1] >= 5), 1)
    if expected[-1] < 5:  # too few for chi-square, but not many must have been drawn
        assert counts[-1] < 25
        counts, expected = counts[:-1], expected[:-1]
    statistic = ((counts - expected) ** 2 / expected).sum()
    # Wilson and Hilferty: the cube root of chi-square / freedom is nearly normal.
    normal = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    return bool(normal < 3.7)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 2.5},
    {"temperature": 0.4},
    {"temperature": 1e4},
    {"top_k": 7},
    {"top_k": 7, "temperature": 3.0, "top_p": 0.8},
    {"top_p": 0.95},
    {"top_p": 0.3, "temperature": 2.0},
    {"top_p": 0.05, "temperature": 30.0},
    {"min_p": 0.1},
    {"top_p": 0.8, "min_p": 0.3, "temperature": 2.0},
    {"top_k": 20, "top_p": 0.95, "min_p": 0.05},
    {"xtc_probability": 0.4, "xtc_threshold": 0.05},
    {"xtc_probability": 1.0, "xtc_threshold": 0.1, "top_p": 0.9},
    {"xtc_probability": 0.7, "xtc_threshold": 0.02, "top_k": 12, "xtc_keep": (1, 4)},
    {"xtc_probability": 0.7, "xtc_threshold": 0.03, "min_p": 0.02, "xtc_keep": (0,), "temperature": 1.5},
]


@pytest.mark.parametrize(
    ("given_", "size"),
    some([(given_, (30, 300)[(place + turn) % 2]) for place, given_ in enumerate(SETTINGS) for turn in (0, 1)], 2),
    ids=str,
)
def test_draws_follow_the_distribution(given_: dict[str, Any], size: int) -> None:
    params = SamplingParams(seed=11, **given_)
    logits = (np.random.default_rng(4).normal(size=size) * 2).astype(np.float32)
    sampler = Sampler(size)
    for choice in range(DRAWS):
        sampler.add(params, [0], choice)
    token = sampler.draw(mx.broadcast_to(mx.array(logits), (DRAWS, size))).token
    counts = np.bincount(np.array(token), minlength=size)
    assert chi_square_is_likely(counts, reference(params, logits) * DRAWS)


def test_the_draws_of_one_row_are_independent() -> None:
    sampler = Sampler(4)
    sampler.add(SamplingParams(seed=3), [0], 0)
    drawn = [sampler.draw(mx.zeros((1, 4))).read()[0].token for _ in range(1600)]
    pairs = np.bincount([4 * first + second for first, second in pairwise(drawn)], minlength=16)
    assert chi_square_is_likely(pairs, np.full(16, len(drawn) / 16))


@examples(30)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1, 5, 64, 700, 9000, 20001]), data=st.data())
def test_leading_is_a_stable_sort(seed: int, size: int, data: Any) -> None:
    count = data.draw(st.sampled_from([1, 3, 64, size]).filter(lambda number: number <= size))
    values = np.round(np.random.default_rng(seed).normal(size=(3, size)), 1).astype(np.float32) + 0.0
    values[:, :: data.draw(st.integers(1, 5))] = -np.inf
    expected = np.argsort(-values, axis=-1, kind="stable")[:, :count]
    assert (np.array(categorical.leading_ids(mx.array(values), count)) == expected).all()


@examples(30)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1, 5, 255, 256, 1000]))
def test_pick_takes_what_has_weight(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    heavy = random.integers(0, 2**40, (4, size)) * (random.random((4, size)) < 0.3)
    heavy[:, size // 2] += 1
    chances = mx.array(np.array([[0], [2**63 - 1], [2**62], [int(random.integers(0, 2**63))]]))
    times = categorical.race_times(chances, size)[:, 0]
    places = np.array(categorical.pick_places(mx.array(heavy), times))
    assert (np.take_along_axis(heavy, places, axis=-1) > 0).all()
    alone = [
        np.array(categorical.pick_places(mx.array(heavy[row : row + 1]), times[row : row + 1])) for row in range(4)
    ]
    assert (np.concatenate(alone) == places).all()


@pytest.mark.parametrize("settings", [{}, {"top_p": 0.95}, {"top_k": 100}], ids=str)
def test_a_rounding_of_the_logits_moves_next_to_no_draw(settings: dict[str, Any]) -> None:
    """If the cumulative sum were inverted, it would move 19 to 30 of these draws."""
    draws, size = 300, 32_000
    random = np.random.default_rng(2)
    logits = random.normal(size=size) * 2
    tokens = []
    for scores in (logits, logits + random.normal(size=size) * 1e-3):
        sampler = Sampler(size)
        for choice in range(draws):
            sampler.add(SamplingParams(seed=7, temperature=1.5, **settings), [0], choice)
        rows = mx.broadcast_to(mx.array(scores.astype(np.float32)), (draws, size))
        tokens.append(np.array(sampler.draw(rows).token))
    assert (tokens[0] != tokens[1]).sum() <= 3


def test_enough_tries() -> None:
    assert categorical.count_tries(1.0, 100) == 1
    assert categorical.count_tries(0.95, 150_000) == 6
    assert categorical.count_tries(0.0, 150_000) < 50
    assert categorical.count_tries(0.0, 1) == 1
