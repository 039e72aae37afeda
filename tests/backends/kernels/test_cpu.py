from contextlib import AbstractContextManager, nullcontext

import mlx.core as mx
import numpy as np
import pytest
import threadpoolctl
from mlx import nn
from mlx.utils import tree_flatten

from orchard.backends.kernels import cpu


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 12), (2, 3, 12), (1, 12)])
def test_numpys_layers_give_what_mlxs_give(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], *, bias: bool
) -> None:
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    mx.random.seed(1)
    network = nn.Sequential(nn.Linear(12, 20, bias=bias), nn.Linear(20, 4, bias=bias))
    given = mx.random.normal(shape)
    expected = network(given)
    cpu.use_numpy(network)
    assert {type(layer) for layer in network.layers} == {cpu._NumpyLinear}
    found = network(given)
    assert found.shape == expected.shape
    assert np.array(found) == pytest.approx(np.array(expected), abs=1e-5)
    halves = given.astype(mx.float16)
    assert mx.array_equal(network.layers[0](halves), nn.Linear.__call__(network.layers[0], halves))


def test_layers_of_other_types_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    network = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64).to_quantized())
    network.layers[0].set_dtype(mx.float16)
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    cpu.use_numpy(network)
    assert [type(layer) for layer in network.layers] == [nn.Linear, nn.QuantizedLinear]
    fast = nn.Sequential(nn.Linear(4, 4))
    monkeypatch.setattr(cpu, "is_slow", lambda: False)
    cpu.use_numpy(fast)
    assert type(fast.layers[0]) is nn.Linear


def test_a_quantised_network_computes_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    network = nn.Sequential(nn.Linear(64, 64).to_quantized(group_size=32), nn.Linear(64, 8))
    network.set_dtype(mx.bfloat16)
    expected = network(mx.ones((1, 64), mx.bfloat16))
    monkeypatch.setattr(cpu, "is_slow", lambda: False)
    cpu.widen_to_float32(network)
    assert network.layers[0].scales.dtype == mx.bfloat16
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    cpu.widen_to_float32(network)
    found = network(mx.ones((1, 64)))
    assert (found.dtype, network.layers[0].weight.dtype) == (mx.float32, mx.uint32)
    assert np.array(found) == pytest.approx(np.array(expected.astype(mx.float32)), abs=0.02)
    assert type(network.layers[1]) is cpu._NumpyLinear


@pytest.mark.parametrize(("dtype", "room"), [(mx.bfloat16, 63), (mx.float32, 64)])
def test_a_network_that_is_not_quantised_stays_where_memory_is_short_or_it_is_wide(
    monkeypatch: pytest.MonkeyPatch, dtype: mx.Dtype, room: int
) -> None:
    network = nn.Sequential(nn.Linear(4, 4))
    network.set_dtype(dtype)
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    assert not cpu.widen_to_float32(network, room)
    assert (type(network.layers[0]), network.layers[0].weight.dtype) == (nn.Linear, dtype)


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
def test_small_layers_of_half_the_width_are_numpys_for_several_rows(
    monkeypatch: pytest.MonkeyPatch, dtype: mx.Dtype
) -> None:
    mx.random.seed(3)
    network = nn.Sequential(nn.Linear(8, 8))
    network.set_dtype(dtype)
    given = mx.random.normal((1, 2, 8))
    expected = network(given.astype(dtype)).astype(mx.float32)
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    assert cpu.widen_to_float32(network, 256)
    found = network(given)
    assert found.dtype == mx.float32
    assert np.array(found) == pytest.approx(np.array(expected), abs=0.05)
    monkeypatch.setattr(cpu, "numpy_product", lambda inputs, weights: mx.zeros((*inputs.shape[:-1], 8)))
    bias = mx.broadcast_to(network.layers[0].bias, given.shape)
    assert mx.array_equal(network(given), bias)
    assert not mx.array_equal(network(given[:, 1:]), bias[:, 1:])


class _Writer(nn.Module):  # type: ignore[misc]
    """A network in the manner of those with tied embeddings, in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 64).to_quantized(group_size=32)
        self.layers = [nn.Linear(64, 64).to_quantized(group_size=32), nn.Linear(64, 64, bias=False)]
        self.layers.append(nn.Linear(64, 64, bias=False).to_quantized(group_size=32, mode="mxfp4"))
        self.set_dtype(mx.bfloat16)

    def __call__(self, tokens: mx.array) -> mx.array:
        hidden = self.table(tokens)
        for layer in self.layers:
            hidden = hidden + layer(hidden)
        logits: mx.array = self.table.as_linear(hidden)
        return logits


_TAKES = (32 * 64 + 3 * 64 * 64) * 4  # bytes, in float32


@pytest.mark.parametrize("tokens", [[[3]], [[3, 5, 9, 30]]])
def test_large_layers_that_fit_are_numpys_with_unpacked_weights(
    monkeypatch: pytest.MonkeyPatch, tokens: list[list[int]]
) -> None:
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    monkeypatch.setattr(cpu, "_LEAST_WEIGHTS", (32 * 64 + 3 * 64 * 64) // 4)
    mx.random.seed(2)
    network = _Writer()
    network.set_dtype(mx.float32)  # of weights that are known in bfloat16
    expected = np.array(network(mx.array(tokens)))
    network.set_dtype(mx.bfloat16)
    assert cpu.widen_to_float32(network, _TAKES)
    assert type(network.table) is cpu._NumpyEmbedding
    assert {type(layer) for layer in network.layers} == {cpu._NumpyLinear}
    assert sum(array.nbytes for _, array in tree_flatten(network.parameters())) == _TAKES + 64 * 4
    found = network(mx.array(tokens))
    assert found.dtype == mx.float32
    assert np.array(found) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("least", "room"), [(1, _TAKES - 1), (2**18, _TAKES)])
def test_weights_stay_packed_where_layers_are_small_or_memory_is_short(
    monkeypatch: pytest.MonkeyPatch, least: int, room: int
) -> None:
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    monkeypatch.setattr(cpu, "_LEAST_WEIGHTS", least)
    network = _Writer()
    assert not cpu.widen_to_float32(network, room)
    kinds = [type(layer) for layer in (network.table, *network.layers)]
    assert kinds == [nn.QuantizedEmbedding, nn.QuantizedLinear, cpu._NumpyLinear, nn.QuantizedLinear]


def test_few_rows_are_mlxs_where_numpy_waits_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    network = nn.Sequential(nn.Linear(12, 20))
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    cpu.use_numpy(network, fewest_rows=8)
    monkeypatch.setattr(cpu, "numpy_product", lambda inputs, weights: mx.zeros((*inputs.shape[:-1], 20)))
    assert mx.array_equal(network(mx.ones((1, 8, 12))), mx.broadcast_to(network.layers[0].bias, (1, 8, 20)))
    assert not mx.array_equal(network(mx.ones((1, 7, 12))), mx.broadcast_to(network.layers[0].bias, (1, 7, 20)))


@pytest.mark.parametrize("rows", [1, cpu.MANY_ROWS - 1, cpu.MANY_ROWS])
def test_few_rows_are_multiplied_in_one_thread(rows: int) -> None:
    def threads() -> list[int]:
        return [one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"]

    usual = threads()
    with cpu.threads_for(rows):
        assert threads() == ([1] * len(usual) if rows < cpu.MANY_ROWS else usual)
    assert threads() == usual


@pytest.mark.parametrize(("writes", "asked"), [(False, []), (True, [6])])
def test_only_layers_of_a_model_that_writes_give_up_threads(
    monkeypatch: pytest.MonkeyPatch, asked: list[int], *, writes: bool
) -> None:
    found: list[int] = []

    def noted(rows: int) -> AbstractContextManager[None]:
        found.append(rows)
        return nullcontext()

    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    monkeypatch.setattr(cpu, "threads_for", noted)
    network = nn.Sequential(nn.Linear(12, 20))
    cpu.use_numpy(network, generates=writes)
    mx.eval(network(mx.ones((1, 6, 12))))
    assert found == asked


@pytest.mark.parametrize("sizes", [(1, 4, 2, 9, 30), (2, 3, 3, 5, 5), (1, 4, 1, 40, 45)])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "numbers", "half", "of a row"])
def test_numpys_attention_gives_what_mlxs_gives(
    sizes: tuple[int, ...], mask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the queries are taken a few at a time."""
    rows, heads, kv_heads, count, places = sizes
    monkeypatch.setattr(cpu, "_MOST_SCORES", 400)
    shapes = (rows, heads, count, 8), (rows, kv_heads, places, 8), (rows, kv_heads, places, 6)
    queries, keys, values = (mx.random.normal(shape, key=mx.random.key(seed)) for seed, shape in enumerate(shapes))
    allowed = mx.random.uniform(shape=(rows, 1, count, places), key=mx.random.key(9)) > 0.3
    masks = {
        "none": None,
        "causal": "causal",
        "bool": allowed,
        "numbers": mx.where(allowed, 0.0, -2.0),
        "half": mx.where(allowed, 0.0, -2.0).astype(mx.bfloat16),
        "of a row": allowed[0, 0],
    }
    own = masks[mask]
    wide = own.astype(mx.float32) if isinstance(own, mx.array) and own.dtype == mx.bfloat16 else own
    expected = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=0.3, mask=wide)
    found = cpu.numpy_attention(queries, keys, values, 0.3, own)
    assert mx.abs(found - expected).max().item() < 1e-5  # type: ignore[operator]
