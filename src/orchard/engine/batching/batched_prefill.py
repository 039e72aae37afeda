"""Prefill of several prompts in one forward pass: each row is padded at its end to the same number of tokens.

On a GPU a pass over a short piece takes the time of its launches, whatever it reads. No token attends to padding, since
it comes after the row's own tokens, and the new caches end before it.

The sizes of a pass are rounded up to one of few, and copies of the first row are added: with CUDA, each new size costs
about as much as the pass itself, once. So even a single prompt is better read here.
"""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from orchard.engine.batching.batched_cache import GROWTH, Lengths
from orchard.engine.batching.kv_cache import Cache
from orchard.engine.batching.layer_kinds import AttentionView, Unbatchable, kind_of
from orchard.engine.batching.model import LanguageModel

_FEWEST = 64  # tokens that a pass reads a row
_LITTLE = 32


def read(model: LanguageModel, rows: Sequence[tuple[Cache, list[int]]]) -> tuple[list[Cache], list[mx.array]]:
    """Read so many tokens more of each row; return new caches and the arrays to be evaluated for all of them.

    The caches given stay as they are. Either all of them or none must be empty, and all layers KVCaches or their
    quantised form; else it raises.
    """
    lengths = [int(cache[0].offset) for cache, _ in rows]
    spare = _power(len(rows)) - len(rows)
    count, reach = _size(max(lengths), max(len(tokens) for _, tokens in rows))
    known = Lengths(lengths + lengths[:1] * spare, count, reach)
    batched = [_batched(layers, known, spare) for layers in zip(*(cache for cache, _ in rows), strict=True)]
    views = [AttentionView([layer], [], known.array) for layer in batched]
    padded = [tokens + tokens[:1] * (count - len(tokens)) for _, tokens in rows]
    model.forward(mx.array(padded + padded[:1] * spare, mx.uint32), views)
    caches = [
        [layer.extract(row, length + len(tokens)) for layer in batched]
        for row, (length, (_, tokens)) in enumerate(zip(lengths, rows, strict=True))
    ]
    return caches, [array for layer in batched for array in layer.arrays]


def warm(model: LanguageModel, most: int, tick: Callable[[], None] = lambda: None) -> None:
    """Read new prompts in all sizes of up to `most` tokens in a pass, and up to 512 each; call `tick` in between."""
    for count in range(_FEWEST, 8 * _FEWEST + 1, _FEWEST):
        rows = 1
        while rows * count <= most:
            tick()
            mx.eval(read(model, [(model.new_cache(), [0] * count)] * rows)[1])
            rows *= 2


def _power(rows: int) -> int:
    """Round up to a power of two."""
    return 1 << (rows - 1).bit_length()


def _size(before: int, own: int) -> tuple[int, int]:
    """Return how many tokens a pass reads a row, and how many places it looks at."""
    count = _up(own, max(1 << max((own - 1).bit_length() - 3, 0), _FEWEST))
    return count, _up(before + count, GROWTH) if before else count


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _batched(layers: Sequence[Any], lengths: Lengths, spare: int) -> Any:
    kind = kind_of(layers[0])
    if not kind.batches_prefill:
        raise Unbatchable(type(layers[0]).__name__)
    batched: Any = kind.batch(layers[0])
    batched.lengths = lengths
    batched.rebuild([], layers, spare, [lengths.reach - 1])  # with room for what is to come
    return batched


def group_by_length(pieces: Sequence[tuple[int, int]], most_places: int) -> list[list[int]]:
    """Group pieces, each (tokens before it, its own tokens), that are read together; return their indices.

    Padding is at most a quarter of what is read, or `_LITTLE` tokens a row; of what is held, half. A group of several
    holds at most `most_places` tokens.
    """
    found: list[list[int]] = []
    for index in sorted(range(len(pieces)), key=lambda index: pieces[index], reverse=True):
        longer = [*found[-1], index] if found else []
        before, own = ([pieces[one][part] for one in longer] for part in range(2))
        if longer and _alike(before, own) and _power(len(longer)) * _size(max(before), max(own))[1] <= most_places:
            found[-1] = longer
        else:
            found.append([index])
    return found


def _alike(before: list[int], own: list[int]) -> bool:
    rows = len(own)
    padding = rows * max(own) - sum(own)
    return padding <= max(sum(own) // 4, rows * _LITTLE) and rows * max(before) <= 2 * sum(before)
