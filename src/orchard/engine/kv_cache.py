"""What a row's cache is made of: what it takes, how it is quantised, and how it goes into pieces and comes back.

A row's cache is a list with one entry a layer, in mlx-lm's classes. Layers that keep every token (`KVCache`, and
`QuantizedKVCache` once quantised) can be cut at any token. The others (a sliding window, a recurrent state) are known
at one place only, so of them a snapshot is kept.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx
from msgspec import Struct

from orchard.engine.batching.batched_cache import GROWTH
from orchard.engine.prefix_cache.arrays import Cut, State

_CUTTABLE = ("KVCache", "QuantizedKVCache")
_KNOWN = (*_CUTTABLE, "RotatingKVCache", "ArraysCache")

Cache = list[Any]


def layers(cache: Sequence[Any], name: str = "") -> Iterator[tuple[str, Any]]:
    """Give each layer's cache with a name, lists taken apart."""
    for index, layer in enumerate(cache):
        if hasattr(layer, "caches"):
            yield from layers(layer.caches, f"{name}{index}.")
        else:
            yield f"{name}{index}", layer


def cacheable(cache: Cache) -> bool:
    """Whether every layer is of a kind that can be kept and brought back."""
    return all(type(layer).__name__ in _KNOWN for _, layer in layers(cache))


def needs_snapshot(cache: Cache) -> bool:
    """Whether a layer can't be cut at any token."""
    return any(type(layer).__name__ not in _CUTTABLE for _, layer in layers(cache))


class Footprint(Struct, frozen=True):
    """What one row takes, in bytes: with each token, with each token of a window of so many, and anyhow."""

    per_token: int
    windows: tuple[tuple[int, int], ...]
    fixed: int

    def bytes(self, tokens: int) -> int:
        """Give what a row of so many tokens takes."""
        windows = sum(min(tokens, size) * per_token for size, per_token in self.windows)
        return self.fixed + tokens * self.per_token + windows


def footprint(cache: Cache) -> Footprint:
    """Measure a cache that has seen at least one token."""
    per_token, fixed, windows = 0, 0, []
    for _, layer in layers(cache):
        match type(layer).__name__:
            case "KVCache" | "QuantizedKVCache":
                per_token += _per_token(layer)
            case "RotatingKVCache":
                windows.append((int(layer.max_size), _per_token(layer)))
            case _:
                fixed += int(getattr(layer, "nbytes", 0))
    return Footprint(per_token, tuple(windows), fixed)


def _per_token(layer: Any) -> int:
    return sum(part.nbytes // part.shape[2] for part in _parts(layer))


def _parts(layer: Any) -> list[mx.array]:
    """Give a layer's arrays (1, heads, tokens, width): keys and values, or what they are quantised to."""
    return [*layer.keys, *layer.values] if hasattr(layer, "bits") else [layer.keys, layer.values]


def _set_parts(layer: Any, parts: Sequence[mx.array], length: int) -> None:
    half = len(parts) // 2
    layer.keys, layer.values = (tuple(parts[:half]), tuple(parts[half:])) if half > 1 else parts
    layer.offset = length


def quantized(cache: Cache, bits: int, group_size: int) -> Cache:
    """Quantise the layers that keep every token; the others stay."""
    return [_quantized(layer, bits, group_size) for layer in cache]


def _quantized(layer: Any, bits: int, group_size: int) -> Any:
    if hasattr(layer, "caches"):
        return type(layer)(*(_quantized(inner, bits, group_size) for inner in layer.caches))
    return layer.to_quantized(group_size, bits) if type(layer).__name__ == "KVCache" else layer


def cut(cache: Cache, start: int, stop: int) -> Cut:
    """Give the tokens from `start` to `stop` of every layer that can be cut; they share the cache's memory."""
    arrays = {}
    for name, layer in layers(cache):
        if type(layer).__name__ in _CUTTABLE:
            for index, part in enumerate(_parts(layer)):
                arrays[f"{name}.{index}"] = part[:, :, start:stop]
    return Cut(arrays)


def snapshot(cache: Cache) -> State:
    """Copy the state of every layer that can't be cut, lazily."""
    arrays = {}
    for name, layer in layers(cache):
        match type(layer).__name__:
            case "RotatingKVCache":
                for index, part in enumerate(_parts(layer)):
                    arrays[f"{name}.{index}"] = mx.contiguous(_window(layer, part))
            case "ArraysCache":
                for index, state in enumerate(layer.cache):
                    if state is not None:
                        arrays[f"{name}.{index}"] = mx.contiguous(state)
    return State(arrays)


def _window(layer: Any, part: mx.array) -> mx.array:
    """Give what later tokens may look at, in the order of the tokens."""
    ordered: mx.array = layer._temporal_order(part)
    excess = ordered.shape[2] - layer.max_size
    if excess <= 0:
        return ordered
    return mx.concatenate([ordered[:, :, : layer.keep], ordered[:, :, layer.keep + excess :]], axis=2)


def restore(cache: Cache, pieces: Sequence[tuple[Cut, int]], state: State | None, length: int) -> None:
    """Fill an empty cache with `length` tokens: of each piece so many, one after the other, and a snapshot."""
    for name, layer in layers(cache):
        match type(layer).__name__:
            case "KVCache" | "QuantizedKVCache":
                _set_parts(layer, _joined(pieces, name, layer, length), length)
            case "RotatingKVCache":
                assert state is not None
                # Assigning to a slice changes the very object; a copy shares its buffer until then.
                _set_parts(layer, [copy.copy(state.arrays[f"{name}.{index}"]) for index in range(2)], length)
                layer._idx = layer.keys.shape[2]
            case _:
                assert state is not None
                layer.cache = [state.arrays.get(f"{name}.{index}") for index in range(len(layer.cache))]


def _joined(pieces: Sequence[tuple[Cut, int]], name: str, layer: Any, length: int) -> list[mx.array]:
    """Give a layer's arrays out of its pieces; where it is quantised and a piece isn't, the piece is quantised now."""
    rows = []
    for piece, used in pieces:
        parts = [array[:, :, :used] for array in _stored(piece, name)]
        if hasattr(layer, "bits") and len(parts) == 2:
            parts = [q for part in parts for q in mx.quantize(part, group_size=layer.group_size, bits=layer.bits)]
        rows.append(parts)
    # With the room that mlx-lm's cache would make for the next token, which would copy it all once more.
    room = GROWTH - length % GROWTH
    rows.append([mx.zeros((*part.shape[:2], room, part.shape[3]), part.dtype) for part in rows[0]])
    return [mx.concatenate(list(parts), axis=2) for parts in zip(*rows, strict=True)]


def _stored(piece: Cut, name: str) -> list[mx.array]:
    return [piece.arrays[f"{name}.{index}"] for index in range(6) if f"{name}.{index}" in piece.arrays]
