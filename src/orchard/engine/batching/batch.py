"""The rows that are being decoded, and one forward pass for all of them.

Rows lie in groups of like length (within a factor of two), each with batched layer caches of its own, so that a long
row makes neither memory nor attention dear for short ones. A group of one row keeps that row's own cache, as mlx-lm
made it: a row alone costs what it costs in mlx-lm's own loop, and a long row is not copied when others join.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import mlx.core as mx

from orchard.engine.batching.batched_cache import Lengths
from orchard.engine.batching.kv_cache import Cache, layers, map_layers
from orchard.engine.batching.layer_kinds import KINDS, BatchedLayerCache, kind_of
from orchard.engine.batching.model import LanguageModel
from orchard.engine.batching.traced_pass import TracedPasses

_SHORT = 512
_LONG_ALONE = 4096  # tokens; a row of more is not copied for a faster step


class BatchMode(Enum):
    """How far a model's rows can share a forward pass."""

    SHARED = "all rows share one pass"
    BY_LENGTH = "rows of like length share a pass"
    SEQUENTIAL = "rows take turns"


class BatchSlot:
    """A row's place in a batch: how many tokens its keys and values hold and, while it is alone, its own cache."""

    def __init__(self, cache: Cache, length: int, position_delta: int = 0, *, isolated: bool = False) -> None:
        """`position_delta`: how much further than its length the row's next position is (M-RoPE).
        `isolated`: it must not share a pass."""
        self.length = length
        self.position_delta = position_delta
        self.isolated = isolated
        self.replace(cache)

    def replace(self, cache: Cache) -> None:
        """Return the row another cache of its own, to be used from the next `Batch.arrange` on."""
        self.cache: Cache | None = cache
        self.kinds = tuple(type(layer).__name__ for _, layer in layers(cache))
        self.nesting = map_layers(lambda layer: None, cache)


class _BatchGroup:
    """Rows that share batched layer caches, or one row with its own cache."""

    def __init__(self, key: Any, batches_one: bool) -> None:
        """`batches_one`: a short row has batched caches also while it is alone."""
        self.key = key
        self._batches_one = batches_one
        self.slots: list[BatchSlot] = []
        self.spare = 0
        self._batched: list[BatchedLayerCache] = []

    def arrange(self, slots: list[BatchSlot], spare: int) -> None:
        """Hold exactly these rows from now on."""
        alone = len(slots) == 1 and not (self._batches_one and self.key[0] and slots[0].length < _LONG_ALONE)
        replaced = not alone and any(slot.cache is not None for slot in slots)
        if slots == self.slots and spare == self.spare and not replaced:
            return
        if alone:
            slots[0].cache = self.extract(slots[0])
            self.slots, self.spare, self._batched = slots, 0, []
            return
        joining = [[layer for _, layer in layers(slot.cache)] for slot in slots if slot.cache is not None]
        if not self._batched:
            self._batched = [kind_of(layer).batch(layer) for layer in joining[0]]
        slots = sorted(slots, key=lambda slot: slot.cache is not None)  # those that stay come first
        keep = [self.slots.index(slot) for slot in slots if slot.cache is None]
        for index, layer in enumerate(self._batched):
            layer.rebuild(keep, [own[index] for own in joining], spare, [slot.length for slot in slots])
        for slot in slots:
            slot.cache = None
        self.slots, self.spare = slots, spare

    def extract(self, slot: BatchSlot) -> Cache:
        """Return a row's keys, values and states as a cache of its own."""
        if slot.cache is not None:
            return slot.cache
        row = self.slots.index(slot)
        own = iter([layer.extract(row, slot.length) for layer in self._batched])
        return map_layers(lambda _: next(own), slot.nesting)

    def begin_pass(self) -> mx.array:
        """Tell the batched layers how many tokens their rows hold, and return it, (rows,)."""
        known = [slot.length for slot in self.slots]
        lengths = Lengths(known + known[:1] * self.spare)
        for layer in self._batched:
            layer.begin(lengths)
        return lengths.array

    def layers(self) -> list[Any]:
        """Return each layer's cache, lists taken apart: the only row's own, or batched ones."""
        own = self.slots[0].cache
        return list(self._batched) if own is None else [layer for _, layer in layers(own)]


class _Pass:
    """The groups that one forward pass serves."""

    def __init__(self, groups: list[_BatchGroup]) -> None:
        self.groups = groups
        self.slots = [slot for group in groups for slot in group.slots]
        self._bounds = [0, *itertools.accumulate(len(group.slots) + group.spare for group in groups)]
        spread: list[int] = []  # which slot's token each row reads
        real: list[int] = []  # which row each slot's logits are in
        for group in groups:
            first = len(real)
            real += range(len(spread), len(spread) + len(group.slots))
            spread += [*range(first, len(real)), *[first] * group.spare]
        self._spread, self._real = mx.array(spread, mx.int32), mx.array(real, mx.int32)
        self._padded = len(spread) > len(self.slots)

    def run(self, model: LanguageModel, tokens: mx.array, traced: TracedPasses | None) -> mx.array:
        """Read one token a row, (rows,); return logits (rows, vocab_size) and counts the token."""
        if self._padded:
            tokens = tokens[self._spread]
        positions = None  # the rows' lengths
        if any(slot.position_delta for slot in self.slots):
            own = mx.array([slot.length + slot.position_delta for slot in self.slots], mx.int32)
            positions = own[self._spread]
        alone = self.slots[0].cache if len(self.slots) == 1 else None
        if alone is None:
            logits = self._run_batched(model, tokens, positions, traced)
        else:
            logits = model.forward(tokens[:, None], alone, positions=positions)[:, -1]
        for slot in self.slots:
            slot.length += 1
        return logits[self._real] if self._padded else logits

    def _run_batched(
        self, model: LanguageModel, tokens: mx.array, positions: mx.array | None, traced: TracedPasses | None
    ) -> mx.array:
        lengths = [group.begin_pass() for group in self.groups]
        forward = _Forward(model, self._bounds, self.slots[0].kinds, self.slots[0].nesting)
        layers = [group.layers() for group in self.groups]
        if traced and all(slot.cache is None for slot in self.slots):
            logits = traced.run(forward, tokens, positions, lengths, layers)
            if logits is not None:
                return logits
        return forward(tokens, positions, lengths, layers)


@dataclass(frozen=True)
class _Forward:
    """A model's forward pass over groups of rows, without the groups: a trace must not keep them."""

    model: LanguageModel
    bounds: list[int]
    kinds: Sequence[str]
    nesting: Cache

    def __call__(
        self, tokens: mx.array, positions: mx.array | None, lengths: list[mx.array], groups: list[list[Any]]
    ) -> mx.array:
        """Return the logits, (rows, vocab_size), after one token a row, (rows,), by the layers of each group."""
        offset = lengths[0] if len(lengths) == 1 else mx.concatenate(lengths)
        pairs = zip(self.kinds, zip(*groups, strict=True), strict=True)
        views = iter([KINDS[name].view(list(of), self.bounds, offset) for name, of in pairs])
        cache = map_layers(lambda _: next(views), self.nesting)
        return self.model.forward(tokens[:, None], cache, positions=positions)[:, -1]


class Batch:
    """Rows in decode. All methods belong to the engine's thread."""

    def __init__(
        self,
        model: LanguageModel,
        mode: BatchMode = BatchMode.SHARED,
        multiple: int = 1,
        short: int = _SHORT,
        *,
        traced: bool = False,
    ) -> None:
        """Fill each group up to a multiple of `multiple` rows, with copies that nobody reads.

        Rows of fewer than `short` tokens are alike. `traced`: passes are compiled, see `traced_pass`.
        """
        self._model = model
        self.mode = mode
        """How far the rows share a pass."""
        self._multiple = multiple
        self._short = short
        self._traced = TracedPasses() if traced else None
        self._groups: list[_BatchGroup] = []
        self._passes: list[_Pass] = []
        self._ran: list[_Pass] = []  # in the last step, without an error
        self.slots: list[BatchSlot] = []
        """The rows, in the order of tokens and logits."""

    @property
    def outgrown(self) -> bool:
        """Whether a row has become too long for its group, so that `arrange` would move it."""
        return any(self._key(slot) != group.key for group in self._groups for slot in group.slots)

    def arrange(self, slots: Sequence[BatchSlot]) -> None:
        """Hold exactly these rows from now on; the order is the batch's own. Raise Unbatchable."""
        members: dict[Any, list[BatchSlot]] = {}
        for slot in slots:
            members.setdefault(self._key(slot), []).append(slot)
        here = set(slots)
        for group in self._groups:
            for slot in group.slots:
                if slot in here and self._key(slot) != group.key:
                    slot.cache = group.extract(slot)
        groups = {group.key: group for group in self._groups}
        self._groups = [groups.get(key) or _BatchGroup(key, self._traced is not None) for key in members]
        for group in self._groups:
            own = members[group.key]
            group.arrange(own, -len(own) % self._multiple if len(own) > 1 else 0)
        shared = [group for group in self._groups if self.mode is BatchMode.SHARED and group.key[0]]
        self._passes = [_Pass(of) for of in [shared, *([group] for group in self._groups if group not in shared)] if of]
        self.slots = [slot for one in self._passes for slot in one.slots]

    def _key(self, slot: BatchSlot) -> tuple[Any, ...]:
        """Return what the rows of a group have in common; `()` instead of kinds: the row is on its own."""
        # A cache without content has no shape that a batched one could take over.
        if self.mode is BatchMode.SEQUENTIAL or slot.isolated or not slot.length:
            return (), id(slot)
        return slot.kinds, max(slot.length, self._short - 1).bit_length()

    def extract(self, slot: BatchSlot) -> list[Any]:
        """Return a row's own cache; the row stays until the next `arrange`."""
        return next(group for group in self._groups if slot in group.slots).extract(slot)

    def first_layers(self) -> list[Any]:
        """Return what a layer in the first third of the last pass has written, for `mx.async_eval`."""
        passes = [one.groups[0].layers() for one in self._ran]
        return [vars(of[len(of) // 3]) for of in passes if of]

    def forward(self, tokens: mx.array) -> tuple[mx.array | None, list[tuple[list[BatchSlot], Exception]]]:
        """Read one token a row, (rows,); return lazy logits (rows, vocab_size), and what was raised by whose pass.

        The logits lack the rows of passes that raised: those rows' caches are in no known state.
        """
        logits: list[mx.array] = []
        failed: list[tuple[list[BatchSlot], Exception]] = []
        start = 0
        self._ran = []
        for one in self._passes:
            own = tokens if len(self._passes) == 1 else tokens[start : start + len(one.slots)]
            start += len(one.slots)
            try:
                logits.append(one.run(self._model, own, self._traced))
            except Exception as error:
                failed.append((one.slots, error))
            else:
                self._ran.append(one)
        if len(logits) > 1:
            return mx.concatenate(logits), failed
        return (logits[0] if logits else None), failed
