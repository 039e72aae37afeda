"""The rows that are being decoded, and one forward pass for all of them.

Rows lie in groups of like length (within a factor of two), each with batched layer caches of its own, so that a long
row makes neither memory nor attention dear for short ones. A group of one row keeps that row's own cache, as mlx-lm
made it: a row alone costs what it costs in mlx-lm's own loop, and a long row is not copied when others join.
"""

import itertools
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import mlx.core as mx

from orchard.engine.batching.batched_cache import Lengths
from orchard.engine.batching.kv_cache import Cache, layers, map_layers
from orchard.engine.batching.layer_kinds import BatchedKVCache, BatchedLayerCache, kind_of
from orchard.engine.batching.model import LanguageModel
from orchard.engine.batching.traced_pass import GroupedForward, TracedPasses

_SHORT = 512
_LONG_ALONE = 4096  # tokens; a row of more is not copied for a faster step


class BatchMode(Enum):
    """How far a model's rows can share a forward pass."""

    SHARED = "all rows share one pass"
    BY_LENGTH = "rows of like length share a pass"
    SEQUENTIAL = "rows take turns"


class Verifying(Enum):
    """Which rows may get several tokens in a pass, of which some may turn out wrong."""

    TOGETHER = "rows that share a pass, each with as many tokens as it gets"
    ALONE = "a row that is alone"
    NEVER = "none"


class BatchSlot:
    """A row's place in a batch: how many tokens its keys and values hold and, while it is alone, its own cache."""

    def __init__(self, cache: Cache, length: int, position_delta: int = 0, *, isolated: bool = False) -> None:
        """`position_delta`: how much further than its length the row's next position is (M-RoPE).
        `isolated`: it must not share a pass."""
        self.length = length
        self.position_delta = position_delta
        self.isolated = isolated
        self.batched = False
        """Whether it has batched layer caches also while it is alone: only they take tokens that may turn out wrong."""
        self.replace(cache)

    def replace(self, cache: Cache) -> None:
        """Return the row another cache of its own, to be used from the next `Batch.arrange` on."""
        self.cache: Cache | None = cache
        self.kinds = tuple(type(layer).__name__ for _, layer in layers(cache))
        self.nesting = map_layers(lambda layer: None, cache)
        self.most = min((kind_of(layer).most(layer) for _, layer in layers(cache)), default=1)
        """How many tokens it may get at most in a pass that verifies."""


class _BatchGroup:
    """Rows that share batched layer caches, or one row with its own cache."""

    def __init__(self, key: Any, batches_one: bool) -> None:
        """`batches_one`: a short row has batched caches also while it is alone."""
        self.key = key
        self._batches_one = batches_one
        self.slots: dict[BatchSlot, int] = {}
        """Which row of the arrays each slot has."""
        self.rows: list[BatchSlot] = []
        """The slot whose tokens each row of the arrays gets: spare rows get those of the first slot."""
        self._batched: list[BatchedLayerCache] = []

    def arrange(self, slots: list[BatchSlot], spare: int) -> None:
        """Hold exactly these rows from now on."""
        batches_one = self._batches_one and self.key[0] and slots[0].length < _LONG_ALONE
        alone = len(slots) == 1 and not (batches_one or slots[0].batched)
        if alone:
            slots[0].cache = self.extract(slots[0])
            self.slots, self.rows, self._batched = {slots[0]: 0}, slots, []
            return
        if len(slots) + spare == len(self.rows) and all(slot.cache is None for slot in slots):
            # The rows of those that have left become spare ones: to copy the others would take as long as a step.
            stay = set(slots)
            self.slots = {slot: row for slot, row in self.slots.items() if slot in stay}
            by_row = {row: slot for slot, row in self.slots.items()}
            self.rows = [by_row.get(row, next(iter(self.slots))) for row in range(len(self.rows))]
            return
        joining = [[layer for _, layer in layers(slot.cache)] for slot in slots if slot.cache is not None]
        if not self._batched:
            self._batched = [kind_of(layer).batch(layer) for layer in joining[0]]
        slots = sorted(slots, key=lambda slot: slot.cache is not None)  # those that stay come first
        keep = [self.slots[slot] for slot in slots if slot.cache is None]
        for index, layer in enumerate(self._batched):
            layer.rebuild(keep, [own[index] for own in joining], spare, [slot.length for slot in slots])
        for slot in slots:
            slot.cache = None
        self.slots, self.rows = {slot: row for row, slot in enumerate(slots)}, slots + slots[:1] * spare

    def extract(self, slot: BatchSlot) -> Cache:
        """Return a row's keys, values and states as a cache of its own."""
        if slot.cache is not None:
            return slot.cache
        own = iter([layer.extract(self.slots[slot], slot.length) for layer in self._batched])
        return map_layers(lambda _: next(own), slot.nesting)

    def begin_pass(self, count: int = 1, real: Sequence[int] = ()) -> Lengths:
        """Tell the batched layers how many tokens their rows hold, and get: with padding, and `real`. Return it."""
        lengths = Lengths([slot.length for slot in self.rows], count, real=real)
        for layer in self._batched:
            layer.begin(lengths)
        return lengths

    def begin_ahead(self, ahead: Sequence[int], count: int) -> Lengths:
        """Make room for `count` tokens of each row, so many places behind its end, and return where they go.

        All layers get it alike: a traced pass relies on that.
        """
        lengths = Lengths([slot.length + before for slot, before in zip(self.rows, ahead, strict=True)], count)
        for layer in self._batched:
            if isinstance(layer, BatchedKVCache):
                layer.begin(lengths)
        return lengths

    def keep(self, real: Sequence[int], tokens: Sequence[int]) -> None:
        """Keep so many of the `real` tokens that each row got in the last pass; where it can't be so many, none."""
        if not all(layer.keeps_any for layer in self._batched):
            tokens = [kept if kept == got else 0 for got, kept in zip(real, tokens, strict=True)]
        for layer in self._batched:
            layer.keep(tokens)
        for slot, row in self.slots.items():
            slot.length += tokens[row]

    def layers(self) -> list[Any]:
        """Return each layer's cache, lists taken apart: the only row's own, or batched ones."""
        own = self.rows[0].cache
        return list(self._batched) if own is None else [layer for _, layer in layers(own)]


class Pass:
    """The groups that one forward pass serves."""

    def __init__(self, groups: list[_BatchGroup], *, joint: bool = False) -> None:
        """`joint`: the model takes `GroupedArrays`, as several groups need it."""
        self.groups = groups
        self._joint = joint
        self.slots = [slot for group in groups for slot in group.slots]
        self.bounds = [0, *itertools.accumulate(len(group.rows) for group in groups)]
        numbers = {slot: number for number, slot in enumerate(self.slots)}
        self._of_rows = [numbers[slot] for group in groups for slot in group.rows]  # which slot's token each row reads
        firsts = zip(self.bounds, groups, strict=False)
        real = [first + row for first, group in firsts for row in group.slots.values()]  # which row each slot has
        self._spread, self._real = mx.array(self._of_rows, mx.int32), mx.array(real, mx.int32)
        self._padded = len(self._of_rows) > len(self.slots)
        self._given: list[int] = []  # how many tokens each slot got in the last `verify`

    def run(self, model: LanguageModel, tokens: mx.array, traced: TracedPasses | None) -> mx.array:
        """Read one token a row, (rows,); return logits (rows, vocab_size) and counts the token."""
        tokens = self.spread(tokens)
        positions = None  # the rows' lengths
        if any(slot.position_delta for slot in self.slots):
            own = mx.array([slot.length + slot.position_delta for slot in self.slots], mx.int32)
            positions = own[self._spread]
        alone = self.slots[0].cache if len(self.slots) == 1 else None
        if alone is None:
            lengths = [group.begin_pass() for group in self.groups]
            logits = self._run_batched(model, tokens, positions, lengths, traced)
        else:
            logits = model.forward(tokens[:, None], alone, positions=positions)[:, -1]
        for slot in self.slots:
            slot.length += 1
        return self.real(logits)

    def verify(
        self,
        model: LanguageModel,
        tokens: Sequence[Sequence[int]],
        array: mx.array | None,
        traced: TracedPasses | None,
        multiple: int = 1,
    ) -> mx.array:
        """Read several tokens a row, see `Batch.verify`; return logits (rows, n, vocab_size), padded at their end."""
        given = self._given = [len(of) for of in tokens]
        count = self._filled(max(given), multiple)
        if array is None:
            array = mx.array([[*of, *[0] * (count - len(of))] for of in tokens], mx.uint32)
        padded = mx.pad(array, [(0, 0), (0, count - array.shape[1])]) if count > array.shape[1] else array
        positions = None
        if any(slot.position_delta for slot in self.slots):
            first = mx.array([slot.length + slot.position_delta for slot in self.slots], mx.int32)[self._spread]
            positions = (first[:, None] + mx.arange(count, dtype=mx.int32)).reshape(-1)
        if len(self.slots) == 1 and self.slots[0].cache is not None:
            return model.forward(padded, self.slots[0].cache, positions=positions)
        lengths = [group.begin_pass(count, own) for group, own in zip(self.groups, self.by_row(given), strict=True)]
        logits = self._run_batched(model, self.spread(padded), positions, lengths, traced, at_once=multiple > 1)
        return self.real(logits)

    def _filled(self, count: int, multiple: int) -> int:
        """Return how many tokens each row gets in `verify`, with padding.

        A row that is alone in batched caches gets a multiple of `multiple`, as several rows are filled up to that.
        """
        filled = -(-count // multiple) * multiple
        alone = self.bounds[-1] == 1 and self.slots[0].cache is None
        return filled if alone and filled <= self.slots[0].most else count

    def keep(self, tokens: Sequence[int]) -> None:
        """Keep so many of each row's tokens of the last `verify`."""
        for group, *own in zip(self.groups, self.by_row(self._given), self.by_row(tokens), strict=True):
            group.keep(*own)

    def layers(self, index: int) -> list[Any]:
        """Return the caches of one layer, of each group."""
        return [group.layers()[index] for group in self.groups]

    def by_row(self, of_slots: Sequence[int]) -> list[list[int]]:
        """Divide what there is of each slot among the groups: return it for each of their rows, spare ones too."""
        return [[of_slots[slot] for slot in self._of_rows[a:b]] for a, b in itertools.pairwise(self.bounds)]

    def spread(self, of_rows: mx.array) -> mx.array:
        """Return what there is of each slot, (slots, ...), in the order of the pass, spare rows among them."""
        return of_rows[self._spread] if self._padded else of_rows

    def real(self, of_rows: mx.array) -> mx.array:
        """Return what a pass has made, without that of spare rows."""
        return of_rows[self._real] if self._padded else of_rows

    def begin_ahead(self, ahead: Sequence[int], count: int) -> list[Lengths]:
        """Get ready for passes over one layer that write `count` tokens so far behind each row's end: return where.

        `end_ahead` must follow, and nothing of it stays.
        """
        return [group.begin_ahead(own, count) for group, own in zip(self.groups, self.by_row(ahead), strict=True)]

    def end_ahead(self, caches: Sequence[Any]) -> None:
        """Let the rows end where they did, in one layer's caches of each group."""
        for group, cache in zip(self.groups, caches, strict=True):
            if group.rows[0].cache is not None:
                cache.offset = group.rows[0].length

    def position_deltas(self) -> mx.array:
        """Return how much further than its place each row's position is, (rows,), in the order of the pass."""
        return self.spread(mx.array([slot.position_delta for slot in self.slots], mx.int32))

    def _run_batched(
        self,
        model: LanguageModel,
        tokens: mx.array,
        positions: mx.array | None,
        lengths: list[Lengths],
        traced: TracedPasses | None,
        *,
        at_once: bool = False,
    ) -> mx.array:
        forward = GroupedForward(model, self.bounds, self.slots[0].kinds, self.slots[0].nesting, self._joint)
        layers = [group.layers() for group in self.groups]
        more = [] if positions is None else [positions]
        if traced and all(slot.cache is None for slot in self.slots):
            logits = traced.run(forward, tokens, more, lengths, layers, at_once=at_once)
            if logits is not None:
                return logits
        return forward(tokens, more, [of.array for of in lengths], layers)


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
        verifying: Verifying = Verifying.TOGETHER,
    ) -> None:
        """Fill each group up to a multiple of `multiple` rows, with copies that nobody reads.

        Rows of fewer than `short` tokens are alike. `traced`: passes are compiled, see `traced_pass`.
        `verifying`: what `verify` may be used for.
        """
        self._model = model
        self.mode = mode
        """How far the rows share a pass."""
        self.verifying = verifying
        """Which rows may get several tokens in `verify`."""
        self._multiple = multiple
        self._short = short
        self.traced = traced
        """Whether passes are compiled."""
        self._traced = TracedPasses() if traced else None
        self._groups: list[_BatchGroup] = []
        self.passes: list[Pass] = []
        """The passes that a step takes."""
        self._ran: list[Pass] = []  # in the last step, without an error
        self.slots: list[BatchSlot] = []
        """The rows, in the order of tokens and logits."""

    @property
    def traces(self) -> int:
        """How many passes have been traced so far: the step that does so takes long."""
        return self._traced.made if self._traced else 0

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
        joint = [Pass(shared, joint=True)] if shared else []
        self.passes = [*joint, *(Pass([group]) for group in self._groups if group not in shared)]
        self.slots = [slot for one in self.passes for slot in one.slots]

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

        def run(one: Pass, start: int) -> mx.array:
            own = tokens if len(self.passes) == 1 else tokens[start : start + len(one.slots)]
            return one.run(self._model, own, self._traced)

        return self._each(run)

    def verify(
        self, tokens: Sequence[Sequence[int]], drawn: Sequence[int], array: mx.array | None = None
    ) -> tuple[mx.array | None, list[tuple[list[BatchSlot], Exception]]]:
        """Read several tokens a row, which may turn out wrong; return what `forward` does, but n logits a row.

        Those of row i are behind its last `drawn[i]` tokens; n is the most of `drawn`, and what is behind the others is
        padding. `array`, (rows, most): the tokens, padded, where some are not known yet, and `tokens` has any there.
        `keep` must follow before anything else.
        """
        most = max(drawn)
        # Where rows verify alone only, their states take padding for tokens.
        multiple = self._multiple if self.verifying is Verifying.TOGETHER else 1

        def run(one: Pass, start: int) -> mx.array:
            stop = start + len(one.slots)
            own = tokens[start:stop]
            known = None if array is None else array[start:stop, : max(map(len, own))]
            logits = one.verify(self._model, own, known, self._traced, multiple)
            return _behind_last(logits, own, drawn[start:stop], most)

        return self._each(run)

    def keep(self, tokens: Sequence[int]) -> None:
        """Keep the first so many tokens that each row got in `verify`; the rows are those whose passes did not raise.

        Where a layer can't do that, a row keeps none: `BatchSlot.length` says it.
        """
        start = 0
        for one in self._ran:
            one.keep(tokens[start : start + len(one.slots)])
            start += len(one.slots)

    def mark(self) -> Callable[[], bool]:
        """Return what takes the rows back to where they are now, whatever `forward` has read since.

        They must have batched layer caches. It returns whether what was read is still there, behind the rows' ends:
        then a row that turns out to go on so only has to be made longer.
        """
        lengths = [slot.length for slot in self.slots]
        # What lies behind a row's end is never looked at, but where it takes the place of something.
        written = [
            (layer, list(layer.arrays))
            for group in self._groups
            for layer in group.layers()
            if not isinstance(layer, BatchedKVCache)
        ]

        def back() -> bool:
            for slot, length in zip(self.slots, lengths, strict=True):
                slot.length = length
            for layer, arrays in written:
                layer.arrays = arrays
            return not written

        return back

    def _each(
        self, run: Callable[[Pass, int], mx.array]
    ) -> tuple[mx.array | None, list[tuple[list[BatchSlot], Exception]]]:
        """Run each pass, given the number of its first row; return all logits, and what was raised by whose pass."""
        logits: list[mx.array] = []
        failed: list[tuple[list[BatchSlot], Exception]] = []
        start = 0
        self._ran = []
        for one in self.passes:
            try:
                logits.append(run(one, start))
            except Exception as error:
                failed.append((one.slots, error))
            else:
                self._ran.append(one)
            start += len(one.slots)
        if len(logits) > 1:
            return mx.concatenate(logits), failed
        return (logits[0] if logits else None), failed


def _behind_last(logits: mx.array, tokens: Sequence[Sequence[int]], drawn: Sequence[int], most: int) -> mx.array:
    """Return (rows, most, vocab_size): of logits (rows, n, vocab_size) those behind the last `drawn` tokens of each."""
    count = logits.shape[1]
    if all(len(of) == count and last == most for of, last in zip(tokens, drawn, strict=True)):
        return logits[:, count - most :]
    places = [
        [min(len(of) - last + place, len(of) - 1) for place in range(most)]
        for of, last in zip(tokens, drawn, strict=True)
    ]
    return logits[mx.arange(len(places))[:, None], mx.array(places)]
