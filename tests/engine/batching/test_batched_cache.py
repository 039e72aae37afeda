"""Which places a row may look at, and where its next token goes. Whole batches are tested in `test_batch`."""

from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models.cache import ChunkedKVCache, KVCache, RotatingKVCache

from orchard.engine.batching.batched_cache import (
    GROWTH,
    Lengths,
    gather_rows,
    place_rows,
    resize_tokens,
    select_states,
)
from orchard.engine.batching.layer_kinds import BatchedKVCache, BatchedRotatingKVCache, Unbatchable, layer_kind_of
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
    batched = BatchedKVCache(KVCache())
    batched.lengths = Lengths(of)
    size = max(of) + 1
    for given_window in (None, window):
        expected = [set(range(max(length + 1 - (given_window or size), 0), length + 1)) for length in of]
        assert seen(batched.make_mask(1, given_window), len(of), size) == expected


@given(lengths, st.integers(3, 24), st.integers(1, 24))
def test_a_ring_holds_the_last_tokens(of: list[int], window: int, narrower: int) -> None:
    """Tokens are put into rings one by one; what a row then sees is what its last step may look at."""
    batched = BatchedRotatingKVCache(RotatingKVCache(window))
    batched.lengths = Lengths(of)
    size = min(max(of) + 1, window)
    own = min(window, narrower)
    rings = []
    for length in of:
        ring = [-1] * window
        for position in range(length + 1):
            ((place,),) = words(Lengths([position]).places(window, 0))
            ring[place] = position
        rings.append(ring[:size])
    places = seen(batched.make_mask(1, own), len(of), size)
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


def test_a_batched_cache_grows_and_shrinks_with_its_longest_row() -> None:
    batched: Any = layer_kind_of(filled(3)).batch(filled(3))
    batched.rebuild([], [filled(3), filled(GROWTH - 1)], 0, [3, GROWTH - 1])
    assert batched.arrays[0].shape == (2, 1, GROWTH, 8)
    for length in (GROWTH - 1, GROWTH):
        batched.begin(Lengths([3, length]))
        keys, _ = batched.update_and_fetch(mx.ones((2, 1, 1, 8)), mx.ones((2, 1, 1, 8)))
        assert keys.shape == (2, 1, length + 1, 8)
    assert batched.arrays[0].shape[2] == 2 * GROWTH
    batched.rebuild([0], [filled(5)], 2, [3, 5])
    assert batched.arrays[0].shape == (4, 1, GROWTH, 8)


def test_a_kind_without_a_row() -> None:
    for cache in (ChunkedKVCache(8), object()):
        with pytest.raises(Unbatchable, match=type(cache).__name__):
            layer_kind_of(cache).batch(cache)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(2, 4), st.sampled_from([(2, 3), (4, 8)]))
def test_a_state_is_the_one_behind_the_kept_tokens(kept: list[int], count: int, shape: tuple[int, ...]) -> None:
    """Behind i of a row's tokens it is i, padding behind them or not."""
    rows = len(kept)
    real = [count] * (rows - 1) + [max(1, min(kept[-1], count))]
    kept = [min(of, got) for of, got in zip(kept, real, strict=True)]
    found = Lengths([7] * rows, count, real=real).kept_tokens(kept)

    def states(of: list[int]) -> mx.array:
        return mx.broadcast_to(mx.array(of, mx.float32).reshape(-1, 1, 1), (len(of), *shape)) + 0

    between = mx.stack([states([place + 1] * rows) for place in range(count - 1)], axis=1)
    if not found.keeps_all:
        state = select_states(found, states([0] * rows), between, states(real))
        assert state.shape == (rows, *shape)
        assert mx.array_equal(state, states(kept))


@given(st.data())
def test_rows_are_placed_as_if_they_were_padded_and_gathered(data: st.DataObject) -> None:
    def rows(count: int, tokens: int) -> mx.array:
        return mx.arange(count * 2 * tokens * 3).reshape(count, 2, tokens, 3).astype(mx.float32) + 1

    here, places, size = (data.draw(st.integers(low, 9)) for low in (0, 1, 1))
    stored = rows(here, places) if here else None
    keep = data.draw(st.lists(st.integers(0, here - 1), unique=True)) if here else []
    joined = [rows(1, tokens) for tokens in data.draw(st.lists(st.integers(1, 9), min_size=not keep, max_size=4))]
    spare = data.draw(st.integers(0, 3))
    padded = None if stored is None else resize_tokens(stored, size)
    expected = gather_rows(padded, keep, [resize_tokens(row, size) for row in joined], spare)
    found = place_rows(stored, keep, joined, spare, size)
    assert found.shape == expected.shape
    assert mx.array_equal(found, expected)
