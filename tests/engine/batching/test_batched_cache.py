"""Which places a row may look at, and where its next token goes. Whole shelves are tested in `test_batch`."""

from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models.cache import ChunkedKVCache, KVCache, RotatingKVCache

from orchard.engine.batching.batched_cache import GROWTH, Dense, Lengths, Ring, Unbatchable, shelf_for
from tests.support.tiny_models import words

lengths = st.lists(st.integers(1, 60), min_size=1, max_size=4)


def seen(mask: mx.array | None, rows: int, size: int) -> list[set[int]]:
    """Give the places that each row sees."""
    if mask is None:
        return [set(range(size))] * rows
    assert mask.shape == (rows, 1, 1, size)
    return [{place for place, is_seen in enumerate(row) if is_seen} for row in words(mask[:, 0, 0])]


@given(lengths, st.integers(1, 70))
def test_a_dense_row_sees_its_own_tokens_in_the_window(of: list[int], window: int) -> None:
    known = Lengths(of)
    shelf = Dense(KVCache)
    size = max(of) + 1
    for given_window in (None, window):
        expected = [set(range(max(length + 1 - (given_window or size), 0), length + 1)) for length in of]
        assert seen(shelf.mask(known, given_window), len(of), size) == expected


@given(lengths, st.integers(3, 24), st.integers(1, 24))
def test_a_ring_holds_the_last_tokens(of: list[int], window: int, narrower: int) -> None:
    """Tokens are put into rings one by one; what a row then sees is what its last step may look at."""
    shelf, known = Ring(RotatingKVCache, window, 0), Lengths(of)
    size = min(max(of) + 1, window)
    own = min(window, narrower)
    rings = []
    for length in of:
        ring = [-1] * window
        for position in range(length + 1):
            ((place,),) = words(Lengths([position]).places(window, 0))
            ring[place] = position
        rings.append(ring[:size])
    places = seen(shelf.mask(known, own), len(of), size)
    for ring, row, length in zip(rings, places, of, strict=True):
        assert sorted(ring[place] for place in row) == list(range(max(length + 1 - own, 0), length + 1))


@given(st.integers(3, 24), st.integers(0, 200), st.data())
def test_the_first_tokens_of_a_ring_stay(window: int, length: int, data: st.DataObject) -> None:
    keep = data.draw(st.integers(0, window - 1))
    places = [place for (place,) in words(Lengths(range(length + 1)).places(window, keep))]
    ring = dict(zip(places, range(length + 1), strict=True))
    if length < window:
        assert ring == {place: place for place in range(length + 1)}
    else:
        last = range(length + 1 - (window - keep), length + 1)
        assert sorted(ring.values()) == [*range(keep), *last]
        assert set(ring) == set(range(window))


def filled(length: int) -> KVCache:
    cache = KVCache()
    cache.update_and_fetch(mx.ones((1, 1, length, 8)), mx.ones((1, 1, length, 8)))
    return cache


def test_a_shelf_grows_and_shrinks_with_its_longest_row() -> None:
    shelf: Any = shelf_for(filled(3))
    shelf.rebuild([], [filled(3), filled(GROWTH - 1)], 0, [3, GROWTH - 1])
    assert shelf._parts[0].shape == (2, 1, GROWTH, 8)
    for length in (GROWTH - 1, GROWTH):
        keys, _ = shelf.update(mx.ones((2, 1, 1, 8)), mx.ones((2, 1, 1, 8)), Lengths([3, length]))
        assert keys.shape == (2, 1, length + 1, 8)
    assert shelf._parts[0].shape[2] == 2 * GROWTH
    shelf.rebuild([0], [filled(5)], 2, [3, 5])
    assert shelf._parts[0].shape == (4, 1, GROWTH, 8)


def test_kinds_without_a_shelf() -> None:
    for cache in (ChunkedKVCache(8), object()):
        with pytest.raises(Unbatchable, match=type(cache).__name__):
            shelf_for(cache)
