"""A row's cache: what it takes, how it is quantised, and how it goes into pieces and comes back.

It is a list with one entry a layer, in mlx-lm's classes; `layer_kinds` says what is done with each. Layers that keep
every token can be cut at any token. The others (a sliding window, a recurrent state) are known at one place only, so
of them a snapshot is kept.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mlx.core as mx

from orchard.engine.batching.layer_kinds import Footprint, LayerKind, kind_of
from orchard.engine.prefix_cache.values import Cut, State

Cache = list[Any]


def layers(cache: Sequence[Any], name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each layer's cache with a name, lists taken apart."""
    for index, layer in enumerate(cache):
        if hasattr(layer, "caches"):
            yield from layers(layer.caches, f"{name}{index}.")
        else:
            yield f"{name}{index}", layer


def map_layers(function: Callable[[Any], Any], cache: Sequence[Any]) -> Cache:
    """Return a cache with what `function` returns in the place of each layer's; lists stay lists."""
    return [
        type(layer)(*map_layers(function, layer.caches)) if hasattr(layer, "caches") else function(layer)
        for layer in cache
    ]


def cacheable(cache: Cache) -> bool:
    """Return whether every layer is of a kind that can be kept and brought back."""
    return all(kind_of(layer).cut or kind_of(layer).snapshot for _, layer in layers(cache))


def needs_snapshot(cache: Cache) -> bool:
    """Return whether a layer can't be cut at any token."""
    return any(not kind_of(layer).cut for _, layer in layers(cache))


def is_quantized(cache: Cache) -> bool:
    """Return whether a layer is quantised."""
    return any(hasattr(layer, "bits") for _, layer in layers(cache))


def footprint(cache: Cache) -> Footprint:
    """Measure a cache that has seen at least one token."""
    of = [kind_of(layer).footprint(layer) for _, layer in layers(cache)]
    windows = tuple(window for one in of for window in one.windows)
    return Footprint(sum(one.per_token for one in of), windows, sum(one.fixed for one in of))


def quantized(cache: Cache, bits: int, group_size: int) -> Cache:
    """Quantise the layers that keep every token; the others stay."""
    return map_layers(lambda layer: kind_of(layer).quantize(layer, group_size, bits), cache)


def cut(cache: Cache, start: int, stop: int) -> Cut:
    """Return the tokens from `start` to `stop` of every layer that can be cut; they share the cache's memory."""
    return Cut(_named(cache, lambda kind, layer: kind.cut(layer, start, stop) if kind.cut else []))


def snapshot(cache: Cache) -> State:
    """Copy the state of every layer that can't be cut, lazily."""
    return State(_named(cache, lambda kind, layer: kind.snapshot(layer) if kind.snapshot else []))


def _named(cache: Cache, arrays: Callable[[LayerKind, Any], Sequence[mx.array | None]]) -> dict[str, mx.array]:
    return {
        f"{name}.{index}": array
        for name, layer in layers(cache)
        for index, array in enumerate(arrays(kind_of(layer), layer))
        if array is not None
    }


def restore(cache: Cache, pieces: Sequence[tuple[Cut, int]], state: State | None, length: int) -> None:
    """Fill an empty cache with `length` tokens: of each piece so many, one after the other, and a snapshot."""
    cuts = [(_by_layer(piece), used) for piece, used in pieces]
    states = _by_layer(state) if state else {}
    for name, layer in layers(cache):
        kind = kind_of(layer)
        own = [states.get(name, {})]
        if kind.cut:
            own = [{index: array[:, :, :used] for index, array in piece[name].items()} for piece, used in cuts]
        kind.restore(layer, own, length)


def _by_layer(state: State) -> dict[str, dict[int, mx.array]]:
    """Sort arrays by the names of their layers, then by their numbers."""
    found: dict[str, dict[int, mx.array]] = {}
    for key, array in state.arrays.items():
        name, _, index = key.rpartition(".")
        found.setdefault(name, {})[int(index)] = array
    return found
