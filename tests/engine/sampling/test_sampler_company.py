"""A row draws the same tokens alone and in any company, through joins, departures, reordering and resumption."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from orchard.engine.sampling.params import Sample, SamplingParams
from orchard.engine.sampling.sampler import Sampler
from tests.support.examples import examples

LENGTH = 6
few = examples(40, suppress_health_check=list(HealthCheck))
penalties = st.sampled_from([0.0, 0.0, 0.7, -0.5])
contexts = st.sampled_from([0, 1, 3, 10**9])
some_params = st.builds(
    SamplingParams,
    seed=st.integers(-(2**70), 2**70),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 1.0, 4.0, 1e9]),
    top_p=st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 1.0, 1.0]),
    top_k=st.sampled_from([0, 0, 0, 1, 5, 40, 100, 10**6]),
    min_p=st.sampled_from([0.0, 0.0, 0.02, 0.5, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.0, 1.3, 0.8]),
    presence_penalty=penalties,
    frequency_penalty=penalties,
    repetition_context_size=contexts,
    presence_context_size=contexts,
    frequency_context_size=contexts,
    xtc_probability=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
    xtc_threshold=st.sampled_from([0.0, 0.02, 0.1, 0.5]),
    xtc_keep=st.sampled_from([(), (3,), (0, 7)]),
    thinking_budget=st.sampled_from([None, 0, 2, 4]),
    think_start=st.sampled_from([-1, 4]),
    think_end=st.sampled_from([-1, 5]),
    logit_bias=st.sampled_from([{}, {}, {2: 100.0}, {1: -100.0, 9: 2.0}]),
    top_logprobs=st.sampled_from([None, None, 0, 2, 5]),
)


class Text:
    """A row's logits, step by step, and what it draws alone."""

    def __init__(self, number: int, params: SamplingParams, vocab_size: int) -> None:
        random = np.random.default_rng(number)
        # Rounded, so that there are ties, and a few tokens that are impossible.
        logits = np.round(random.normal(size=(LENGTH, vocab_size)) * 3, 1)
        logits[:, random.integers(0, vocab_size, 5)] = -np.inf
        self.logits = logits.astype(np.float32)
        self.params = params
        self.choice = number % 3
        self.prompt = [int(token) for token in random.integers(0, 12, 4)]
        sampler = Sampler(vocab_size)
        self.join(sampler, 0)
        self.alone = [sampler.draw(mx.array(logits)).read()[0] for logits in self.logits[:, None]]

    def join(self, sampler: Sampler, drawn: int) -> None:
        generated = [sample.token for sample in self.alone[:drawn]] if drawn else []
        sampler.add(self.params, self.prompt, self.choice, generated)


def same(sample: Sample, expected: Sample) -> None:
    assert sample.token == expected.token
    assert sample.logprob == pytest.approx(expected.logprob, abs=1e-5)
    assert [id_ for id_, _ in sample.top] == [id_ for id_, _ in expected.top]


@few
@given(params=st.lists(some_params, min_size=2, max_size=7), size=st.sampled_from([20, 300, 9000]), data=st.data())
def test_a_row_draws_as_it_does_alone(params: list[SamplingParams], size: int, data: Any) -> None:
    texts = [Text(number, one, size) for number, one in enumerate(params)]
    drawn = [0] * len(texts)
    sampler, running = Sampler(size), list[int]()
    for _ in range(8):
        waiting = [number for number, count in enumerate(drawn) if count < LENGTH and number not in running]
        if waiting:
            for number in data.draw(st.lists(st.sampled_from(waiting), unique=True, min_size=not running)):
                texts[number].join(sampler, drawn[number])
                running.append(number)
        if not running:
            break
        logits = np.stack([texts[number].logits[drawn[number]] for number in running])
        for number, sample in zip(running, sampler.draw(mx.array(logits)).read(), strict=True):
            same(sample, texts[number].alone[drawn[number]])
            drawn[number] += 1
        places = [place for place, number in enumerate(running) if drawn[number] < LENGTH]
        places = data.draw(st.permutations(places))[data.draw(st.sampled_from([0, 0, 1])) :]
        sampler.keep(places)
        running = [running[place] for place in places]
        assert len(sampler) == len(running)


@few
@given(params=some_params, drawn=st.integers(0, LENGTH - 1), size=st.sampled_from([20, 300]))
def test_a_resumed_row_goes_on_as_if_nothing_had_happened(params: SamplingParams, drawn: int, size: int) -> None:
    text = Text(7, params, size)
    sampler = Sampler(size)
    text.join(sampler, drawn)
    for place in range(drawn, LENGTH):
        same(sampler.draw(mx.array(text.logits[place][None])).read()[0], text.alone[place])


def penalised(params: SamplingParams, logits: Any, prompt: list[int], generated: list[int]) -> Any:
    """Do by hand, in float64, what the sampler does on the device."""
    scores = logits.astype(np.float64)
    if params.repetition_penalty != 1:
        for token in set([*prompt, *generated][-params.repetition_context_size :]):
            scores[token] *= params.repetition_penalty ** (-1 if scores[token] > 0 else 1)
    recent = generated[-params.presence_context_size :], generated[-params.frequency_context_size :]
    for token in set(recent[0]):
        scores[token] -= params.presence_penalty
    for token in recent[1]:
        scores[token] -= params.frequency_penalty
    return scores


@few
@given(
    params=st.lists(
        st.builds(
            SamplingParams,
            seed=st.just(0),
            temperature=st.just(0.0),
            repetition_penalty=st.sampled_from([1.0, 1.7, 0.6]),
            presence_penalty=st.sampled_from([0.0, 1.1, -0.3]),
            frequency_penalty=st.sampled_from([0.0, 0.9]),
            repetition_context_size=st.integers(0, 6),
            presence_context_size=st.integers(0, 5),
            frequency_context_size=st.integers(0, 5),
        ),
        min_size=1,
        max_size=5,
    ),
    start=st.lists(st.integers(0, 5), max_size=4),
)
def test_penalties_are_what_they_are_by_hand(params: list[SamplingParams], start: list[int]) -> None:
    random = np.random.default_rng(5)
    sampler = Sampler(6)
    texts = [list(start) for _ in params]
    prompt = [0, 3, 3, 5]
    for one, text in zip(params, texts, strict=True):
        sampler.add(one, prompt, 0, text)
    for _ in range(12):
        logits = random.normal(size=(len(params), 6)).astype(np.float32)
        samples = sampler.draw(mx.array(logits)).read()
        for one, text, row, sample in zip(params, texts, logits, samples, strict=True):
            scores = penalised(one, row, prompt, text)
            assert scores[sample.token] >= scores.max() - 1e-5
            text.append(sample.token)
