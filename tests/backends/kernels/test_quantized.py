"""The arithmetic of these layers is checked on any device; that they are faster is measured in benchmarks/."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn

from orchard.backends.kernels import cpu, quantized

SHAPES = [(1, 1, 64), (5, 1, 64), (300, 1, 64), (1, 255, 64), (1, 256, 64), (1, 300, 64), (2, 150, 64), (7, 64), (64,)]
MODES: list[dict[str, Any]] = [
    {"group_size": 32, "bits": 4},
    {"group_size": 64, "bits": 8},
    {"group_size": 32, "bits": 4, "mode": "mxfp4"},
]
every_mode = pytest.mark.parametrize("mode", MODES, ids=str)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@pytest.fixture(autouse=True)
def random_weights() -> None:
    mx.random.seed(0)


def check_alike(one: Callable[[mx.array], mx.array], other: Callable[[mx.array], mx.array], inputs: mx.array) -> None:
    assert one(inputs).shape == other(inputs).shape
    assert one(inputs).dtype == other(inputs).dtype
    off = mx.abs(one(inputs) - other(inputs)).max().item()
    assert isinstance(off, float)
    assert off < (1e-4 if inputs.dtype == mx.float32 else 0.1)


@every_mode
@every_shape
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer(mode: dict[str, Any], shape: tuple[int, ...], bias: bool) -> None:
    plain = nn.Linear(64, 96, bias=bias)
    layer = nn.QuantizedLinear.from_linear(plain, **mode)
    ours = nn.QuantizedLinear.from_linear(plain, **mode)
    ours.__class__ = quantized._FastLinear
    check_alike(ours, layer, mx.random.normal(shape))


@every_mode
@every_shape
def test_an_embedding_as_the_last_layer(mode: dict[str, Any], shape: tuple[int, ...]) -> None:
    plain = nn.Embedding(96, 64)
    layer = nn.QuantizedEmbedding.from_embedding(plain, **mode)
    ours = nn.QuantizedEmbedding.from_embedding(plain, **mode)
    ours.__class__ = quantized._FastEmbedding
    check_alike(ours.as_linear, layer.as_linear, mx.random.normal(shape))
    assert mx.array_equal(ours(mx.array([3, 5])), layer(mx.array([3, 5])))


@pytest.mark.parametrize("shape", [(5, 1, 64), (1, 300, 64)])
def test_the_inputs_type_stays(shape: tuple[int, ...]) -> None:
    layer = nn.QuantizedLinear.from_linear(nn.Linear(64, 96, bias=False), group_size=32, bits=4)
    layer.set_dtype(mx.bfloat16)
    check_alike(
        lambda inputs: quantized.quantized_product(inputs, layer), layer, mx.random.normal(shape).astype(mx.bfloat16)
    )


class Network(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(64, 96), nn.Linear(96, 64), nn.Embedding(32, 64)]


def kinds(network: nn.Module) -> list[str]:
    return [type(layer).__name__ for layer in network.layers]


def test_where_mlxs_products_are_fast_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "is_slow", lambda: False)
    network = Network()
    nn.quantize(network, group_size=32)
    quantized.adapt_quantized_layers(network)
    assert kinds(network) == ["QuantizedLinear", "QuantizedLinear", "QuantizedEmbedding"]


@pytest.mark.parametrize("mode", [MODES[0], MODES[2]], ids=str)
@pytest.mark.parametrize("rows", [1, cpu.FEWEST_ROWS - 1, cpu.FEWEST_ROWS, 40])
def test_on_a_cpu_without_a_library_the_same_comes_out(
    monkeypatch: pytest.MonkeyPatch, rows: int, mode: dict[str, Any]
) -> None:
    monkeypatch.setattr(quantized, "_BLOCK", 64 * 40)  # 40 outputs at a time
    network = Network()
    nn.quantize(network, **mode)
    first, _, embedding = network.layers
    inputs = mx.random.normal((1, rows, 64))
    expected = first(inputs), embedding.as_linear(inputs)
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    quantized.adapt_quantized_layers(network)
    found = first(inputs), embedding.as_linear(inputs)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert mx.allclose(one, other, atol=1e-5)


def test_with_cuda_the_quantised_layers_change(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network()
    nn.quantize(network, group_size=32, class_predicate=lambda path, layer: path != "layers.1")
    monkeypatch.setenv("MLX_CUDA_USE_CUDNN_SDPA", "0")  # so that it is put back
    with monkeypatch.context() as pretended:
        pretended.setattr(mx, "default_device", lambda: mx.gpu)
        pretended.setattr(mx.cuda, "is_available", lambda: True)
        quantized.adapt_quantized_layers(network)
    assert kinds(network) == ["_FastLinear", "Linear", "_FastEmbedding"]
