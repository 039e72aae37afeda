"""Layers that read the same input become one product, and nothing else changes."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.tuner.lora import LoRALinear
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model

from orchard.backends.kernels import cpu, fused
from tests.support.examples import some
from tests.support.models import ARCHITECTURES, make_architecture

WIDTH = 64


@pytest.fixture(autouse=True)
def mlx_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that joint layers and single ones, whose products are compared to the last bit, have the same products."""
    monkeypatch.setattr(cpu, "is_slow", lambda: False)


class Block(nn.Module):  # type: ignore[misc]
    """Three layers that read one input, one that reads what they give."""

    def __init__(self, widths: tuple[int, ...] = (64, 32, 32), bias: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(WIDTH, width, bias=bias) for width in widths)
        self.out = nn.Linear(sum(widths), WIDTH, bias=bias)

    def __call__(self, inputs: mx.array) -> mx.array:
        joined = mx.concatenate([self.first(inputs), self.second(inputs), self.third(inputs)], axis=-1)
        result: mx.array = inputs + self.out(joined)
        return result


class Network(nn.Module):  # type: ignore[misc]
    def __init__(self, **block: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, WIDTH)
        self.blocks = [Block(**block), Block(**block)]

    def __call__(self, tokens: mx.array) -> mx.array:
        hidden: mx.array = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return hidden


def joined(network: nn.Module) -> list[str]:
    return [name for name, layer in network.named_modules() if type(layer) is fused._JoinedLayer]


def fuse(network: nn.Module) -> None:
    fused.fuse_layers(network, lambda: network(mx.array([[0]])))


def quantized(network: nn.Module, **how: Any) -> nn.Module:
    mx.eval(network.parameters())
    nn.quantize(network, **{"group_size": 32, "bits": 4, **how})
    return network


BOTH = [f"blocks.{block}.{name}" for block in (0, 1) for name in ("first", "second", "third")]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("how", [{}, {"bits": 8}, {"mode": "mxfp4", "bits": 4}], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (1, 300)])
def test_the_same_comes_out(bias: bool, how: dict[str, Any], shape: tuple[int, int]) -> None:
    mx.random.seed(1)
    network = quantized(Network(bias=bias), **how)
    tokens = mx.random.randint(0, 32, shape)
    before = network(tokens)
    mx.eval(before)
    fuse(network)
    assert sorted(joined(network)) == sorted(BOTH)
    assert mx.array_equal(network(tokens), before)


def test_weights_keep_their_names_and_are_held_once() -> None:
    network = quantized(Network(widths=(1024, 512, 512)))
    before = {name: mx.array(array) for name, array in tree_flatten(network.parameters())}
    mx.eval(before)
    held = mx.get_active_memory()
    fuse(network)
    mx.eval(network.parameters(), network(mx.array([[1]])))
    after: dict[str, Any] = dict(tree_flatten(network.parameters()))
    assert after.keys() == before.keys()
    assert all(mx.array_equal(after[name], before[name]) for name in before)
    del after
    assert mx.get_active_memory() <= held + 4096


def test_layers_quantised_in_another_way_stay_out() -> None:
    network = Network()
    mx.eval(network.parameters())
    nn.quantize(
        network, group_size=32, bits=4, class_predicate=lambda path, _: {"bits": 8} if "third" in path else True
    )
    fuse(network)
    assert sorted(joined(network)) == [name for name in BOTH if "third" not in name]


def test_layers_that_are_not_quantised_stay() -> None:
    network = Network()
    fuse(network)
    assert joined(network) == []


def test_a_layer_that_is_called_twice_or_with_another_input_works() -> None:
    """The pass that found the layers need not be all that a model does."""
    mx.random.seed(2)
    network = quantized(Network())
    one, other = mx.random.normal((2, 1, 3, WIDTH))
    block = network.blocks[0]
    expected = [layer(inputs) for inputs in (one, other) for layer in (block.first, block.second, block.third)]
    mx.eval(expected)
    fuse(network)
    first, second = block.first(one), block.second(other)
    assert mx.array_equal(first, expected[0])
    assert mx.array_equal(second, expected[4])
    assert mx.array_equal(block.third(one), expected[2])
    assert mx.array_equal(block.second(one), expected[1])


def test_nothing_is_held_between_passes() -> None:
    network = quantized(Network())
    fuse(network)
    mx.eval(network(mx.array([[1, 2]])))
    joint = network.blocks[1].third.joint
    assert (joint._inputs, joint._outputs) == (None, [])


class Shared(Network):
    """Its second block is its first."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [self.blocks[0]] * 2


def test_a_layer_that_a_pass_calls_more_than_once_stays() -> None:
    network = quantized(Shared())
    fuse(network)
    assert joined(network) == []


@pytest.mark.parametrize("kind", some(list(ARCHITECTURES), 3))
def test_real_architectures(kind: str, tmp_path: Path) -> None:
    make_architecture(tmp_path, kind)
    network, _ = load_model(tmp_path)
    nn.quantize(
        network,
        group_size=32,
        bits=4,
        class_predicate=lambda _, layer: hasattr(layer, "to_quantized") and layer.weight.shape[-1] % 32 == 0,
    )
    tokens = mx.array([[1, 2, 3, 4, 5]])
    before = network(tokens)
    mx.eval(before)
    fuse(network)
    assert joined(network)
    assert mx.array_equal(network(tokens), before)


def test_an_adapter_keeps_its_layers_apart(tmp_path: Path) -> None:
    make_architecture(tmp_path, "qwen3")
    network, _ = load_model(tmp_path)
    nn.quantize(network, group_size=32, bits=4)
    linear_to_lora_layers(network, 1, {"rank": 2, "scale": 1.0, "dropout": 0.0})
    fuse(network)
    adapted = {name.removesuffix(".linear") for name, layer in network.named_modules() if type(layer) is LoRALinear}
    assert adapted
    assert joined(network)
    assert not any(name.removesuffix(".linear") in adapted for name in joined(network))
