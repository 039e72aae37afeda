"""Measures how far the logits of an imported model are from those of its file.

Both networks compute in float32. The weights of a layer are read when it computes, some rows or experts at a time, so
that no more than these are in memory in float32, besides one layer of the new file as it is there.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx_lm.models.switch_layers import SwitchLinear
from mlx_lm.utils import _get_classes

from orchard.gguf_import.architectures import Config
from orchard.gguf_import.blocks import GROUP
from orchard.gguf_import.header import UnusableFileError
from orchard.gguf_import.weights import NUMBERS_AT_ONCE, Weight

TEXT = """\
An orchard is a piece of land on which somebody grows fruit trees. Most apples are picked between August and October; \
a good year gives 3,500 kg per tree row. "Don't shake the tree," she said. def area(a, b): return a * b  # in m²"""
"""The fixed text."""
_MOST_TOKENS = 32

Read = Callable[[int, int], mx.array]
"""Returns some of a weight in float32: from one place on its first axis to another. Of a list, that is all of it."""
Open = Callable[[Weight], Read]


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

    def logits_of(open_weight: Open) -> Any:
        return _run(_make_network(config, weights), mx.array([tokens[:_MOST_TOKENS]]), by_layer, open_weight)

    expected, found = logits_of(_open_exact), logits_of(lambda weight: _open_new(weight, file))
    if not mx.all(mx.isfinite(expected)).item():
        raise UnusableFileError("its logits are infinite or no numbers")
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


def _open_exact(weight: Weight) -> Read:
    inner = math.prod(weight.shape[1:-1])

    def read(start: int, stop: int) -> mx.array:
        parts = [weight.dequantize(rows) for rows in weight.read(start * inner, stop * inner)]
        return mx.array(np.concatenate(parts)).reshape(-1, *weight.shape[1:])

    return read


def _open_new(weight: Weight, file: Path) -> Read:
    arrays: Any = mx.load(str(file))  # each is read when it is used
    if len(weight.shape) == 1:
        return lambda start, stop: arrays[weight.name].astype(mx.float32)
    names = [weight.name] if weight.bits is None else [f"{weight.layer}.{part}" for part in ("scales", "biases")]

    def read(start: int, stop: int) -> Any:
        numbers = [arrays[name][start:stop].astype(mx.float32) for name in names]
        if weight.bits is None:
            return numbers[0]
        scales, biases = numbers
        return mx.dequantize(arrays[weight.name][start:stop], scales, biases, GROUP, weight.bits)

    return read


def _run(network: Any, tokens: mx.array, by_layer: dict[str, list[Weight]], open_weight: Open) -> Any:
    """Return the logits of all tokens: (tokens, vocabulary) in float32."""
    for layer, module in network.named_modules():
        if own := by_layer.get(layer):
            module.update({weight.name.rpartition(".")[2]: mx.zeros(1) for weight in own})
            module.__class__ = _streaming_class(type(module), own, open_weight)
    logits = network(tokens)[0].astype(mx.float32)
    mx.eval(logits)
    return logits


def _streaming_class(kind: type[nn.Module], own: list[Weight], open_weight: Open) -> type:
    """Return a class of layers that read their weights while they compute."""
    matrices = [weight for weight in own if len(weight.shape) > 1]

    def lists() -> dict[str, mx.array]:
        return {weight.name.rpartition(".")[2]: open_weight(weight)(0, 1) for weight in own if len(weight.shape) == 1}

    def compute_whole(self: nn.Module, *given: Any) -> Any:
        self.update(lists())
        result = kind.__call__(self, *given)
        mx.eval(result)
        return result

    def multiply(_: nn.Module, given: mx.array) -> Any:
        pieces = []
        for _, part in _parts(matrices[0], open_weight):
            pieces.append(given @ part.T)
            mx.eval(pieces[-1])
        return mx.concatenate(pieces, axis=-1) + lists().get("bias", 0)

    def choose(_: nn.Module, rows: mx.array) -> Any:
        return _sum_of_parts(matrices[0], open_weight, rows, lambda part, places: part[places])

    def multiply_chosen(_: nn.Module, given: mx.array, experts: mx.array, sorted_indices: bool = False) -> Any:
        def compute(part: mx.array, places: mx.array) -> mx.array:
            return mx.gather_mm(given, part.swapaxes(-1, -2), rhs_indices=places)

        return _sum_of_parts(matrices[0], open_weight, experts, compute)

    methods: dict[str, Any] = {"__call__": compute_whole}
    if issubclass(kind, nn.Embedding):
        methods = {"__call__": choose, "as_linear": multiply}
    elif issubclass(kind, SwitchLinear):
        methods = {"__call__": multiply_chosen}
    elif issubclass(kind, nn.Linear):
        methods = {"__call__": multiply}
    assert not matrices or methods["__call__"] is not compute_whole, f"a {kind.__name__} has matrices"
    return type(kind.__name__, (kind,), methods)


def _parts(weight: Weight, open_weight: Open, wanted: set[int] | None = None) -> Iterator[tuple[int, mx.array]]:
    """Yield a weight with several axes, some places of its first one at a time, and the number of the first of them.

    `wanted`: the places that are used; what has none of them is left out.
    """
    read, count = open_weight(weight), weight.shape[0]
    together = 1 if weight.order is None else len(weight.order)
    step = max(1, NUMBERS_AT_ONCE // (math.prod(weight.shape[1:]) * together)) * together
    for start in range(0, count, step):
        stop = min(start + step, count)
        if wanted is None or not wanted.isdisjoint(range(start, stop)):
            yield start, read(start, stop)


def _sum_of_parts(
    weight: Weight, open_weight: Open, chosen: mx.array, compute: Callable[[mx.array, mx.array], mx.array]
) -> Any:
    """Return what `compute` returns for a whole weight and the chosen places of its first axis."""
    numbers: Any = chosen.reshape(-1).tolist()
    total: Any = 0
    for start, part in _parts(weight, open_weight, set(numbers)):
        found = compute(part, mx.clip(chosen - start, 0, len(part) - 1).astype(mx.uint32))
        is_here = (chosen >= start) & (chosen < start + len(part))
        total = total + mx.where(is_here.reshape(*chosen.shape, *[1] * (found.ndim - chosen.ndim)), found, 0)
        mx.eval(total)
    return total
