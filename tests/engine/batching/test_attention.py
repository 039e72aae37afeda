"""Attention to quantised keys and values."""

import mlx.core as mx
import pytest
from mlx_lm.models import base
from mlx_lm.models.cache import QuantizedKVCache

from orchard.engine.batching import attention, decode_attention

SCALE = 32**-0.5


def drawn(heads: int, tokens: int) -> mx.array:
    return mx.random.normal((1, heads, tokens, 32))


@pytest.mark.parametrize(("tokens", "mask"), [(1, None), (5, "causal")])
@pytest.mark.parametrize("sinks", [None, mx.array([1.0, -1.0])])
def test_quantised_keys_mean_what_they_are_unpacked_to(tokens: int, mask: str | None, sinks: mx.array | None) -> None:
    mx.random.seed(3)
    cache = QuantizedKVCache(group_size=32, bits=8)
    cache.update_and_fetch(drawn(1, 9), drawn(1, 9))
    keys, values = cache.update_and_fetch(drawn(1, tokens), drawn(1, tokens))
    queries = drawn(2, tokens)
    plain = [mx.dequantize(of[0], of[1], of[2], group_size=32, bits=8) for of in (keys, values)]
    expected = mx.fast.scaled_dot_product_attention(queries, *plain, scale=SCALE, mask=mask, sinks=sinks)
    found = attention.attend(queries, keys, values, cache, scale=SCALE, mask=mask, sinks=sinks)
    assert mx.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(("cuda", "multiplied"), [(False, [1]), (True, [])])
def test_packed_keys_are_multiplied_for_one_token_and_never_on_cuda(
    cuda: bool, multiplied: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For several it takes six times as long on a CPU; on CUDA the result may be wrong."""
    packed: list[int] = []

    def spy(queries: mx.array, *_: object, **__: object) -> mx.array:
        packed.append(queries.shape[2])
        return queries

    monkeypatch.setattr(attention, "on_cuda", lambda: cuda)
    monkeypatch.setattr(base, "quantized_scaled_dot_product_attention", spy)
    cache = QuantizedKVCache(group_size=32, bits=4)
    for tokens in (7, 2, 1):
        keys, values = cache.update_and_fetch(drawn(1, tokens), drawn(1, tokens))
        attention.attend(drawn(2, tokens), keys, values, cache, scale=SCALE, mask=None)
    assert packed == multiplied


def test_attention_is_exact_where_kernels_are_compared() -> None:
    mx.random.seed(1)
    queries, keys, values = (mx.random.normal((1, 2, 9, 32)).astype(mx.bfloat16) * 3 for _ in range(3))
    wide = [array.astype(mx.float32) for array in (queries, keys, values)]
    expected = mx.fast.scaled_dot_product_attention(*wide, scale=SCALE, mask="causal").astype(mx.bfloat16)
    with attention.exact_attention():
        found = attention.attend(queries, keys, values, None, scale=SCALE, mask="causal")
    assert found.dtype == mx.bfloat16
    assert mx.array_equal(found, expected)
    assert not mx.array_equal(attention.attend(queries, keys, values, None, scale=SCALE, mask="causal"), expected)


def test_exact_attention_leaves_out_the_kernel_for_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "on_cuda", lambda: True)
    monkeypatch.setattr(decode_attention, "can_attend_rows", lambda *_: True)
    monkeypatch.setattr(decode_attention, "attend_rows", lambda queries, *_: queries)
    queries, keys, values = (mx.random.normal((1, 2, 1, 32)) for _ in range(3))
    assert attention.attend(queries, keys, values, None, scale=SCALE) is queries
    with attention.exact_attention():
        assert attention.attend(queries, keys, values, None, scale=SCALE) is not queries


def test_a_kernel_for_prompts_is_used_where_it_gains() -> None:
    """For several tokens in float32, and enough of them; where kernels are compared, never."""
    calls: list[tuple[int, ...]] = []

    def kernel(queries: mx.array, keys: mx.array, values: mx.array, scale: float, mask: object) -> mx.array:
        calls.append(queries.shape)
        return mx.zeros(queries.shape)

    def read(count: int, dtype: mx.Dtype = mx.float32, places: int = 4096) -> None:
        queries, keys = (mx.zeros((1, 2, length, 32), dtype) for length in (count, places))
        attention.attend(queries, keys, keys, None, scale=SCALE)

    attention.use_prompt_kernel(kernel)
    try:
        read(32)
        assert calls == [(1, 2, 32, 32)]
        read(1)
        read(32, mx.float16)
        read(32, places=64)
        with attention.exact_attention():
            read(32)
        assert len(calls) == 1
    finally:
        attention.use_prompt_kernel(None)
    read(32)
    assert len(calls) == 1
