"""Keys, values and states of several rows side by side, so that one forward pass serves all of them.

A shelf holds one layer of one group of rows; each kind of cache that mlx-lm's models use has its kind of shelf:

| cache of one row | shelf | a row's token at position p lies at |
|---|---|---|
| KVCache, QuantizedKVCache | Dense | p |
| RotatingKVCache | Ring | p, and from the window's size on around in a ring (after the first few, which stay) |
| ArraysCache | States | - |
| CacheList | Nested | - |

Rows need not be equally long: where each one's next token goes is an index of its own, and a mask hides what lies
beyond its end. A shelf is written as a whole in each step and is rebuilt when rows come and go. Into a Dense shelf a
row may write several tokens at once, which is how prompts are read together.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import mlx.core as mx

GROWTH = 256  # tokens of room that a shelf gets beyond its longest row


class Unbatchable(Exception):
    """A model keeps something in its cache that has no shelf."""


class Lengths:
    """How many tokens each row of a group holds before the pass under way; shared by all of the group's shelves."""

    def __init__(self, of: Sequence[int], count: int = 1, reach: int = 0) -> None:
        """In the pass each row gets `count` tokens. `reach`: how far it looks, where that is farther than it must."""
        self.of = list(of)
        self.count = count
        self.longest = max(of)
        self.reach = reach or self.longest + count
        """So many places are looked at; the longest row holds as many tokens after the pass, or fewer."""
        self.array = mx.array(self.of, mx.int32)
        self.equal = self.longest == min(of) and self.reach == self.longest + count
        """Whether all places are tokens of all rows, so that a mask would have nothing to hide."""
        own = self.array[:, None]
        self.positions = own if count == 1 else own + mx.arange(count, dtype=mx.int32)
        """Of the new tokens, (rows, count)."""
        self._masks: dict[tuple[int, int, int], mx.array] = {}
        self._places: dict[tuple[int, int], mx.array] = {}

    def mask(self, size: int, window: int = 0, ring: int = 0) -> mx.array | None:
        """Give which of `size` places each token may look at, (rows, 1, count, size) of bool, once all are written.

        `window` 0: no limit. `ring` 0: the places are positions; else the place of position p is p modulo `ring`.
        None: each may look at all of them.
        """
        if self.equal and not window and self.count == 1:
            return None
        if (size, window, ring) not in self._masks:
            places = mx.arange(size, dtype=mx.int32)[None, None]
            own = self.positions[:, :, None]
            if ring:
                places = own - (own - places) % ring  # the latest position that has this place
                seen = places >= 0
            else:
                seen = places <= own
            if window:
                seen = seen & (places > own - window)
            self._masks[size, window, ring] = seen[:, None]
        return self._masks[size, window, ring]

    def places(self, window: int, keep: int) -> mx.array:
        """Give where each row's next tokens go, (rows, count), in a ring of `window` places whose first `keep` stay."""
        if (window, keep) not in self._places:
            turned = keep + (self.positions - keep) % (window - keep)
            self._places[window, keep] = mx.where(self.positions < window, self.positions, turned)
        return self._places[window, keep]


class BatchedLayerCache(Protocol):
    """One layer of one group."""

    def rebuild(self, keep: Sequence[int], caches: Sequence[Any], spare: int, lengths: Sequence[int]) -> None:
        """Keep these rows in this order, append those of `caches`, then `spare` copies of the first one.

        `lengths`: the tokens of all rows but the spare ones.
        """
        ...

    def take(self, row: int, length: int) -> Any:
        """Give one row of `length` tokens as a cache of its own."""
        ...


def shelf_for(cache: Any) -> BatchedLayerCache:
    """Give an empty shelf for caches like this one. Raises Unbatchable."""
    match type(cache).__name__:
        case "KVCache" | "QuantizedKVCache":
            return Dense(type(cache), getattr(cache, "group_size", 0), getattr(cache, "bits", 0))
        case "RotatingKVCache":
            return Ring(type(cache), cache.max_size, cache.keep)
        case "ArraysCache":
            return States(type(cache), len(cache.cache))
        case "CacheList":
            return Nested(type(cache), [shelf_for(inner) for inner in cache.caches])
        case name:
            raise Unbatchable(name)


def _gather(stored: mx.array | None, keep: Sequence[int], joined: list[mx.array], spare: int) -> mx.array:
    parts = list(joined)
    if stored is not None and keep:
        whole = list(keep) == list(range(stored.shape[0]))
        parts.insert(0, stored if whole else stored[mx.array(list(keep), mx.int32)])
    if spare:
        parts.append(mx.broadcast_to(parts[0][:1], (spare, *parts[0].shape[1:])))
    return mx.concatenate(parts) if len(parts) > 1 else parts[0]


def _sized(array: mx.array, size: int) -> mx.array:
    """Cut or pad the tokens' axis to `size`."""
    have = array.shape[2]
    if have == size:
        return array
    if have > size:
        return array[:, :, :size]
    empty = mx.zeros((*array.shape[:2], size - have, array.shape[3]), array.dtype)
    return mx.concatenate([array, empty], axis=2)


class _Placed:
    """What Dense and Ring share: arrays (rows, heads, places, width), in which each row writes at places of its own."""

    def __init__(self) -> None:
        self._parts: list[mx.array] = []

    def _write(self, new: list[mx.array], places: mx.array) -> None:
        at = places[:, None, :, None]
        for index, value in enumerate(new):
            # The old array has no other user, so this happens in place.
            self._parts[index] = mx.put_along_axis(self._parts[index], mx.broadcast_to(at, value.shape), value, axis=2)

    def _resize(self, size: int) -> None:
        self._parts = [_sized(part, size) for part in self._parts]

    def _gather(self, keep: Sequence[int], joined: list[list[mx.array]], spare: int) -> None:
        stored: Sequence[mx.array | None] = self._parts or [None] * len(joined[0])
        self._parts = [_gather(part, keep, [row[index] for row in joined], spare) for index, part in enumerate(stored)]


class Dense(_Placed):
    """Rows of KVCache, or of QuantizedKVCache where `bits` is not 0."""

    def __init__(self, kind: Any, group_size: int = 0, bits: int = 0) -> None:
        super().__init__()
        self._kind = kind
        if bits:  # mlx-lm's attention asks whether a cache has this
            self.bits = bits
        self.group_size = group_size

    @property
    def arrays(self) -> list[mx.array]:
        """All that there is to evaluate."""
        return self._parts

    @property
    def _quantized(self) -> bool:
        return hasattr(self, "bits")

    def rebuild(self, keep: Sequence[int], caches: Sequence[Any], spare: int, lengths: Sequence[int]) -> None:
        """See `BatchedLayerCache`. Rows without a token may be among their like only; the first pass makes arrays."""
        if not any(cache.offset for cache in caches) and not self._parts:
            return
        size = _room(max(lengths))
        if self._parts:
            self._resize(size)
        joined = [[_sized(part, size) for part in self._flat(cache)] for cache in caches]
        self._gather(keep, joined, spare)

    def _flat(self, cache: Any) -> list[mx.array]:
        return [*cache.keys, *cache.values] if self._quantized else [cache.keys, cache.values]

    def take(self, row: int, length: int) -> Any:
        """See `BatchedLayerCache`. It shares the shelf's memory until it is written to."""
        parts = [part[row : row + 1, :, : _room(length)] for part in self._parts]
        cache = self._kind(self.group_size, self.bits) if self._quantized else self._kind()
        cache.keys, cache.values = (tuple(parts[:3]), tuple(parts[3:])) if self._quantized else parts
        cache.offset = length
        return cache

    def update(self, keys: mx.array, values: mx.array, lengths: Lengths) -> tuple[Any, Any]:
        """Write each row's new tokens; gives keys and values as far as the pass looks."""
        new = [keys, values]
        if self._quantized:
            new = [part for one in new for part in mx.quantize(one, group_size=self.group_size, bits=self.bits)]
        if not self._parts:
            self._parts = new
        else:
            if lengths.reach > self._parts[0].shape[2]:
                self._resize(_room(lengths.reach - 1))
            self._write(new, lengths.positions)
        seen = [part[:, :, : lengths.reach] for part in self._parts]
        return (tuple(seen[:3]), tuple(seen[3:])) if self._quantized else (seen[0], seen[1])

    def mask(self, lengths: Lengths, window: int | None, return_array: bool = False) -> Any:
        """Give the mask of the pass under way, as mlx-lm's caches do."""
        narrow = window if window and window < lengths.reach else 0
        if lengths.equal and lengths.count > 1 and not narrow and not return_array:
            return "causal"
        return lengths.mask(lengths.reach, narrow)


def _room(length: int) -> int:
    return (length // GROWTH + 1) * GROWTH


class Ring(_Placed):
    """Rows of RotatingKVCache, which remember their first `keep` and their last `window - keep` tokens."""

    def __init__(self, kind: Any, window: int, keep: int) -> None:
        super().__init__()
        self._kind = kind
        self._window = window
        self._keep = keep

    def rebuild(self, keep: Sequence[int], caches: Sequence[Any], spare: int, lengths: Sequence[int]) -> None:
        """See `BatchedLayerCache`."""
        # A ring that is not full yet is no ring: its places are positions.
        size = min(_room(max(lengths)), self._window)
        if self._parts:
            self._resize(size)
        self._gather(keep, [self._laid_out(cache, size) for cache in caches], spare)

    def _laid_out(self, cache: Any, size: int) -> list[mx.array]:
        """Give keys and values with each token at its place."""
        parts = [cache._temporal_order(part) for part in (cache.keys, cache.values)]
        if cache.offset <= self._window:
            return [_sized(part, size) for part in parts]
        return [self._turn(part, 1, cache.offset) for part in parts]

    def _turn(self, part: mx.array, way: int, length: int) -> mx.array:
        """Turn the tokens of a row of `length` from their order to their places (`way` 1) or back (-1)."""
        recent = self._window - self._keep
        turned = mx.roll(part[:, :, -recent:], way * ((length - self._keep) % recent), 2)
        return mx.concatenate([part[:, :, : self._keep], turned], axis=2)

    def take(self, row: int, length: int) -> Any:
        """See `BatchedLayerCache`."""
        known = min(length, self._window)
        parts = [part[row : row + 1, :, :known] for part in self._parts]
        if length > self._window:
            parts = [self._turn(part, -1, length) for part in parts]
        cache = self._kind(self._window, self._keep)
        cache.keys, cache.values = (mx.contiguous(part) for part in parts)
        cache.offset, cache._idx = length, known
        return cache

    def update(self, keys: mx.array, values: mx.array, lengths: Lengths) -> tuple[Any, Any]:
        """Write one token a row; gives keys and values as far as the longest row reaches."""
        size = self._parts[0].shape[2]
        if lengths.longest + 1 > size and size < self._window:
            size = min(_room(lengths.longest), self._window)
            self._resize(size)
        self._write([keys, values], lengths.places(self._window, self._keep))
        seen = min(lengths.longest + 1, size)
        return self._parts[0][:, :, :seen], self._parts[1][:, :, :seen]

    def mask(self, lengths: Lengths, window: int | None, return_array: bool = False) -> mx.array | None:
        """Give the mask of the step under way."""
        size = min(lengths.longest + 1, self._window)
        # A full ring holds what its row may look at, unless the layer's own window is narrower.
        if window and window < self._window and not self._keep:
            return lengths.mask(size, window, self._window)
        return lengths.mask(size)


class States:
    """Rows of ArraysCache: what a recurrent layer remembers, of one size however long the row is."""

    def __init__(self, kind: Any, count: int) -> None:
        self._kind = kind
        self.of: list[mx.array | None] = [None] * count

    def rebuild(self, keep: Sequence[int], caches: Sequence[Any], spare: int, lengths: Sequence[int]) -> None:
        """See `BatchedLayerCache`."""
        self.of = [
            _gather(stored, keep, [cache.cache[index] for cache in caches], spare)
            for index, stored in enumerate(self.of)
        ]

    def take(self, row: int, length: int) -> Any:
        """See `BatchedLayerCache`."""
        cache = self._kind(len(self.of))
        cache.cache = [None if state is None else mx.contiguous(state[row : row + 1]) for state in self.of]
        return cache


class Nested:
    """Rows of CacheList: several caches that belong to one layer."""

    def __init__(self, kind: Any, shelves: list[BatchedLayerCache]) -> None:
        self._kind = kind
        self.caches = shelves

    def rebuild(self, keep: Sequence[int], caches: Sequence[Any], spare: int, lengths: Sequence[int]) -> None:
        """See `BatchedLayerCache`."""
        for index, shelf in enumerate(self.caches):
            shelf.rebuild(keep, [cache.caches[index] for cache in caches], spare, lengths)

    def take(self, row: int, length: int) -> Any:
        """See `BatchedLayerCache`."""
        return self._kind(*(shelf.take(row, length) for shelf in self.caches))
