"""Draws ahead: several a row at once, of which only the first few stand."""

from typing import Any

import mlx.core as mx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.engine.sampling.params import SamplingParams
from orchard.engine.sampling.sampler import Sampler
from tests.engine.sampling.test_sampler_company import LENGTH, Text, few, same, some_params

free_params = some_params.map(
    lambda params: replace(
        params, repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, thinking_budget=None
    )
)


@few
@given(
    params=st.lists(some_params, min_size=1, max_size=4) | st.lists(free_params, min_size=1, max_size=4),
    size=st.sampled_from([20, 300]),
    data=st.data(),
)
def test_what_does_not_stand_leaves_nothing(params: list[SamplingParams], size: int, data: Any) -> None:
    """A row that goes on after some of its draws draws what it does alone, one by one.

    Rows without penalties and budgets draw all at once.
    """
    texts = [Text(number, one, size) for number, one in enumerate(params)]
    sampler, done = Sampler(size), [0] * len(texts)
    for text in texts:
        text.join(sampler, 0)
    while min(done) < LENGTH:
        ahead = data.draw(st.integers(1, 4))
        places = [[min(count + place, LENGTH - 1) for place in range(ahead)] for count in done]
        logits = np.stack([text.logits[of] for text, of in zip(texts, places, strict=True)])
        draws = sampler.draw_ahead(mx.array(logits)).read()
        stand = [data.draw(st.integers(0, min(ahead, LENGTH - before))) for before in done]
        for row, text in enumerate(texts):
            for place in range(stand[row]):
                same(draws[row][place], text.alone[done[row] + place])
        sampler.settle(stand)
        done = [before + count for before, count in zip(done, stand, strict=True)]
