"""What a model gets in place of a layer's cache in a batched pass: a view of the rows of all groups."""

import itertools
from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache

from orchard.engine.batching.attention import GroupedArrays
from orchard.engine.batching.model import on_cuda


class AttentionView:
    """What a model sees in place of a KVCache: the keys and values of all groups.

    Like mlx-lm's caches, it holds what it returned last, for layers that share another layer's keys and values.
    """

    joint = False
    """Whether the model can read `GroupedArrays`. Many models slice a mask that is an array, which `decode_attention`
    then doesn't recognise; they pass `GroupedArrays` on unchanged."""

    def __init__(self, layers: list[Any], bounds: list[int], offset: mx.array) -> None:
        self.keys: Any = None
        self.values: Any = None
        self.offset = offset
        self.single_layer = layers[0] if len(layers) == 1 else None
        """The layer of the only group."""
        self._layers = layers
        self._bounds = bounds
        if len(layers) == 1 and hasattr(layers[0], "bits"):
            self.bits, self.group_size = layers[0].bits, layers[0].group_size

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Take the new tokens of all rows, (rows, heads, n, width) each; return what attention needs."""
        if len(self._layers) == 1:
            self.keys, self.values = self._layers[0].update_and_fetch(keys, values)
        else:
            rows = zip(self._layers, itertools.pairwise(self._bounds), strict=True)
            fetched = [layer.update_and_fetch(keys[a:b], values[a:b]) for layer, (a, b) in rows]
            self.keys, self.values = (self._group_arrays(list(arrays)) for arrays in zip(*fetched, strict=True))
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Any, Any]:
        """Return what `update_and_fetch` returned last."""
        return self.keys, self.values

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Any:
        """Return the mask of the current pass, as mlx-lm's caches do."""
        masks = [layer.make_mask(n, window_size=window_size, return_array=return_array) for layer in self._layers]
        as_it_is = self.joint and on_cuda() and isinstance(masks[0], mx.array)
        return self._group_arrays(masks) if as_it_is or len(masks) > 1 else masks[0]

    def _group_arrays(self, arrays: list[Any]) -> GroupedArrays:
        return GroupedArrays(arrays, self._bounds, self._layers)


class ArraysView(ArraysCache):  # type: ignore[misc]  # mlx-lm has no types
    """What a model sees in place of an ArraysCache: the states of all groups. Mamba models check for this class."""

    def __init__(self, layers: list[Any], bounds: list[int], offset: mx.array) -> None:
        super().__init__(0)
        self._layers = layers
        self._caches: list[list[Any]] = [layer.cache for layer in layers]
        self._bounds = bounds
        known = [layer.lengths for layer in layers]  # None: a row's own cache, which never verifies
        if all(known) and any(one.real_array is not None for one in known):
            real = [
                mx.full(one.array.shape, one.count, mx.int32) if one.real_array is None else one.real_array
                for one in known
            ]
            self.lengths = real[0] if len(real) == 1 else mx.concatenate(real)  # models ask for it
            # mlx-vlm's Qwen3.5 looks for the least length here. Else it would ask the device; a traced pass can't.
            self._qwen3_5_metadata_revision, self._qwen3_5_lengths_info = 0, (self.lengths, 0)
        self._verifies = all(known) and known[0].count > 1  # several tokens per row, to verify

    def __getitem__(self, index: int) -> Any:
        states = [cache[index] for cache in self._caches]
        return states[0] if len(states) == 1 else mx.concatenate(states)

    def __setitem__(self, index: int, value: mx.array) -> None:
        for cache, (a, b) in zip(self._caches, itertools.pairwise(self._bounds), strict=True):
            cache[index] = value if len(self._caches) == 1 else value[a:b]

    def update_window(self, index: int, source: mx.array, width: int, *, lengths: Any = None) -> mx.array:
        """Keep the last `width` entries of `source` (rows, n, channels), as mlx-vlm's ArraysCache does."""
        if self.lengths is None:
            self[index] = state = mx.contiguous(source[:, source.shape[1] - width :])
        else:  # before each row's padding
            places = self.lengths[:, None] + mx.arange(width)
            self[index] = state = mx.take_along_axis(source, places[..., None], axis=1)
        self._note(index, source)
        return state

    def update_recurrent(self, index: int, length: int, update: Callable[..., Any]) -> tuple[Any, mx.array]:
        """Replace a state by what `update` returns; return its output and the state, as mlx-vlm's ArraysCache does.

        `update` takes the state, and how many states between the tokens to return, too; None: none.
        """
        output, state, *between = update(self[index], length - 1 if self._verifies else None)
        self[index] = state
        if between:
            self._note(index, between[0])
        return output, state

    def _note(self, index: int, between: mx.array) -> None:
        if self._verifies:
            for layer, (a, b) in zip(self._layers, itertools.pairwise(self._bounds), strict=True):
                layer.note(index, between if len(self._layers) == 1 else between[a:b])

    def advance(self, n: int) -> None:
        """Do nothing: a view is for one pass only."""

    def make_mask(self, n: int) -> mx.array | None:
        """Return which of n tokens are not padding, (rows, n) of bool; None: all of them."""
        return None if self.lengths is None else mx.arange(n) < self.lengths[:, None]
