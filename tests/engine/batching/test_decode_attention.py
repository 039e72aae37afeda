"""For what the kernel for rows stands in, and, on CUDA, what it computes."""

import itertools
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache, QuantizedKVCache, RotatingKVCache

from orchard.engine.batching import decode_attention
from orchard.engine.batching.batched_cache import Lengths
from orchard.engine.batching.layer_kinds import layer_kind_of

WIDTH = 64


def drawn(heads: int, tokens: int, width: int = WIDTH) -> mx.array:
    return mx.random.normal((1, heads, tokens, width))


def filled(cache: Any, length: int, width: int = WIDTH) -> Any:
    cache.update_and_fetch(drawn(2, length, width), drawn(2, length, width))
    return cache


def batched(lengths: list[int], make: Any = KVCache, width: int = WIDTH, tokens: int = 1) -> Any:
    """A layer of rows that hold so many tokens, and get `tokens` more each."""
    rows = [filled(make(), length, width) for length in lengths]
    layer: Any = layer_kind_of(rows[0]).batch(rows[0])
    layer.rebuild([], rows, 0, lengths)
    layer.begin(Lengths(lengths, tokens))
    new = mx.random.normal((len(lengths), 2, tokens, width))
    layer.update_and_fetch(new, new)
    return layer


def queries(rows: int, tokens: int = 1, width: int = WIDTH) -> mx.array:
    return mx.random.normal((rows, 4, tokens, width))


def test_it_serves_decode_with_the_layers_own_keys_and_mask() -> None:
    layer = batched([3, 9])
    keys, mask = layer.last_fetch[0], layer.make_mask(1)
    assert decode_attention.can_attend_rows(queries(2), keys, layer, mask)
    assert decode_attention.can_attend_rows(queries(2), keys, layer, None)
    ring = batched([3, 30], lambda: RotatingKVCache(16))
    assert decode_attention.can_attend_rows(queries(2), ring.last_fetch[0], ring, ring.make_mask(1))


def test_it_serves_a_mask_that_hides_the_first_place() -> None:
    layer = batched([3, 9])
    keys, size = layer.last_fetch[0], layer.lengths.reach
    assert decode_attention.can_attend_rows(queries(2), keys, layer, layer.lengths.mask(size, hidden_count=1))
    assert not decode_attention.can_attend_rows(queries(2), keys, layer, layer.lengths.mask(size, hidden_count=2))
    alike = batched([9, 9])
    assert decode_attention.can_attend_rows(
        queries(2), alike.last_fetch[0], alike, alike.lengths.mask(10, hidden_count=1)
    )


def test_it_serves_a_few_tokens_a_row() -> None:
    layer = batched([3, 9], tokens=3)
    assert decode_attention.can_attend_rows(queries(2, 3), layer.last_fetch[0], layer, layer.make_mask(3))
    # The first would see the last.
    assert not decode_attention.can_attend_rows(queries(2, 3), layer.last_fetch[0], layer, None)
    # Rows end in several places.
    assert not decode_attention.can_attend_rows(queries(2, 3), layer.last_fetch[0], layer, "causal")
    alike = batched([9, 9], tokens=3)
    assert alike.make_mask(3) == "causal"
    assert decode_attention.can_attend_rows(queries(2, 3), alike.last_fetch[0], alike, "causal")
    many = batched([3, 9], tokens=17)
    assert not decode_attention.can_attend_rows(queries(2, 17), many.last_fetch[0], many, many.make_mask(17))
    ring = batched([3, 30], lambda: RotatingKVCache(16), tokens=3)
    assert not decode_attention.can_attend_rows(queries(2, 3), ring.last_fetch[0], ring, ring.make_mask(3))


def test_it_does_not_serve_what_it_would_get_wrong() -> None:
    layer = batched([3, 9])
    keys, mask = layer.last_fetch[0], layer.make_mask(1)
    assert not decode_attention.can_attend_rows(queries(2, tokens=2), keys, layer, mask)  # prefill
    assert not decode_attention.can_attend_rows(queries(2), keys + 0, layer, mask)  # the model has changed the keys
    assert not decode_attention.can_attend_rows(queries(2), keys, layer, mask & mask)  # ... or the mask
    assert not decode_attention.can_attend_rows(queries(2), keys, layer, layer.make_mask(1, window_size=4))
    assert not decode_attention.can_attend_rows(queries(2).astype(mx.float16), keys, layer, mask)
    assert not decode_attention.can_attend_rows(queries(2), keys, filled(KVCache(), 3), mask)
    narrow = batched([3, 9], width=40)
    assert not decode_attention.can_attend_rows(queries(2, width=40), narrow.last_fetch[0], narrow, None)
    packed = batched([3, 9], lambda: QuantizedKVCache(32, 8))
    assert not decode_attention.can_attend_rows(queries(2), packed.last_fetch[0], packed, None)
    ring = batched([3, 30], lambda: RotatingKVCache(16))
    assert not decode_attention.can_attend_rows(queries(2), ring.last_fetch[0], ring, ring.make_mask(1, window_size=8))


@pytest.mark.skipif(not mx.cuda.is_available(), reason="the kernel is CUDA's")
def test_it_computes_what_the_library_computes() -> None:
    lengths = ([1, 2, 300], [40], [1100, 5], [9000, 8000])
    widths, dtypes = (32, 64, 96, 128, 256), (mx.float32, mx.bfloat16, mx.float16)
    for of, width, dtype, tokens in itertools.product(lengths, widths, dtypes, (1, 5)):
        layer = batched(of, width=width, tokens=tokens)
        layer.arrays = [array.astype(dtype) for array in layer.arrays]
        layer.last_fetch = tuple(array[:, :, : max(of) + tokens] for array in layer.arrays)
        asked = queries(len(of), tokens, width).astype(dtype)
        plain = [array.astype(mx.float32) for array in (asked, *layer.last_fetch)]
        expected = mx.fast.scaled_dot_product_attention(*plain, scale=width**-0.5, mask=layer.make_mask(tokens))
        found = decode_attention.attend_rows(asked, layer, width**-0.5)
        assert found.dtype == dtype
        assert mx.allclose(found.astype(mx.float32), expected, atol=1e-4 if dtype == mx.float32 else 1e-2)


@pytest.mark.skipif(not mx.cuda.is_available(), reason="the kernel is CUDA's")
def test_it_hides_the_first_place() -> None:
    for tokens in (1, 5):
        layer = batched([1, 2, 300], tokens=tokens)
        asked, mask = queries(3, tokens), layer.lengths.mask(layer.lengths.reach, hidden_count=1)
        expected = mx.fast.scaled_dot_product_attention(asked, *layer.last_fetch, scale=0.125, mask=mask)
        assert mx.allclose(decode_attention.attend_rows(asked, layer, 0.125, mask), expected, atol=1e-4)


def test_each_scale_has_a_kernel_of_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.fast, "cuda_kernel", lambda name, *_: name)
    make = decode_attention._attend_kernel.__wrapped__
    names = [make(scale) for scale in (0.125, 8.0, 2.0**-3.5)]
    assert len(set(names)) == 3
    assert all(name.isidentifier() for name in names)
