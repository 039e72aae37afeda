"""A forward pass in decode as a compiled function: MLX traces it once and replays it, without the model's Python.

On a fast GPU a step takes as long as the host needs to build and launch it. A traced pass needs constant shapes: the
model sees all places of the rows' arrays, not only as many as the longest row holds. `decode_attention` still reads
only the rows' tokens; other attention gets a mask. Passes that verify tokens are traced in the same way. When rows join
or leave, or outgrow their arrays, another trace is needed. So a pass is traced after it has run a few times untraced,
or at once if it is known to come again.
"""

import copy
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from orchard.device.out_of_memory import is_out_of_memory
from orchard.engine.batching.batched_cache import Lengths, PlacedArrays
from orchard.engine.batching.kv_cache import Cache, map_layers
from orchard.engine.batching.layer_kinds import KINDS, BatchedLayerCache
from orchard.engine.batching.layer_views import AttentionView
from orchard.engine.batching.model import LanguageModel

log = logging.getLogger("orchard.engine")

RUNS_BEFORE_TRACE = 6
_MAX_TRACES = 64  # traces; each keeps a node for every operation of a pass

States = list[list[list[mx.array]]]  # of each group's layers
Forward = Callable[[mx.array, Sequence[mx.array], list[mx.array], list[list[Any]]], mx.array]
"""A pass: a function of tokens, of other arrays, and of each group's lengths (rows,) and layers."""
Trace = Callable[..., tuple[mx.array, States, States]]


@dataclass(frozen=True)
class GroupedForward:
    """The pass without the groups, which a trace must not keep.

    `bounds`: where each group's rows begin and end. `kinds`: the layers' class names. `nesting`: the nested lists of a
    cache without its layers. `joint`: whether the model can read `GroupedArrays`.
    """

    model: LanguageModel
    bounds: list[int]
    kinds: Sequence[str]
    nesting: Cache
    joint: bool

    def __call__(
        self, tokens: mx.array, positions: Sequence[mx.array], lengths: list[mx.array], groups: list[list[Any]]
    ) -> mx.array:
        """Return the logits, (rows, vocab_size), after one token per row, (rows,), with the layers of each group.

        With several tokens per row, (rows, n), return (rows, n, vocab_size). `positions`: of all tokens, if they don't
        simply continue the rows' lengths.
        """
        given = positions[0] if positions else None
        offset = lengths[0] if len(lengths) == 1 else mx.concatenate(lengths)
        pairs = zip(self.kinds, zip(*groups, strict=True), strict=True)
        views = [KINDS[name].view(list(layers), self.bounds, offset) for name, layers in pairs]
        for view in views:
            if isinstance(view, AttentionView):
                view.joint = self.joint
        left = iter(views)
        cache = map_layers(lambda _: next(left), self.nesting)
        if tokens.ndim > 1:
            return self.model.forward(tokens, cache, positions=given)
        return self.model.forward(tokens[:, None], cache, positions=given)[:, -1]


class TracedPasses:
    """The traces of one model, by the shapes of their inputs."""

    def __init__(self, runs_before: int | None = None) -> None:
        """`runs_before`: how often a pass runs before it is traced; None: as often as one of decode."""
        self._runs_before = runs_before
        self._runs: OrderedDict[object, int] = OrderedDict()
        self._traces: OrderedDict[object, Trace] = OrderedDict()
        self._untraceable: set[int] = set()  # dimensions of tokens: 1 in plain decode, 2 if rows get several
        self.trace_count = 0
        """How many passes have been traced so far."""

    def run(
        self,
        forward: Forward,
        tokens: mx.array,
        more: Sequence[mx.array],
        lengths: Sequence[Lengths],
        groups: Sequence[list[BatchedLayerCache]],
        *,
        at_once: bool = False,
    ) -> mx.array | None:
        """Run `forward` as a trace over tokens, (rows,) or (rows, n); update the groups' layers and return the result.

        Return None and do nothing if the pass can't be traced or has not run often enough. `at_once`: trace it the
        first time.
        """
        states = [[layer.arrays for layer in layers] for layers in groups]
        if tokens.ndim in self._untraceable or not all(
            array is not None for group in states for arrays in group for array in arrays
        ):
            return None
        runs_before = RUNS_BEFORE_TRACE if self._runs_before is None else self._runs_before
        real = [one.real_array for one in lengths]
        key = (
            tokens.shape,
            tuple(array.shape for array in more),
            tuple(array is None for array in real),
            _state_shapes(states),
        )
        if (trace := self._trace(key, forward, groups, 0 if at_once else runs_before)) is None:
            return None
        try:
            logits, states, pass_arrays = trace(tokens, list(more), [one.array for one in lengths], real, states)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            log.info("the model's passes can't be traced; each is built anew (%s)", error)
            self._untraceable.add(tokens.ndim)
            return None
        for layers, *moved in zip(groups, states, pass_arrays, strict=True):
            for layer, arrays, beside in zip(layers, *moved, strict=True):
                layer.arrays, layer.pass_arrays = arrays, beside
        return logits

    def _trace(
        self, key: object, forward: Forward, groups: Sequence[list[BatchedLayerCache]], runs_before: int
    ) -> Trace | None:
        if trace := self._traces.get(key):
            self._traces.move_to_end(key)
            return trace
        runs = self._runs[key] = self._runs.pop(key, 0) + 1
        if len(self._runs) > _MAX_TRACES:
            self._runs.popitem(last=False)
        if runs <= runs_before:
            return None
        del self._runs[key]
        self.trace_count += 1
        if len(self._traces) >= _MAX_TRACES:
            self._traces.popitem(last=False)
        self._traces[key] = trace = mx.compile(
            _make_step(forward, [[_empty_layer(layer) for layer in layers] for layers in groups])
        )
        return trace


def _state_shapes(states: States) -> object:
    return tuple(tuple(tuple((array.shape, array.dtype) for array in arrays) for arrays in group) for group in states)


def _empty_layer(layer: BatchedLayerCache) -> BatchedLayerCache:
    """Return an empty layer like this one: a trace must not keep arrays."""
    like = copy.copy(layer)
    like.begin(Lengths([0]))
    like.arrays = []
    return like


def _make_step(forward: Forward, groups: list[list[Any]]) -> Trace:
    def step(
        tokens: mx.array,
        more: list[mx.array],
        lengths: list[mx.array],
        real: list[mx.array | None],
        states: States,
    ) -> tuple[mx.array, States, States]:
        own = [[copy.copy(layer) for layer in layers] for layers in groups]
        count = tokens.shape[1] if tokens.ndim > 1 else 1
        for layers, array, gets, arrays in zip(own, lengths, real, states, strict=True):
            places = [
                layer_arrays[0].shape[2]
                for layer, layer_arrays in zip(layers, arrays, strict=True)
                if isinstance(layer, PlacedArrays)
            ]
            known = Lengths.for_trace(array, max(places, default=count), count, gets)
            for layer, layer_arrays in zip(layers, arrays, strict=True):
                layer.arrays, layer.lengths = list(layer_arrays), known
        logits = forward(tokens, more, lengths, own)
        moved, pass_arrays = (
            [[getattr(layer, name) for layer in layers] for layers in own] for name in ("arrays", "pass_arrays")
        )
        return logits, moved, pass_arrays

    return step
