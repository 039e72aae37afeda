"""The kinds of layer cache that mlx-lm's models use: how rows share a pass, and how a prompt's cache is stored.

`KINDS` has one row per kind. To add a kind, write its functions and its row here. Models with other kinds are served,
too, but their rows take turns, and their prompts are not cached.

| cache of one row | cache of a group of rows | place of a row's token at position p |
|---|---|---|
| KVCache, QuantizedKVCache | BatchedKVCache | p |
| RotatingKVCache | BatchedRotatingKVCache | p; from the window's size on, in a ring after the first `keep` places |
| ArraysCache | BatchedArraysCache | - |
| LastHiddenState, HeadKVCache | BatchedLastHiddenState, BatchedKVCache; see `head_cache` | p |

A batched cache has the methods that models call on mlx-lm's own. Each step writes all of its rows; it is rebuilt when
rows join or leave. A BatchedKVCache takes several tokens per row, so several prompts can share a prefill pass. When a
step verifies proposed tokens, rows of all kinds get several tokens, and `keep` says how many of them stay.
"""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import mlx.core as mx
from msgspec import Struct

from orchard.engine.batching.batched_cache import (
    KeptTokens,
    Lengths,
    PlacedArrays,
    capacity_for,
    choose_rows,
    gather_rows,
    select_states,
)
from orchard.engine.batching.head_cache import BatchedLastHiddenState, HeadView, LastHiddenStateView
from orchard.engine.batching.layer_views import ArraysView, AttentionView


class Unbatchable(Exception):
    """A layer cache is of a kind that can't be batched."""


class Footprint(Struct, frozen=True):
    """The bytes of one row: per token, per token of each window (size, bytes per token), and fixed."""

    per_token: int = 0
    windows: tuple[tuple[int, int], ...] = ()
    fixed: int = 0

    def bytes(self, tokens: int) -> int:
        """Return the bytes of a row of `tokens` tokens."""
        windows = sum(min(tokens, size) * per_token for size, per_token in self.windows)
        return self.fixed + tokens * self.per_token + windows

    def plus(self, other: "Footprint") -> "Footprint":
        """Return the footprint of a row that has another model's cache, too."""
        windows = (*self.windows, *other.windows)
        return Footprint(self.per_token + other.per_token, windows, self.fixed + other.fixed)


class BatchedLayerCache(Protocol):
    """One layer of one group of rows."""

    arrays: list[mx.array]
    """All content of the rows."""
    pass_arrays: list[mx.array]
    """What a pass of several tokens per row has computed beside `arrays`; `keep` uses it."""
    lengths: Lengths
    """How many tokens the rows hold before the current pass."""

    @property
    def keeps_any(self) -> bool:
        """Whether a row can keep any number of the last pass's tokens; if not, it keeps all or none."""

    def begin(self, lengths: Lengths) -> None:
        """Prepare a pass over rows of these lengths: make room for the tokens that it writes."""

    def keep(self, tokens: Sequence[int]) -> None:
        """Keep the first `tokens[i]` tokens of row i from the last pass, which had several per row."""

    def rebuild(self, keep: Sequence[int], layers: Sequence[Any], spare: int, lengths: Sequence[int]) -> None:
        """Take the rows `keep` in this order, then the rows in `layers`, then `spare` copies of the first row.

        `lengths`: the lengths of all rows except spare ones.
        """

    def extract(self, row: int, length: int) -> Any:
        """Return one row of `length` tokens as a cache of its own."""


def _refuse_batching(layer: Any) -> BatchedLayerCache:
    raise Unbatchable(type(layer).__name__)


class LayerKind(NamedTuple):
    """How the engine treats one kind of layer cache; the defaults are for unknown kinds.

    A prompt can be cached if each of its layers has `cut` or `snapshot`.
    """

    batch: Callable[[Any], BatchedLayerCache] = _refuse_batching
    """Return an empty batched cache for layers like this one. Raise Unbatchable."""
    view: Callable[[list[Any], list[int], mx.array], Any] = AttentionView
    """Return the model's view in a pass; arguments: each group's layer, the bounds of their rows, all rows' offsets."""
    footprint: Callable[[Any], Footprint] = lambda layer: Footprint(fixed=int(getattr(layer, "nbytes", 0)))
    """Return the footprint of a layer that has read at least one token."""
    cut: Callable[[Any, int, int], list[mx.array]] | None = None
    """Return the layer's arrays from one place to another in axis 2; they share the layer's memory."""
    snapshot: Callable[[Any, int], list[mx.array | None]] | None = None
    """Return a lazy copy of the state of a layer that can't be cut; arguments: the layer, how many of the last pass's
    tokens to leave out."""
    looks_back: bool = False
    """Whether `snapshot` can leave out tokens."""
    restore: Callable[[Any, list[dict[int, mx.array]], int], None] = lambda layer, pieces, length: None
    """Fill an empty layer; arguments: the layer, what `cut` returned or one snapshot, the number of tokens."""
    quantize: Callable[[Any, int, int], Any] = lambda layer, group_size, bits: layer
    """Return the layer, quantised with this group size and number of bits if its kind can be quantised."""
    batches_prefill: bool = False
    """Whether several prompts can share a prefill pass."""
    max_verify_tokens: Callable[[Any], int] = lambda layer: 2**31
    """Return the most tokens that a row may get in a pass that verifies."""


def _layer_arrays(layer: Any) -> list[mx.array]:
    """Return a layer's arrays (1, heads, tokens, width): keys and values, or what they are quantised to."""
    return [*layer.keys, *layer.values] if hasattr(layer, "bits") else [layer.keys, layer.values]


def _keys_and_values(arrays: Sequence[mx.array]) -> tuple[Any, Any]:
    """Return keys and values from what `_layer_arrays` returned."""
    half = len(arrays) // 2
    return (tuple(arrays[:half]), tuple(arrays[half:])) if half > 1 else (arrays[0], arrays[1])


def _fill_layer(layer: Any, arrays: Sequence[mx.array], length: int) -> None:
    layer.keys, layer.values = _keys_and_values(arrays)
    layer.offset = length


def _quantize_arrays(arrays: Sequence[mx.array], like: Any) -> list[mx.array]:
    return [part for one in arrays for part in mx.quantize(one, group_size=like.group_size, bits=like.bits)]


def _bytes_per_token(layer: Any) -> int:
    return sum(array.nbytes // array.shape[2] for array in _layer_arrays(layer))


class BatchedKVCache(PlacedArrays):
    """Rows of KVCache, or of QuantizedKVCache."""

    def __init__(self, like: Any) -> None:
        super().__init__()
        self._new: Callable[[], Any] = like.__class__
        if hasattr(like, "bits"):  # mlx-lm's attention asks whether a cache has this
            self.group_size, self.bits = like.group_size, like.bits
            self._new = partial(like.__class__, like.group_size, like.bits)

    def rebuild(self, keep: Sequence[int], layers: Sequence[Any], spare: int, lengths: Sequence[int]) -> None:
        """See `BatchedLayerCache`. Empty rows can only be with other empty rows; then the first pass makes arrays."""
        if not any(layer.offset for layer in layers) and not self.arrays:
            return
        self.gather(capacity_for(max(lengths)), keep, [_layer_arrays(layer) for layer in layers], spare)

    def begin(self, lengths: Lengths) -> None:
        """See `BatchedLayerCache`."""
        super().begin(lengths)
        if self.arrays and lengths.reach > self.arrays[0].shape[2]:
            self.resize(capacity_for(lengths.reach - 1))

    def keep(self, tokens: Sequence[int]) -> None:
        """See `BatchedLayerCache`. There is nothing to do: no pass attends to what lies behind a row's end."""

    def extract(self, row: int, length: int) -> Any:
        """See `BatchedLayerCache`. The row shares the group's memory until one of them is written."""
        layer = self._new()
        _fill_layer(layer, [array[row : row + 1, :, : capacity_for(length)] for array in self.arrays], length)
        return layer

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Write each row's new tokens; return keys and values of all places that the pass attends to."""
        new = _quantize_arrays([keys, values], self) if hasattr(self, "bits") else [keys, values]
        if self.arrays:
            self.write(new, self.lengths.positions)
        else:
            self.arrays = new
        self.last_fetch = _keys_and_values([array[:, :, : self.lengths.reach] for array in self.arrays])
        return self.last_fetch

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Any:
        """Return the mask of the current pass, as mlx-lm's caches do."""
        lengths = self.lengths
        layer_window = window_size if window_size and window_size < lengths.reach else 0
        if lengths.equal and lengths.count > 1 and not layer_window and not return_array:
            return "causal"
        return lengths.mask(lengths.reach, layer_window)


def _restore_kv(layer: Any, pieces: list[dict[int, mx.array]], length: int) -> None:
    """Fill a layer with joined pieces; quantise the unquantised ones if the layer is quantised."""
    rows = [list(piece.values()) for piece in pieces]
    if hasattr(layer, "bits"):
        rows = [_quantize_arrays(row, layer) if len(row) == 2 else row for row in rows]
    if (have := sum(row[0].shape[2] for row in rows)) == length:
        # Add free room: mlx-lm's cache would copy everything once more to make it for the next token.
        free = capacity_for(length) - have
        rows.append([mx.zeros((*array.shape[:2], free, array.shape[3]), array.dtype) for array in rows[0]])
    arrays = rows[0] if len(rows) == 1 else [mx.concatenate(list(own), axis=2) for own in zip(*rows, strict=True)]
    _fill_layer(layer, arrays, length)


class BatchedRotatingKVCache(PlacedArrays):
    """Rows of RotatingKVCache, which keep their first `keep` and their last `window - keep` tokens."""

    def __init__(self, like: Any) -> None:
        super().__init__()
        self._window: int = like.max_size
        self._keep: int = like.keep
        self._new = partial(like.__class__, like.max_size, like.keep)

    def rebuild(self, keep: Sequence[int], layers: Sequence[Any], spare: int, lengths: Sequence[int]) -> None:
        """See `BatchedLayerCache`."""
        # Until a ring is full, its places are positions.
        size = min(capacity_for(max(lengths)), self._window)
        self.gather(size, keep, [self._ring_arrays(layer) for layer in layers], spare)

    def _ring_arrays(self, layer: Any) -> list[mx.array]:
        """Return keys and values with each token at its place in the ring."""
        arrays = [layer._temporal_order(array) for array in (layer.keys, layer.values)]
        return arrays if layer.offset <= self._window else [self._rotate(array, 1, layer.offset) for array in arrays]

    def _rotate(self, array: mx.array, direction: int, length: int) -> mx.array:
        """Rotate the tokens of a row of `length` from their order to their places (`direction` 1) or back (-1)."""
        recent = self._window - self._keep
        turned = mx.roll(array[:, :, -recent:], direction * ((length - self._keep) % recent), 2)
        return mx.concatenate([array[:, :, : self._keep], turned], axis=2)

    def begin(self, lengths: Lengths) -> None:
        """See `BatchedLayerCache`. In a pass of several tokens per row, the new tokens stay apart until `keep`.

        They would overwrite older tokens, which are needed if a new one is rejected.
        """
        super().begin(lengths)
        self.pass_arrays = []
        if self._used_places() > self.arrays[0].shape[2]:
            self.resize(min(capacity_for(lengths.reach - 1), self._window))

    def _used_places(self) -> int:
        """Return how many places of the ring the current pass uses if all of its tokens are kept."""
        return min(self.lengths.reach, self._window)

    def keep(self, tokens: Sequence[int]) -> None:
        """See `BatchedLayerCache`."""
        places = self.lengths.places(self._window, self._keep)[:, None, :, None]
        stays = mx.array([*tokens, *[0] * (len(self.lengths.values) - len(tokens))], mx.int32)[:, None]
        stays = (mx.arange(self.lengths.count) < stays)[:, None, :, None]
        for index, new in enumerate(self.pass_arrays):
            at = mx.broadcast_to(places, new.shape)
            old = mx.take_along_axis(self.arrays[index], at, axis=2)
            self.arrays[index] = mx.put_along_axis(self.arrays[index], at, mx.where(stays, new, old), axis=2)
        self.pass_arrays = []

    def extract(self, row: int, length: int) -> Any:
        """See `BatchedLayerCache`."""
        arrays = [array[row : row + 1, :, : min(length, self._window)] for array in self.arrays]
        if length > self._window:
            arrays = [self._rotate(array, -1, length) for array in arrays]
        layer = self._new()
        _fill_ring(layer, [mx.contiguous(array) for array in arrays], length)
        return layer

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Take each row's new tokens; return keys and values up to the longest row's end."""
        if self.lengths.count > 1:
            self.pass_arrays = [keys, values]
            size = min(self.lengths.longest, self._window)
            rings = [array[:, :, :size] for array in self.arrays]
            self.last_fetch = mx.concatenate([rings[0], keys], axis=2), mx.concatenate([rings[1], values], axis=2)
            return self.last_fetch
        self.write([keys, values], self.lengths.places(self._window, self._keep))
        size = self._used_places()
        self.last_fetch = self.arrays[0][:, :, :size], self.arrays[1][:, :, :size]
        return self.last_fetch

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> mx.array | None:
        """Return the mask of the current pass."""
        size = self._used_places()
        # A full ring holds what its row may attend to, unless the layer's own window is narrower.
        layer_window = window_size if window_size and window_size < self._window and not self._keep else 0
        if self.lengths.count > 1:
            return self.lengths.ring_mask(self._window, self._keep, layer_window)
        if layer_window:
            return self.lengths.mask(size, layer_window, self._window)
        return self.lengths.mask(size)


def _fill_ring(layer: Any, arrays: Sequence[mx.array], length: int) -> None:
    _fill_layer(layer, arrays, length)
    layer._idx = arrays[0].shape[2]


def _snapshot_ring(layer: Any, beyond: int) -> list[mx.array | None]:
    """Copy the keys and values that later tokens may attend to, in the order of the tokens, without the last `beyond`.

    Those that a pass of several tokens wrote, and all that its first token attended to, are there until the next pass.
    """
    kept: list[mx.array | None] = []
    for array in (layer.keys, layer.values):
        ordered: mx.array = layer._temporal_order(array)
        ordered = ordered[:, :, : ordered.shape[2] - beyond]
        excess = ordered.shape[2] - layer.max_size
        if excess > 0:
            ordered = mx.concatenate([ordered[:, :, : layer.keep], ordered[:, :, layer.keep + excess :]], axis=2)
        kept.append(mx.contiguous(ordered))
    return kept


class BatchedArraysCache:
    """Rows of ArraysCache: recurrent states, whose size doesn't depend on the row's length.

    In a pass of several tokens per row, a model may report the states after each token, see `ArraysView`.
    """

    lengths: Lengths

    def __init__(self, like: Any) -> None:
        self._new = partial(like.__class__, len(like.cache))
        self.cache: list[Any] = [None] * len(like.cache)
        self._states_before: list[Any] = []  # the states before a pass of several tokens per row
        self._states_between: dict[int, mx.array] = {}  # the states that the model reported in that pass

    def note(self, index: int, between: mx.array) -> None:
        """Take the values of one state within the current pass of n tokens.

        `between` is (rows, n - 1, ...), the state after each token but the last; or (rows, n + width, ...), whose
        `width` entries from place i on are the state after i tokens.
        """
        self._states_between = self._states_between | {index: between}

    @property
    def pass_arrays(self) -> list[mx.array]:
        """See `BatchedLayerCache`: the noted values, if all states were noted."""
        return [self._states_between[index] for index in sorted(self._states_between)] if self.keeps_any else []

    @pass_arrays.setter
    def pass_arrays(self, arrays: list[mx.array]) -> None:
        self._states_between = dict(enumerate(arrays))

    @property
    def keeps_any(self) -> bool:
        """See `BatchedLayerCache`."""
        return len(self._states_between) == len(self.cache)

    @property
    def arrays(self) -> list[Any]:
        """See `BatchedLayerCache`. Models write into `cache`, as into that of an ArraysCache."""
        return self.cache

    @arrays.setter
    def arrays(self, arrays: list[Any]) -> None:
        self.cache = arrays

    def begin(self, lengths: Lengths) -> None:
        """See `BatchedLayerCache`. There is always room."""
        self.lengths = lengths
        self._states_before, self._states_between = list(self.cache) if lengths.count > 1 else [], {}

    def keep(self, tokens: Sequence[int]) -> None:
        """See `BatchedLayerCache`. Take each row back to its state after the tokens that it keeps."""
        kept = self.lengths.kept_tokens(tokens)
        if not kept.keeps_all:
            self.cache = [
                _select_state(kept, self._states_before[index], self._states_between.get(index), new)
                for index, new in enumerate(self.cache)
            ]
        self._states_before, self._states_between = [], {}

    def rebuild(self, keep: Sequence[int], layers: Sequence[Any], spare: int, lengths: Sequence[int]) -> None:
        """See `BatchedLayerCache`."""
        self.cache = [
            gather_rows(stored, keep, [layer.cache[index] for layer in layers], spare)
            for index, stored in enumerate(self.cache)
        ]

    def extract(self, row: int, length: int) -> Any:
        """See `BatchedLayerCache`."""
        layer = self._new()
        layer.cache = [None if state is None else mx.contiguous(state[row : row + 1]) for state in self.cache]
        return layer


def _select_state(kept: KeptTokens, before: mx.array, noted: mx.array | None, after: mx.array) -> mx.array:
    """Return a state after each row's kept tokens, from the noted values of the pass. Not all tokens are kept."""
    if noted is None:
        return choose_rows(kept.complete_rows, after, before)
    if noted.ndim > before.ndim:
        return select_states(kept, before, noted, after)
    if len(kept.counts) == 1:
        return mx.contiguous(noted[:, kept.counts[0] : kept.counts[0] + before.shape[1]])
    return mx.take_along_axis(noted, kept.window(before.shape[1])[..., None], axis=1)


def _restore_arrays(layer: Any, pieces: list[dict[int, mx.array]], length: int) -> None:
    layer.cache = [pieces[0].get(index) for index in range(len(layer.cache))]


_KV = LayerKind(
    batch=BatchedKVCache,
    footprint=lambda layer: Footprint(per_token=_bytes_per_token(layer)),
    cut=lambda layer, start, stop: [array[:, :, start:stop] for array in _layer_arrays(layer)],
    restore=_restore_kv,
    batches_prefill=True,
)
_ARRAYS = LayerKind(
    batch=BatchedArraysCache,
    view=ArraysView,
    snapshot=lambda layer, _: [None if state is None else mx.contiguous(state) for state in layer.cache],
    restore=_restore_arrays,
)
KINDS: dict[str, LayerKind] = {
    "KVCache": _KV._replace(quantize=lambda layer, group_size, bits: layer.to_quantized(group_size, bits)),
    "QuantizedKVCache": _KV,
    "RotatingKVCache": LayerKind(
        batch=BatchedRotatingKVCache,
        footprint=lambda layer: Footprint(windows=((int(layer.max_size), _bytes_per_token(layer)),)),
        snapshot=_snapshot_ring,
        looks_back=True,
        # mlx-lm assigns to slices, which changes the array object itself; a copy shares its buffer until then.
        restore=lambda layer, pieces, length: _fill_ring(layer, [copy.copy(pieces[0][i]) for i in range(2)], length),
        max_verify_tokens=lambda layer: int(layer.max_size - layer.keep),  # as many tokens have different places
    ),
    "ArraysCache": _ARRAYS,
    "LastHiddenState": _ARRAYS._replace(batch=BatchedLastHiddenState, view=LastHiddenStateView),
    "HeadKVCache": _KV._replace(view=HeadView),
}


def layer_kind_of(layer: Any) -> LayerKind:
    """Return the kind of a row's layer by the name of its class, since mlx-vlm has its own classes."""
    return KINDS.get(type(layer).__name__, LayerKind())
