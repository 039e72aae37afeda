from contextlib import AbstractContextManager, nullcontext

import mlx.core as mx
import numpy as np
import pytest
import threadpoolctl
from mlx import nn

from orchard.backends import cpu


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
    cpu.adapt(network)
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
    cpu.adapt(network)
    assert [type(layer) for layer in network.layers] == [nn.Linear, nn.QuantizedLinear]
    fast = nn.Sequential(nn.Linear(4, 4))
    monkeypatch.setattr(cpu, "is_slow", lambda: False)
    cpu.adapt(fast)
    assert type(fast.layers[0]) is nn.Linear


def test_a_quantised_network_computes_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    network = nn.Sequential(nn.Linear(64, 64).to_quantized(group_size=32), nn.Linear(64, 8))
    network.set_dtype(mx.bfloat16)
    expected = network(mx.ones((1, 64), mx.bfloat16))
    monkeypatch.setattr(cpu, "is_slow", lambda: False)
    cpu.widen(network)
    assert network.layers[0].scales.dtype == mx.bfloat16
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    cpu.widen(network)
    found = network(mx.ones((1, 64)))
    assert (found.dtype, network.layers[0].weight.dtype) == (mx.float32, mx.uint32)
    assert np.array(found) == pytest.approx(np.array(expected.astype(mx.float32)), abs=0.02)
    assert type(network.layers[1]) is cpu._NumpyLinear


def test_a_network_that_is_not_quantised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    network = nn.Sequential(nn.Linear(4, 4))
    network.set_dtype(mx.bfloat16)
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    cpu.widen(network)
    assert (type(network.layers[0]), network.layers[0].weight.dtype) == (nn.Linear, mx.bfloat16)


def test_few_rows_are_mlxs_where_numpy_waits_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    network = nn.Sequential(nn.Linear(12, 20))
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    cpu.adapt(network, fewest_rows=8)
    monkeypatch.setattr(cpu, "product", lambda inputs, weights: mx.zeros((*inputs.shape[:-1], 20)))
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


@pytest.mark.parametrize(("fewest_rows", "asked"), [(1, []), (4, [6])])
def test_only_layers_of_a_model_that_writes_give_up_threads(
    monkeypatch: pytest.MonkeyPatch, fewest_rows: int, asked: list[int]
) -> None:
    found: list[int] = []

    def noted(rows: int) -> AbstractContextManager[None]:
        found.append(rows)
        return nullcontext()

    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    monkeypatch.setattr(cpu, "threads_for", noted)
    network = nn.Sequential(nn.Linear(12, 20))
    cpu.adapt(network, fewest_rows)
    mx.eval(network(mx.ones((1, 6, 12))))
    assert found == asked
