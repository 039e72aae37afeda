"""Several prompts read in one forward pass: what each reads is filled up at its end to the same number of tokens.

On a GPU a pass over a short piece takes the time of its launches, whatever it reads. Nothing looks at what fills a row
up: it comes after the row's own tokens, and what is handed on says where these end.

The sizes of a pass are rounded up to one of few, and rows are filled up with copies of the first one: with CUDA, each
new size costs about as much as the pass itself, once. So even a single prompt is better read here.
"""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from orchard.engine.batching.batched_cache import GROWTH, Dense, Lengths, Unbatchable, shelf_for
from orchard.engine.kv_cache import Cache
from orchard.engine.model import LanguageModel

_FEWEST = 64  # tokens that a pass reads a row
_LITTLE = 32


class _Layer:
    """What a model sees in place of a KVCache."""

    def __init__(self, shelf: Dense, lengths: Lengths) -> None:
        self._shelf = shelf
        self._lengths = lengths
        self.offset = lengths.array
        if hasattr(shelf, "bits"):
            self.bits, self.group_size = shelf.bits, shelf.group_size

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Take the new tokens of all rows, (rows, heads, n, width) each; gives what attention needs."""
        return self._shelf.update(keys, values, self._lengths)

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Any:
        """Give the mask, as mlx-lm's caches do."""
        return self._shelf.mask(self._lengths, window_size, return_array)


def read(model: LanguageModel, rows: Sequence[tuple[Cache, list[int]]]) -> tuple[list[Cache], list[mx.array]]:
    """Give caches that go on from these by so many tokens each, and the arrays to be evaluated for all of them.

    The layers of a cache must be KVCaches or their quantised form, and either all caches or none of them empty; else
    it raises. The caches given are left as they are.
    """
    lengths = [int(cache[0].offset) for cache, _ in rows]
    spare = _power(len(rows)) - len(rows)
    count, reach = _size(max(lengths), max(len(tokens) for _, tokens in rows))
    known = Lengths(lengths + lengths[:1] * spare, count, reach)
    shelves = [_shelf(layers, known, spare) for layers in zip(*(cache for cache, _ in rows), strict=True)]
    filled = [tokens + tokens[:1] * (count - len(tokens)) for _, tokens in rows]
    model.forward(mx.array(filled + filled[:1] * spare, mx.uint32), [_Layer(shelf, known) for shelf in shelves])
    caches = [
        [shelf.take(row, length + len(tokens)) for shelf in shelves]
        for row, (length, (_, tokens)) in enumerate(zip(lengths, rows, strict=True))
    ]
    return caches, [array for shelf in shelves for array in shelf.arrays]


def warm(model: LanguageModel, most: int, told: Callable[[], None] = lambda: None) -> None:
    """Read new prompts in all sizes of up to `most` tokens in a pass, and up to 512 each; `told` is called between."""
    for count in range(_FEWEST, 8 * _FEWEST + 1, _FEWEST):
        rows = 1
        while rows * count <= most:
            told()
            mx.eval(read(model, [(model.new_cache(), [0] * count)] * rows)[1])
            rows *= 2


def _power(rows: int) -> int:
    """Round up to a power of two."""
    return 1 << (rows - 1).bit_length()


def _size(before: int, own: int) -> tuple[int, int]:
    """Give how many tokens a pass reads a row, and how many places it looks at."""
    count = _up(own, max(1 << max((own - 1).bit_length() - 3, 0), _FEWEST))
    return count, _up(before + count, GROWTH) if before else count


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _shelf(layers: Sequence[Any], lengths: Lengths, spare: int) -> Dense:
    shelf = shelf_for(layers[0])
    if not isinstance(shelf, Dense):
        raise Unbatchable(type(layers[0]).__name__)
    shelf.rebuild([], layers, spare, [lengths.reach - 1])  # with room for what is to come
    return shelf


def sets(pieces: Sequence[tuple[int, int]], most_places: int) -> list[list[int]]:
    """Put pieces, each (tokens before it, its own tokens), into sets that are read together; gives their indices.

    What fills rows up is at most a quarter of what is read, or `_LITTLE` tokens a row; of what is held, half. A set of
    several holds at most `most_places` tokens.
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
    filled = rows * max(own) - sum(own)
    return filled <= max(sum(own) // 4, rows * _LITTLE) and rows * max(before) <= 2 * sum(before)
