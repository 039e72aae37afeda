"""Measures how far the logits of an imported model are from those of its file.

Both networks compute in float32. The weights of a layer are read when it computes, and dropped after it, so that the
memory is that of one layer, whose weights are not quantised.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx_lm.utils import _get_classes

from orchard.gguf_import.architectures import Config
from orchard.gguf_import.blocks import GROUP
from orchard.gguf_import.weights import Weight

TEXT = """\
An orchard is a piece of land on which somebody grows fruit trees. Most apples are picked between August and October; \
a good year gives 3,500 kg per tree row. "Don't shake the tree," she said. def area(a, b): return a * b  # in m²"""
"""The fixed text."""
_MOST_TOKENS = 32

Weights = dict[str, mx.array]


class Accuracy(NamedTuple):
    """How the logits of an imported model differ from those of its file.

    `error`, `spread`: the root of the mean square of the differences, and of the file's logits around their mean;
    `agreements`: the places, of `places`, at which both have the same likeliest token.
    """

    error: float
    spread: float
    agreements: int
    places: int

    def __str__(self) -> str:
        size = f"{self.error:.3g} (root mean square; they vary by {self.spread:.3g})"
        share = f"{self.agreements} of {self.places} places"
        return f"its logits differ from the file's by {size}, and the likeliest token is the same at {share}"


def measure_accuracy(file: Path, config: Config, weights: list[Weight], tokens: list[int]) -> Accuracy:
    """Compare the new file of weights with the imported one. Raise OSError or UnusableFileError."""
    mx.set_cache_limit(0)  # the buffers of a layer don't fit the next one
    by_layer: dict[str, list[Weight]] = {}
    for weight in weights:
        by_layer.setdefault(weight.name.rpartition(".")[0], []).append(weight)

    def logits_of(read: Callable[[Weight], mx.array]) -> Any:
        def read_layer(layer: str) -> Weights:
            return {weight.name.rpartition(".")[2]: read(weight) for weight in by_layer.get(layer, ())}

        return _run(_make_network(config, weights), mx.array([tokens[:_MOST_TOKENS]]), read_layer)

    expected = logits_of(_read_exact)
    found = logits_of(lambda weight: _read_new(weight, mx.load(str(file))))
    same: Any = mx.sum(mx.argmax(found, axis=-1) == mx.argmax(expected, axis=-1)).item()
    error: Any = mx.sqrt(mx.mean(mx.square(found - expected))).item()
    spread: Any = mx.std(expected).item()
    return Accuracy(error, spread, same, len(expected))


def _make_network(config: Config, weights: list[Weight]) -> Any:
    """Return mlx-lm's network, without quantised layers."""
    network, arguments = _get_classes(config)
    made = network(arguments.from_dict(config))
    if hasattr(made, "sanitize"):  # some drop an output layer that the embeddings stand for
        made.sanitize({weight.name: mx.zeros(1) for weight in weights})
    made.eval()
    return made


def _read_exact(weight: Weight) -> mx.array:
    whole = np.empty((weight.tensor.rows, weight.tensor.shape[-1]), np.float32)
    count = 0
    for rows in weight.read():
        whole[count : count + len(rows)] = weight.dequantize(rows)
        count += len(rows)
    return mx.array(whole).reshape(weight.shape)


def _read_new(weight: Weight, arrays: Any) -> Any:
    if weight.bits is None:
        return arrays[weight.name].astype(mx.float32)
    scales, biases = (arrays[f"{weight.layer}.{part}"].astype(mx.float32) for part in ("scales", "biases"))
    return mx.dequantize(arrays[weight.name], scales, biases, GROUP, weight.bits)


def _run(network: Any, tokens: mx.array, read: Callable[[str], Weights]) -> Any:
    """Return the logits of all tokens: (tokens, vocabulary) in float32."""
    for layer, module in network.named_modules():
        if not any(isinstance(value, mx.array) and not name.startswith("_") for name, value in module.items()):
            continue
        if own := read(layer):
            empty = {name: mx.zeros(1) for name in own}
            module.update(empty)
            module.__class__ = _streaming_class(type(module), layer, read, empty)
    logits = network(tokens)[0].astype(mx.float32)
    mx.eval(logits)
    return logits


def _streaming_class(kind: type[nn.Module], layer: str, read: Callable[[str], Weights], empty: Weights) -> type:
    """Return a class of layers that have their weights only while they compute."""

    def stream(method: Callable[..., mx.array]) -> Callable[..., mx.array]:
        def run(self: nn.Module, *given: Any, **more: Any) -> mx.array:
            self.update(read(layer))
            result = method(self, *given, **more)
            mx.eval(result)
            self.update(empty)
            return result

        return run

    methods = {name: stream(getattr(kind, name)) for name in ("__call__", "as_linear") if hasattr(kind, name)}
    return type(kind.__name__, (kind,), methods)
