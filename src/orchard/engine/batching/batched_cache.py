"""What the kinds of batched layer cache share: the rows' lengths, and arrays where each row writes at its own places.

Rows may have different lengths: each has its own index for its next token, and a mask hides what lies behind its end.
"""

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import mlx.core as mx

from orchard.engine.batching.model import cuda_kernel, on_cuda

GROWTH = 256  # tokens; a batched cache grows in steps of this size
MIN_ROW_TOKENS = 64
"""The fewest tokens per row in a pass over prompts."""
_COUNT_BITS = 2  # of the tokens that a pass over prompts reads per row: at most a half more than necessary
_REACH_BITS = 3  # of the places that it attends to: at most a quarter more


class Lengths:
    """How many tokens each row of a group holds before the current pass; all layers of the group share it."""

    @classmethod
    def for_trace(cls, array: mx.array, reach: int, count: int, real_array: mx.array | None) -> "Lengths":
        """Return lengths for a traced pass: only the arrays are known, and the pass attends to `reach` places."""
        lengths = cls([reach - count], count)
        lengths.longest = reach  # the pass attends to a whole ring
        lengths.array, lengths.real_array = array, real_array
        lengths.positions = _positions_from(array, count)
        lengths.equal = False
        return lengths

    def __init__(self, values: Sequence[int], count: int = 1, reach: int = 0, real: Sequence[int] = ()) -> None:
        """Describe a pass in which each row gets `count` tokens after its `values`.

        `reach`: how many places it attends to, if more than necessary.
        `real`: how many tokens of each row are not padding, which comes last; empty: all of them.
        """
        self.values = list(values)
        self.count = count
        self.real = list(real) or [count] * len(self.values)
        """How many tokens each row gets, without padding."""
        self.real_array = mx.array(self.real, mx.int32) if min(self.real) < count else None
        """The same, (rows,); None: no row has padding."""
        self.longest = max(values)
        self.reach = reach or self.longest + count
        """How many places the pass attends to: at least the longest row's tokens after the pass."""
        self.array = mx.array(self.values, mx.int32)
        self.equal = self.longest == min(values) and self.reach == self.longest + count
        """Whether all rows have tokens at all places, so that there is nothing to mask but later tokens."""
        self.positions = _positions_from(self.array, count)
        """The positions of the new tokens, (rows, count)."""
        self._masks: dict[tuple[int, int, int, int], mx.array] = {}
        self._places: dict[tuple[int, int], mx.array] = {}
        self._kept_tokens: KeptTokens | None = None

    def kept_tokens(self, tokens: Sequence[int]) -> "KeptTokens":
        """Return what all layers need in order to keep the first `tokens[i]` tokens of row i."""
        if self._kept_tokens is None or self._kept_tokens.counts != list(tokens):
            self._kept_tokens = KeptTokens(list(tokens), self.real)
        return self._kept_tokens

    def mask(self, size: int, window: int = 0, ring: int = 0, hidden_count: int = 0) -> mx.array | None:
        """Return which of `size` places each new token may attend to, (rows, 1, count, size) of bool; None: all.

        All new tokens are written already. `window` 0: no limit. `ring` 0: places are positions; else the place of
        position p is p modulo `ring`. `hidden_count`: the number of first places that no token may attend to.
        """
        if self.equal and not (window or hidden_count) and self.count == 1:
            return None
        key = (size, window, ring, hidden_count)
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
            if hidden_count:
                seen = seen & (places >= hidden_count)
            self._masks[key] = seen[:, None]
        return self._masks[key]

    def ring_mask(self, window: int, keep: int, layer_window: int) -> mx.array:
        """Return what each new token may attend to, (rows, 1, count, places + count) of bool, before a ring is written.

        The new tokens come after the ring's places. `window`, `keep`: see `places`. `layer_window`: the layer's own
        window; 0: the ring's.
        """
        key = (-window, keep, layer_window, 0)
        if key not in self._masks:
            place = mx.arange(min(self.longest, window), dtype=mx.int32)[None]
            last = self.array[:, None] - 1
            held = mx.where(place < keep, place, last - (last - place) % (window - keep))
            held = mx.where((held < mx.minimum(place, keep)) | (held > last), -1, held)  # the place is still empty
            at = mx.concatenate([held, self.positions], axis=1)[:, None]
            own = self.positions[:, :, None]
            recent = at > own - (layer_window or window - keep)
            seen = (at >= 0) & (at <= own) & (recent | (at < keep))
            self._masks[key] = seen[:, None]
        return self._masks[key]

    def cached_mask(self, size: int, hidden_count: int = 0) -> mx.array | None:
        """Return what `mask` has returned for these arguments; None: it was not called, or had nothing to hide."""
        return self._masks.get((size, 0, 0, hidden_count))

    def places(self, window: int, keep: int) -> mx.array:
        """Return the places of new tokens, (rows, count), in a ring of `window` places, of which `keep` are fixed."""
        if (window, keep) not in self._places:
            turned = keep + (self.positions - keep) % (window - keep)
            self._places[window, keep] = mx.where(self.positions < window, self.positions, turned)
        return self._places[window, keep]


def _positions_from(first: mx.array, count: int) -> mx.array:
    return first[:, None] if count == 1 else first[:, None] + mx.arange(count, dtype=mx.int32)


class KeptTokens:
    """How many tokens of a pass each row keeps, and arrays made from it once for all layers."""

    def __init__(self, counts: list[int], real: list[int]) -> None:
        self.counts = counts
        self.keeps_all = counts == real
        """Whether each row keeps all of its tokens."""
        self.empty_rows = [not kept and bool(got) for kept, got in zip(counts, real, strict=True)]
        """Which rows keep none of their tokens."""
        self._real = real
        self._windows: dict[int, mx.array] = {}

    @cached_property
    def rows(self) -> mx.array:
        """The numbers of the rows."""
        return mx.arange(len(self.counts))

    @cached_property
    def last_places(self) -> mx.array:
        """The place of the last token that each row keeps, (rows,): -1 if it keeps none, 2**30 if all."""
        pairs = zip(self.counts, self._real, strict=True)
        return mx.array([kept - 1 if kept < got else 2**30 for kept, got in pairs], mx.int32)

    @cached_property
    def complete_rows(self) -> mx.array:
        """Which rows keep all of their tokens, (rows,) of bool."""
        return mx.array([kept == got for kept, got in zip(self.counts, self._real, strict=True)])

    def window(self, width: int) -> mx.array:
        """Return the places of the `width` entries after each row's kept ones, (rows, width)."""
        if width not in self._windows:
            self._windows[width] = mx.array(self.counts, mx.int32)[:, None] + mx.arange(width, dtype=mx.int32)
        return self._windows[width]


def select_states(kept: KeptTokens, before: mx.array, between: mx.array, after: mx.array) -> mx.array:
    """Return each row's state, (rows, ...), after the tokens that it keeps.

    `before`, `between` (rows, n, ...), `after`: the states after no token, after 1 to n tokens, and after all of them.
    At least one row must not keep all.
    """
    if len(kept.counts) == 1:
        return before if kept.empty_rows[0] else mx.contiguous(between[:, kept.counts[0] - 1])
    if on_cuda() and after[0].nbytes % 16 == 0:
        return _select_on_cuda(kept.last_places, before, between, after)
    picked = between[kept.rows, mx.clip(kept.last_places, 0, between.shape[1] - 1)]
    picked = choose_rows(kept.complete_rows, after, picked)
    return choose_rows(mx.array(kept.empty_rows), before, picked) if any(kept.empty_rows) else picked


def choose_rows(condition: mx.array, first: mx.array, second: mx.array) -> mx.array:
    """Return the rows of `first` where `condition`, (rows,) of bool, is true, and the rows of `second` elsewhere."""
    return mx.where(condition.reshape(-1, *[1] * (first.ndim - 1)), first, second)


# For 8 rows of 2 MB on an H100, MLX's operations take 72 µs; its memory could move them in 11 µs.
_SELECT_SOURCE = """
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
_MAX_BLOCKS = 512  # per row


def _select_on_cuda(last: mx.array, before: mx.array, between: mx.array, after: mx.array) -> mx.array:
    blocks = min(-(-after[0].nbytes // (16 * _THREADS)), _MAX_BLOCKS)
    result: mx.array = _select_kernel()(
        inputs=[last, before, between, after],
        template=[("T", after.dtype)],
        grid=(blocks * _THREADS, len(after), 1),
        threadgroup=(_THREADS, 1, 1),
        output_shapes=[after.shape],
        output_dtypes=[after.dtype],
    )[0]
    return result


@cache
def _select_kernel() -> Any:
    return cuda_kernel("pick_states", ["last", "before", "between", "after"], ["picked"], _SELECT_SOURCE)


def capacity_for(length: int) -> int:
    """Return how many places to allocate for a row of `length` tokens."""
    return (length // GROWTH + 1) * GROWTH


def pass_size(before: int, own: int) -> tuple[int, int]:
    """Return how many tokens a pass over prompts reads per row, and how many places it attends to."""
    count = _round_size(own, _COUNT_BITS, MIN_ROW_TOKENS)
    return count, round_reach(before + count) if before else count


def round_reach(places: int) -> int:
    """Round up the places that a pass over prompts attends to."""
    return _round_size(places, _REACH_BITS, GROWTH)


def _round_size(number: int, bits: int, least: int) -> int:
    """Round up to a multiple of `least` that has at most `bits` significant bits."""
    step = max(1 << max(number.bit_length() - bits, 0), least)
    return -(-number // step) * step


def resize_tokens(array: mx.array, size: int) -> mx.array:
    """Return an array (rows, heads, tokens, width) with its tokens' axis cut or padded to `size`."""
    have = array.shape[2]
    if have == size:
        return array
    if have > size:
        return array[:, :, :size]
    empty = mx.zeros((*array.shape[:2], size - have, array.shape[3]), array.dtype)
    return mx.concatenate([array, empty], axis=2)


def gather_rows(stored: mx.array | None, keep: Sequence[int], joined: list[mx.array], spare: int) -> mx.array:
    """Return the rows `keep` of `stored`, then the rows `joined`, then `spare` copies of the first row."""
    parts = list(joined)
    if stored is not None and keep:
        whole = list(keep) == list(range(stored.shape[0]))
        parts.insert(0, stored if whole else stored[mx.array(list(keep), mx.int32)])
    if spare:
        parts.append(mx.broadcast_to(parts[0][:1], (spare, *parts[0].shape[1:])))
    return mx.concatenate(parts) if len(parts) > 1 else parts[0]


def place_rows(
    stored: mx.array | None, keep: Sequence[int], joined: Sequence[mx.array], spare: int, size: int
) -> mx.array:
    """Do what `gather_rows` does for arrays (rows, heads, tokens, width); each row gets `size` places.

    Each row is written to its place in one new array: to pad the rows first would take as much memory again, and four
    times as many launches.
    """
    parts = [stored[first : last + 1] for first, last in _runs(keep)] if stored is not None else []
    parts += joined
    if spare:
        parts.append(mx.broadcast_to(parts[0][:1], (spare, *parts[0].shape[1:])))
    heads, width = parts[0].shape[1], parts[0].shape[3]
    placed = mx.zeros((sum(part.shape[0] for part in parts), heads, size, width), parts[0].dtype)
    row = 0
    for part in parts:
        placed[row : row + part.shape[0], :, : part.shape[2]] = part[:, :, :size]
        row += part.shape[0]
    return placed


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of successive numbers."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


class PlacedArrays:
    """Arrays (rows, heads, places, width) in which each row writes at its own places."""

    lengths: Lengths
    keeps_any = True

    def __init__(self) -> None:
        self.arrays: list[mx.array] = []
        self.last_fetch: tuple[Any, Any] = (None, None)
        """The keys and the values that the model got last."""
        self.pass_arrays: list[mx.array] = []
        """New tokens that are not in `arrays` yet, since some may be rejected."""

    def begin(self, lengths: Lengths) -> None:
        """Prepare a pass over rows of these lengths."""
        self.lengths = lengths
        self.last_fetch = (None, None)  # otherwise the arrays could not be written in place

    def write(self, new: list[mx.array], places: mx.array) -> None:
        """Write new tokens (rows, heads, n, width) at `places` (rows, n)."""
        at = places[:, None, :, None]
        for index, value in enumerate(new):
            # Nothing else refers to the old array, so MLX writes in place.
            self.arrays[index] = mx.put_along_axis(self.arrays[index], mx.broadcast_to(at, value.shape), value, axis=2)

    def resize(self, size: int) -> None:
        """Cut or pad all rows to `size` places."""
        self.arrays = [resize_tokens(array, size) for array in self.arrays]

    def gather(self, size: int, keep: Sequence[int], joined: list[list[mx.array]], spare: int) -> None:
        """Take the rows `keep`, then the rows `joined`, each a list of arrays, then `spare` copies of the first row.

        All rows get `size` places.
        """
        if list(keep) == list(range(self.arrays[0].shape[0] if self.arrays else 0)) and not (joined or spare):
            self.resize(size)
            return
        if not (self.arrays or spare) and len(joined) == 1 and joined[0][0].shape[2] >= size:
            self.arrays = [resize_tokens(array, size) for array in joined[0]]  # they are copied when they are written
            return
        stored: Sequence[mx.array | None] = self.arrays or [None] * len(joined[0])
        self.arrays = [
            place_rows(array, keep, [row[index] for row in joined], spare, size) for index, array in enumerate(stored)
        ]
