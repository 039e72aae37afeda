"""What the kinds of batched layer cache share: how long the rows are, and arrays in which each row has its own place.

Rows need not be equally long: where each one's next token goes is an index of its own, and a mask hides what lies
beyond its end.
"""

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import mlx.core as mx

from orchard.engine.batching.model import cuda_kernel, on_cuda

GROWTH = 256  # tokens of room that a batched cache gets beyond its longest row


class Lengths:
    """How many tokens each row of a group holds before the pass under way; all layers of the group share it."""

    @classmethod
    def unknown(cls, array: mx.array, reach: int, count: int, real_array: mx.array | None) -> "Lengths":
        """Return lengths of which only the arrays are known, for a traced pass; `reach` places are looked at."""
        lengths = cls([reach - count], count)
        lengths.longest = reach  # a ring is looked at as a whole
        lengths.array, lengths.real_array = array, real_array
        lengths.positions = _counted(array, count)
        lengths.equal = False
        return lengths

    def __init__(self, of: Sequence[int], count: int = 1, reach: int = 0, real: Sequence[int] = ()) -> None:
        """In the pass each row gets `count` tokens. `reach`: how far it looks, where that is farther than it must.

        `real`: how many of them are no padding, which stands behind them; none given: all are.
        """
        self.of = list(of)
        self.count = count
        self.real = list(real) or [count] * len(self.of)
        """How many tokens each row gets, without padding."""
        self.real_array = mx.array(self.real, mx.int32) if min(self.real) < count else None
        """The same, (rows,); None: nobody gets padding."""
        self.longest = max(of)
        self.reach = reach or self.longest + count
        """So many places are looked at; the longest row holds as many tokens after the pass, or fewer."""
        self.array = mx.array(self.of, mx.int32)
        self.equal = self.longest == min(of) and self.reach == self.longest + count
        """Whether all places are tokens of all rows, so that a mask would have nothing to hide."""
        self.positions = _counted(self.array, count)
        """Of the new tokens, (rows, count)."""
        self._masks: dict[tuple[int, int, int, int], mx.array] = {}
        self._places: dict[tuple[int, int], mx.array] = {}
        self._kept: KeptTokens | None = None

    def kept(self, tokens: Sequence[int]) -> "KeptTokens":
        """Return what all layers need to keep so many of each row's tokens of the pass."""
        if self._kept is None or self._kept.of != list(tokens):
            self._kept = KeptTokens(list(tokens), self.real)
        return self._kept

    def mask(self, size: int, window: int = 0, ring: int = 0, hidden: int = 0) -> mx.array | None:
        """Return which of `size` places each token may look at, (rows, 1, count, size) of bool, once all are written.

        `window` 0: no limit. `ring` 0: the places are positions; else the place of position p is p modulo `ring`.
        `hidden`: so many first places nobody may look at. None: each may look at all of them.
        """
        if self.equal and not (window or hidden) and self.count == 1:
            return None
        key = (size, window, ring, hidden)
        if key not in self._masks:
            places = mx.arange(size, dtype=mx.int32)[None, None]
            own = self.positions[:, :, None]
            if ring:
                places = own - (own - places) % ring  # the latest position that has this place
                seen = places >= 0
            else:
                seen = places <= own
            if window:
                seen = seen & (places > own - window)
            if hidden:
                seen = seen & (places >= hidden)
            self._masks[key] = seen[:, None]
        return self._masks[key]

    def ring_mask(self, window: int, keep: int, narrow: int) -> mx.array:
        """Return what each new token may look at, (rows, 1, count, places + count) of bool, in a ring not yet written.

        The new tokens lie behind the ring's places. The ring is that of `places`; `narrow`: the layer's own window, 0:
        that of the ring.
        """
        key = (-window, keep, narrow, 0)
        if key not in self._masks:
            place = mx.arange(min(self.longest, window), dtype=mx.int32)[None]
            last = self.array[:, None] - 1
            held = mx.where(place < keep, place, last - (last - place) % (window - keep))
            held = mx.where((held < mx.minimum(place, keep)) | (held > last), -1, held)  # nothing is there yet
            at = mx.concatenate([held, self.positions], axis=1)[:, None]
            own = self.positions[:, :, None]
            recent = at > own - (narrow or window - keep)
            seen = (at >= 0) & (at <= own) & (recent | (at < keep))
            self._masks[key] = seen[:, None]
        return self._masks[key]

    def known_mask(self, size: int, hidden: int = 0) -> mx.array | None:
        """Return what `mask(size, hidden=hidden)` returned; None: nobody asked, or there was nothing to hide."""
        return self._masks.get((size, 0, 0, hidden))

    def places(self, window: int, keep: int) -> mx.array:
        """Return where each row's next tokens go, (rows, count), in a ring of `window` places; `keep` of them stay."""
        if (window, keep) not in self._places:
            turned = keep + (self.positions - keep) % (window - keep)
            self._places[window, keep] = mx.where(self.positions < window, self.positions, turned)
        return self._places[window, keep]


def _counted(first: mx.array, count: int) -> mx.array:
    return first[:, None] if count == 1 else first[:, None] + mx.arange(count, dtype=mx.int32)


class KeptTokens:
    """How many tokens of a pass each row keeps, and arrays that follow from it, each made once for all layers."""

    def __init__(self, of: list[int], real: list[int]) -> None:
        self.of = of
        self.all = of == real
        """Whether no row goes back."""
        self.none = [not kept and bool(got) for kept, got in zip(of, real, strict=True)]
        """Which rows go back to where they were before."""
        self._real = real
        self._windows: dict[int, mx.array] = {}

    @cached_property
    def rows(self) -> mx.array:
        """The numbers of the rows."""
        return mx.arange(len(self.of))

    @cached_property
    def last(self) -> mx.array:
        """The place of the last token that each row keeps, (rows,): -1 if it keeps none, 2**30 if all."""
        pairs = zip(self.of, self._real, strict=True)
        return mx.array([kept - 1 if kept < got else 2**30 for kept, got in pairs], mx.int32)

    @cached_property
    def stays(self) -> mx.array:
        """Which rows keep all, (rows,) of bool."""
        return mx.array([kept == got for kept, got in zip(self.of, self._real, strict=True)])

    def window(self, width: int) -> mx.array:
        """Return the places of so many entries behind the kept ones, (rows, width)."""
        if width not in self._windows:
            self._windows[width] = mx.array(self.of, mx.int32)[:, None] + mx.arange(width, dtype=mx.int32)
        return self._windows[width]


def behind(kept: KeptTokens, before: mx.array, between: mx.array, after: mx.array) -> mx.array:
    """Return the state (rows, ...) behind the tokens that each row keeps: one of those `between`, (rows, n, ...).

    `before`, `after`: behind none of them, and behind all. Some row goes back: else all of `after` stands.
    """
    if len(kept.of) == 1:
        return before if kept.none[0] else mx.contiguous(between[:, kept.of[0] - 1])
    if on_cuda() and after[0].nbytes % 16 == 0:
        return _picked(kept.last, before, between, after)
    picked = between[kept.rows, mx.clip(kept.last, 0, between.shape[1] - 1)]
    picked = choose(kept.stays, after, picked)
    return choose(mx.array(kept.none), before, picked) if any(kept.none) else picked


def choose(of_rows: mx.array, one: mx.array, other: mx.array) -> mx.array:
    """Return the rows of `one` where (rows,) of bool say so, and those of `other`."""
    return mx.where(of_rows.reshape(-1, *[1] * (one.ndim - 1)), one, other)


# MLX's operations for this take 72 µs for 8 rows of 2 MB on an H100, whose memory could move them in 11.
_PICK = """
  int64_t size = sizeof(T);
  for (int axis = 1; axis < after_ndim; axis++) size *= after_shape[axis];
  size /= 16;
  const int row = blockIdx.y, place = last[row], count = between_shape[1];
  const uint4* from = place < 0 ? reinterpret_cast<const uint4*>(before) + row * size
      : place >= count ? reinterpret_cast<const uint4*>(after) + row * size
      : reinterpret_cast<const uint4*>(between) + (int64_t(row) * count + place) * size;
  uint4* to = reinterpret_cast<uint4*>(picked) + row * size;
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) to[i] = from[i];
"""
_THREADS = 256
_MOST_BLOCKS = 512  # of a row


def _picked(last: mx.array, before: mx.array, between: mx.array, after: mx.array) -> mx.array:
    blocks = min(-(-after[0].nbytes // (16 * _THREADS)), _MOST_BLOCKS)
    result: mx.array = _pick()(
        inputs=[last, before, between, after],
        template=[("T", after.dtype)],
        grid=(blocks * _THREADS, len(after), 1),
        threadgroup=(_THREADS, 1, 1),
        output_shapes=[after.shape],
        output_dtypes=[after.dtype],
    )[0]
    return result


@cache
def _pick() -> Any:
    return cuda_kernel("pick_states", ["last", "before", "between", "after"], ["picked"], _PICK)


def room(length: int) -> int:
    """Return how many places a row of `length` tokens gets."""
    return (length // GROWTH + 1) * GROWTH


def resized(array: mx.array, size: int) -> mx.array:
    """Cut or pad the tokens' axis of an array (rows, heads, tokens, width) to `size`."""
    have = array.shape[2]
    if have == size:
        return array
    if have > size:
        return array[:, :, :size]
    empty = mx.zeros((*array.shape[:2], size - have, array.shape[3]), array.dtype)
    return mx.concatenate([array, empty], axis=2)


def gathered(stored: mx.array | None, keep: Sequence[int], joined: list[mx.array], spare: int) -> mx.array:
    """Return the rows `keep` of `stored`, then the rows `joined`, then `spare` copies of the first one."""
    parts = list(joined)
    if stored is not None and keep:
        whole = list(keep) == list(range(stored.shape[0]))
        parts.insert(0, stored if whole else stored[mx.array(list(keep), mx.int32)])
    if spare:
        parts.append(mx.broadcast_to(parts[0][:1], (spare, *parts[0].shape[1:])))
    return mx.concatenate(parts) if len(parts) > 1 else parts[0]


class PlacedArrays:
    """Arrays (rows, heads, places, width) in which each row writes at places of its own."""

    lengths: Lengths
    keeps_any = True

    def __init__(self) -> None:
        self.arrays: list[mx.array] = []
        self.fetched: tuple[Any, Any] = (None, None)
        """The keys and the values that the model got last."""
        self.apart: list[mx.array] = []
        """What a pass has not written into the arrays: which of it is right is not known yet."""

    def begin(self, lengths: Lengths) -> None:
        """Get ready for a pass over rows that hold so many tokens."""
        self.lengths = lengths
        self.fetched = (None, None)  # they would keep the arrays from being written in place

    def write(self, new: list[mx.array], places: mx.array) -> None:
        """Write new tokens (rows, heads, n, width) at `places` (rows, n)."""
        at = places[:, None, :, None]
        for index, value in enumerate(new):
            # The old array has no other user, so this happens in place.
            self.arrays[index] = mx.put_along_axis(self.arrays[index], mx.broadcast_to(at, value.shape), value, axis=2)

    def resize(self, size: int) -> None:
        """Cut or pad all rows to `size` places."""
        self.arrays = [resized(array, size) for array in self.arrays]

    def gather(self, size: int, keep: Sequence[int], joined: list[list[mx.array]], spare: int) -> None:
        """Keep the rows `keep`, append the rows `joined`, each a list of arrays, and `spare` copies of the first.

        All get `size` places.
        """
        self.resize(size)
        stored: Sequence[mx.array | None] = self.arrays or [None] * len(joined[0])
        self.arrays = [
            gathered(array, keep, [resized(row[index], size) for row in joined], spare)
            for index, array in enumerate(stored)
        ]
