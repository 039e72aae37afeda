import mlx.core as mx
import numpy as np
import pytest
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
