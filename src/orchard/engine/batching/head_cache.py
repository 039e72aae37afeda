"""A row's cache for a multi-token-prediction (MTP) head, in addition to the caches of the model's layers.

The head reads each token together with the model's last hidden state of the token before. So it keeps, for each row,
the last hidden state of the newest token, and the keys and values of its own layer at the places of the tokens. A row's
first token has no token before it, and no query attends to its place.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, KVCache

from orchard.engine.batching.attention import GroupedArrays
from orchard.engine.batching.batched_cache import Lengths, gather_rows
from orchard.engine.batching.layer_views import AttentionView


class LastHiddenState(ArraysCache):  # type: ignore[misc]  # mlx-lm has no types
    """The last hidden state of a row's newest token, (1, 1, width)."""

    def __init__(self) -> None:
        super().__init__(1)

    def push(self, hidden_count: mx.array) -> mx.array:
        """Take the states of new tokens, (1, n, width); return the state before each of them, (1, n, width)."""
        first = mx.zeros_like(hidden_count[:, :1]) if self.cache[0] is None else self.cache[0]
        states = mx.concatenate([first, hidden_count], axis=1)
        self.cache[0] = mx.contiguous(states[:, -1:])
        return states[:, :-1]

    @property
    def arrays(self) -> list[mx.array]:
        """What must be computed with the current pass."""
        return list(self.cache)

    def states_after(self, places: Sequence[int]) -> mx.array:
        """See `BatchedLastHiddenState`. Here all tokens are kept."""
        state: mx.array = self.cache[0]
        return state


class BatchedLastHiddenState:
    """Rows of LastHiddenState."""

    lengths: Lengths
    keeps_any = True

    def __init__(self, like: Any) -> None:
        self.arrays: list[mx.array] = []
        self.pass_arrays: list[mx.array] = []
        """The states of a pass of n > 1 tokens per row, (rows, 1 + n, width), beginning with the one before them."""

    def begin(self, lengths: Lengths) -> None:
        """See `BatchedLayerCache`. There is always room."""
        self.lengths, self.pass_arrays = lengths, []

    def push(self, hidden_count: mx.array) -> mx.array:
        """Take the states of new tokens, (rows, n, width), with padding at the end; return the state before each."""
        states = mx.concatenate([self.arrays[0], hidden_count], axis=1)
        if self.lengths.count > 1:
            self.pass_arrays = [states]
        real = self.lengths.real_array
        self.arrays = [states[:, -1:] if real is None else _take_states(states, real)]
        return states[:, :-1]

    def keep(self, tokens: Sequence[int]) -> None:
        """See `BatchedLayerCache`. A pass of one token per row is always kept.

        States that are not kept stay in `pass_arrays`, for `states_after`: the head may need them for guesses before
        their tokens are read again.
        """
        if not self.pass_arrays:
            return
        self.arrays = [_take_states(self.pass_arrays[0], mx.array(list(tokens), mx.int32))]

    def states_after(self, places: Sequence[int]) -> mx.array:
        """Return each row's state, (rows, 1, width), after `places[i]` of the last pass's tokens that were not kept."""
        if not (any(places) and self.pass_arrays):
            return self.arrays[0]
        at = mx.array(list(places), mx.int32)
        return mx.where((at > 0)[:, None, None], _take_states(self.pass_arrays[0], at), self.arrays[0])

    def rebuild(self, keep: Sequence[int], layers: Sequence[Any], spare: int, lengths: Sequence[int]) -> None:
        """See `BatchedLayerCache`."""
        stored = self.arrays[0] if self.arrays else None
        self.arrays = [gather_rows(stored, keep, [layer.cache[0] for layer in layers], spare)]
        self.pass_arrays = []

    def extract(self, row: int, length: int) -> LastHiddenState:
        """See `BatchedLayerCache`."""
        layer = LastHiddenState()
        layer.cache[0] = mx.contiguous(self.arrays[0][row : row + 1])
        return layer


def _take_states(states: mx.array, places: mx.array) -> mx.array:
    """Return the state of each row at its place, (rows, 1, width)."""
    return mx.take_along_axis(states, places[:, None, None], axis=1)


class LastHiddenStateView:
    """What a head sees in place of a LastHiddenState in a batched pass."""

    def __init__(self, layers: list[Any], bounds: list[int], offset: mx.array) -> None:
        self._layers = layers
        self._bounds = bounds

    def push(self, hidden_count: mx.array) -> mx.array:
        """See `BatchedLastHiddenState`."""
        rows = zip(self._layers, pairwise(self._bounds), strict=True)
        return mx.concatenate([layer.push(hidden_count[first:stop]) for layer, (first, stop) in rows])

    @property
    def arrays(self) -> list[mx.array]:
        """What must be computed with the current pass."""
        return [array for layer in self._layers for array in layer.arrays]


class HeadKVCache(KVCache):  # type: ignore[misc]
    """The keys and values of a head's layer. They are never quantised, since they are few."""


class HeadView(AttentionView):
    """What a head's layer sees in place of a HeadKVCache in a batched pass."""

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Any:
        """Return the mask of a pass of one token per row, which hides the first token's place."""
        masks = [self._mask_first(layer, n) for layer in self._layers]
        return GroupedArrays(masks, self._bounds, self._layers)

    @staticmethod
    def _mask_first(layer: Any, n: int) -> mx.array:
        if isinstance(layer, KVCache):
            return (mx.arange(layer.offset + n) > 0)[None, None, None]
        mask: mx.array = layer.lengths.mask(layer.lengths.reach, hidden_count=1)
        return mask
