"""Computes quantised layers that read the same input (a block's queries, keys and values; gate and up) as one product.

A step of a small model, or of any model on a fast GPU, takes as long as its launches. A pass over the model shows which
layers read the same input; names are not used. A layer's own weights become views of the joint weights, so nothing is
held twice. A layer that gets another input than the first layer works as before.
"""

from collections import Counter
from collections.abc import Callable
from itertools import accumulate, groupby, pairwise
from typing import Any

import mlx.core as mx
from mlx import nn

from orchard.backends.kernels import quantized

_ARRAYS = ("weight", "scales", "biases", "bias")


def fuse_layers(network: nn.Module, run: Callable[[], Any]) -> None:
    """Join the layers of a network that can be joined, except those with an adapter; weights need not be evaluated.

    `run` lets the network read a token.
    """
    for layers in _siblings(network, run):
        joint = _JointWeights(layers)
        for place, layer in enumerate(layers):
            layer.__class__ = _JoinedLayer
            layer.joint, layer.place = joint, place


def _siblings(network: nn.Module, run: Callable[[], Any]) -> list[list[Any]]:
    """Return lists of layers that `run` calls one after the other on the same input, and whose weights can be joined.

    The layers of a list are in the same module and have the same quantisation.
    """
    parents = {
        id(child): id(module)
        for module in network.modules()
        for child in module.children().values()
        if isinstance(child, nn.Module)
    }
    calls: list[tuple[Any, mx.array]] = []

    class RecordedLayer(nn.QuantizedLinear):  # type: ignore[misc]
        def __call__(self, inputs: mx.array) -> mx.array:
            calls.append((self, inputs))
            return super().__call__(inputs)  # type: ignore[no-any-return]

    plain = [module for module in network.modules() if type(module) is nn.QuantizedLinear]
    if not plain:
        return []
    try:
        for layer in plain:
            layer.__class__ = RecordedLayer
        run()
    finally:
        for layer in plain:
            layer.__class__ = nn.QuantizedLinear
    found = groupby(calls, lambda call: (id(call[1]), parents.get(id(call[0]), id(call[0])), _layer_form(call[0])))
    groups = [[layer for layer, _ in alike] for _, alike in found]
    times = Counter(id(layer) for layer, _ in calls)
    calls.clear()  # the inputs keep the replaced weights alive
    return [group for group in groups if len(group) > 1 and all(times[id(layer)] == 1 for layer in group)]


def _layer_form(layer: Any) -> tuple[Any, ...]:
    arrays = [(name, layer[name].dtype, layer[name].shape[1:]) for name in _ARRAYS if name in layer]
    return layer.bits, layer.group_size, layer.mode, arrays


class _JointWeights:
    """The joint weights of some layers, and the results that the first layer has computed for the others."""

    def __init__(self, layers: list[Any]) -> None:
        first = layers[0]
        self.bits, self.group_size, self.mode = first.bits, first.group_size, first.mode
        self._arrays = {name: mx.concatenate([layer[name] for layer in layers]) for name in _ARRAYS if name in first}
        ends = [0, *accumulate(layer["weight"].shape[0] for layer in layers)]
        self._borders = ends[1:-1]
        for layer, (start, end) in zip(layers, pairwise(ends), strict=True):
            for name, array in self._arrays.items():
                layer[name] = array[start:end]
        self._inputs: mx.array | None = None
        self._outputs: list[mx.array] = []

    def __getitem__(self, name: str) -> mx.array:
        return self._arrays[name]

    def get(self, name: str) -> mx.array | None:
        """Return the joint array of that name; None if the layers have none."""
        return self._arrays.get(name)

    def take(self, inputs: mx.array, place: int) -> mx.array | None:
        """Return the output of the layer at `place` for inputs (..., width); None: the layer must compute it."""
        if place == 0:
            self._inputs = inputs
            self._outputs = list(mx.split(quantized.quantized_linear(inputs, self), self._borders, axis=-1))
        elif inputs is not self._inputs:
            return None
        output = self._outputs[place]
        if place == len(self._borders):  # nothing is held between passes
            self._inputs, self._outputs = None, []
        return output


class _JoinedLayer(nn.QuantizedLinear):  # type: ignore[misc]
    joint: _JointWeights
    place: int

    def __call__(self, inputs: mx.array) -> mx.array:
        output = self.joint.take(inputs, self.place)
        return quantized.quantized_linear(inputs, self) if output is None else output
