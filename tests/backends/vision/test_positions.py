"""M-RoPE positions, beside the reference that was written from the papers by somebody else."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from orchard.backends.vision.positions import TokenGrid, positions_of
from tests.support.examples import examples
from tests.support.mrope import Grid, Words, reference_positions

_SIZES = st.integers(1, 5)
_STEPS = st.sampled_from([Fraction(1), Fraction(2), Fraction(1, 2), Fraction(7, 4), Fraction(25)])
_WORDS = st.builds(Words, st.integers(0, 6))
_GRIDS = st.builds(Grid, _SIZES, _SIZES, _SIZES, _STEPS)


@examples(200)
@given(st.lists(_WORDS | _GRIDS, max_size=6))
def test_text_pictures_and_films_in_any_order(parts: list[Words | Grid]) -> None:
    length = 0
    grids = []
    for part in parts:
        if isinstance(part, Words):
            length += part.count
            continue
        grids.append(TokenGrid(length, part.groups, part.rows, part.columns, float(part.step)))
        length += grids[-1].tokens
    expected, delta = reference_positions(parts)
    found, ahead = positions_of(length, grids)
    assert np.array_equal(found, expected)
    assert ahead == delta
