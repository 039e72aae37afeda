"""The rows in decode, and the forward passes that compute their next tokens together.

Rows of similar length (within a factor of two) form a group, which has its own batched layer caches. So a long row
doesn't cost short ones memory or attention time. A group of one row keeps that row's own cache, as mlx-lm made it: a
single row costs what it costs in mlx-lm's own loop, and a long row is not copied when others join.
"""

import itertools
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import mlx.core as mx

from orchard.device.out_of_memory import is_out_of_memory
from orchard.engine.batching.batched_cache import Lengths
from orchard.engine.batching.kv_cache import Cache, map_layers, named_layers
from orchard.engine.batching.layer_kinds import BatchedKVCache, BatchedLayerCache, layer_kind_of
from orchard.engine.batching.model import LanguageModel
from orchard.engine.batching.traced_pass import GroupedForward, TracedPasses

_SHORT_LENGTH = 512
_LONG_LENGTH = 4096  # tokens; a longer row is not copied for a faster step


class BatchMode(Enum):
    """Which of a model's rows can share a forward pass."""

    SHARED = "all rows share one pass"
    BY_LENGTH = "rows of like length share a pass"
    SEQUENTIAL = "rows take turns"


class VerifyMode(Enum):
    """Which rows may verify proposed tokens: get several tokens in a pass, some of which may be rejected."""

    TOGETHER = "rows that share a pass, each with as many tokens as it gets"
    ALONE = "a row that is alone"
    NEVER = "none"


class BatchSlot:
    """A row's place in a batch: the length of its KV cache and, while it is alone, the cache itself."""

    def __init__(self, cache: Cache, length: int, position_delta: int = 0, *, isolated: bool = False) -> None:
        """`position_delta`: the row's next position minus its length (M-RoPE). `isolated`: it must not share a pass."""
        self.length = length
        self.position_delta = position_delta
        self.isolated = isolated
        self.batched = False
        """Whether the row has batched layer caches even while alone: only they can drop rejected tokens."""
        self.replace(cache)

    def replace(self, cache: Cache) -> None:
        """Give the row another cache of its own, which is used from the next `Batch.arrange` on."""
        self.cache: Cache | None = cache
        self.kinds = tuple(type(layer).__name__ for _, layer in named_layers(cache))
        self.nesting = map_layers(lambda layer: None, cache)
        limits = (layer_kind_of(layer).max_verify_tokens(layer) for _, layer in named_layers(cache))
        self.max_verify_tokens = min(limits, default=1)
        """The most tokens that the row may get in a pass that verifies."""


SlotFailures = list[tuple[list[BatchSlot], Exception]]
"""The rows of passes that raised, each with the error."""


class _BatchGroup:
    """Rows that share batched layer caches, or one row with its own cache."""

    def __init__(self, key: Any, batches_one: bool) -> None:
        """`batches_one`: a short row gets batched caches even while alone."""
        self.key = key
        self._batches_one = batches_one
        self.slots: dict[BatchSlot, int] = {}
        """The row of the arrays that each slot has."""
        self.rows: list[BatchSlot] = []
        """The slot whose tokens each row of the arrays gets. Spare rows get those of the first slot."""
        self._batched: list[BatchedLayerCache] = []

    def arrange(self, slots: list[BatchSlot], spare: int) -> None:
        """Hold exactly these rows from now on."""
        batches_one = self._batches_one and self.key[0] and slots[0].length < _LONG_LENGTH
        if len(slots) == 1 and not (batches_one or slots[0].batched):
            slots[0].cache = self.extract(slots[0])
            self.slots, self.rows, self._batched = {slots[0]: 0}, slots, []
            return
        if len(slots) + spare == len(self.rows) and all(slot.cache is None for slot in slots):
            # The rows of slots that have left become spare rows: copying the others would take as long as a step.
            stay = set(slots)
            self.slots = {slot: row for slot, row in self.slots.items() if slot in stay}
            by_row = {row: slot for slot, row in self.slots.items()}
            self.rows = [by_row.get(row, next(iter(self.slots))) for row in range(len(self.rows))]
            return
        joining = [[layer for _, layer in named_layers(slot.cache)] for slot in slots if slot.cache is not None]
        if not self._batched:
            self._batched = [layer_kind_of(layer).batch(layer) for layer in joining[0]]
        slots = sorted(slots, key=lambda slot: slot.cache is not None)  # slots that stay come first
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
        """Tell the batched layers how many tokens each row holds and gets: `count` with padding, `real` without."""
        lengths = Lengths([slot.length for slot in self.rows], count, real=real)
        for layer in self._batched:
            layer.begin(lengths)
        return lengths

    def begin_ahead(self, ahead: Sequence[int], count: int) -> Lengths:
        """Make room for `count` tokens, `ahead` places behind each row's end, and return the lengths of that pass.

        All layers must get the same room: a traced pass relies on it.
        """
        lengths = Lengths([slot.length + before for slot, before in zip(self.rows, ahead, strict=True)], count)
        for layer in self._batched:
            if isinstance(layer, BatchedKVCache):
                layer.begin(lengths)
        return lengths

    def keep(self, real: Sequence[int], tokens: Sequence[int]) -> None:
        """Keep the first `tokens[i]` of the `real[i]` tokens that row i got in the last pass; none if a layer can't."""
        if not all(layer.keeps_any for layer in self._batched):
            tokens = [kept if kept == got else 0 for got, kept in zip(real, tokens, strict=True)]
        for layer in self._batched:
            layer.keep(tokens)
        for slot, row in self.slots.items():
            slot.length += tokens[row]

    def layers(self) -> list[Any]:
        """Return each layer's cache, with nested lists flattened: batched ones, or those of a row that is alone."""
        own = self.rows[0].cache
        return list(self._batched) if own is None else [layer for _, layer in named_layers(own)]


class Pass:
    """One forward pass and the groups of rows that share it."""

    def __init__(self, groups: list[_BatchGroup], *, joint: bool = False) -> None:
        """`joint`: the model can read `GroupedArrays`, which several groups need."""
        self.groups = groups
        self._joint = joint
        self.slots = [slot for group in groups for slot in group.slots]
        self.bounds = [0, *itertools.accumulate(len(group.rows) for group in groups)]
        numbers = {slot: number for number, slot in enumerate(self.slots)}
        self._slots_by_row = [numbers[slot] for group in groups for slot in group.rows]  # the slot that each row reads
        firsts = zip(self.bounds, groups, strict=False)
        rows_by_slot = [first + row for first, group in firsts for row in group.slots.values()]
        self._slot_array, self._row_array = mx.array(self._slots_by_row, mx.int32), mx.array(rows_by_slot, mx.int32)
        self._has_spare = len(self._slots_by_row) > len(self.slots)
        self._token_counts: list[int] = []  # the tokens of each slot in the last `verify`

    def run(self, model: LanguageModel, tokens: mx.array, traced: TracedPasses | None) -> mx.array:
        """Read one token per row, (rows,); return logits (rows, vocab_size) and add the token to the rows' lengths."""
        tokens = self.to_rows(tokens)
        positions = None  # the rows' lengths
        if any(slot.position_delta for slot in self.slots):
            positions = mx.array([slot.length + slot.position_delta for slot in self.slots], mx.int32)[self._slot_array]
        alone = self.slots[0].cache if len(self.slots) == 1 else None
        if alone is None:
            lengths = [group.begin_pass() for group in self.groups]
            logits = self._run_batched(model, tokens, positions, lengths, traced)
        else:
            logits = model.forward(tokens[:, None], alone, positions=positions)[:, -1]
        for slot in self.slots:
            slot.length += 1
        return self.to_slots(logits)

    def verify(
        self,
        model: LanguageModel,
        tokens: Sequence[Sequence[int]],
        array: mx.array | None,
        traced: TracedPasses | None,
        multiple: int = 1,
    ) -> mx.array:
        """Read several tokens per row as in `Batch.verify`; return logits (rows, n, vocab_size), padded at the end."""
        given = self._token_counts = [len(row_tokens) for row_tokens in tokens]
        count = self._padded_count(max(given), multiple)
        if array is None:
            array = mx.array([[*row_tokens, *[0] * (count - len(row_tokens))] for row_tokens in tokens], mx.uint32)
        padded = mx.pad(array, [(0, 0), (0, count - array.shape[1])]) if count > array.shape[1] else array
        positions = None
        if any(slot.position_delta for slot in self.slots):
            first = mx.array([slot.length + slot.position_delta for slot in self.slots], mx.int32)[self._slot_array]
            positions = (first[:, None] + mx.arange(count, dtype=mx.int32)).reshape(-1)
        if len(self.slots) == 1 and self.slots[0].cache is not None:
            return model.forward(padded, self.slots[0].cache, positions=positions)
        lengths = [group.begin_pass(count, own) for group, own in zip(self.groups, self.split(given), strict=True)]
        logits = self._run_batched(model, self.to_rows(padded), positions, lengths, traced, at_once=multiple > 1)
        return self.to_slots(logits)

    def _padded_count(self, count: int, multiple: int) -> int:
        """Return how many tokens each row gets in `verify`, with padding.

        A single row in batched caches gets a multiple of `multiple`, as the number of rows does otherwise.
        """
        filled = -(-count // multiple) * multiple
        alone = self.bounds[-1] == 1 and self.slots[0].cache is None
        return filled if alone and filled <= self.slots[0].max_verify_tokens else count

    def keep(self, tokens: Sequence[int]) -> None:
        """Keep the first `tokens[i]` tokens that row i got in the last `verify`."""
        for group, *own in zip(self.groups, self.split(self._token_counts), self.split(tokens), strict=True):
            group.keep(*own)

    def layers(self, index: int) -> list[Any]:
        """Return the cache of one layer in each group."""
        return [group.layers()[index] for group in self.groups]

    def split(self, values: Sequence[int]) -> list[list[int]]:
        """Return, for each group, the slots' values in the order of its rows, including spare rows."""
        return [[values[slot] for slot in self._slots_by_row[a:b]] for a, b in itertools.pairwise(self.bounds)]

    def to_rows(self, entries: mx.array) -> mx.array:
        """Return `entries`, one for each slot, in the order of the pass's rows, including spare rows."""
        return entries[self._slot_array] if self._has_spare else entries

    def to_slots(self, entries: mx.array) -> mx.array:
        """Return `entries`, one for each row of the pass, in the order of the slots, without spare rows."""
        return entries[self._row_array] if self._has_spare else entries

    def begin_ahead(self, ahead: Sequence[int], count: int) -> list[Lengths]:
        """Prepare passes over one layer that write `count` tokens, `ahead` places behind each row's end.

        Return the lengths of each group. `end_ahead` must follow; the tokens are not kept.
        """
        return [group.begin_ahead(own, count) for group, own in zip(self.groups, self.split(ahead), strict=True)]

    def end_ahead(self, caches: Sequence[Any]) -> None:
        """Restore the ends of the rows in one layer's caches, one for each group."""
        for group, cache in zip(self.groups, caches, strict=True):
            if group.rows[0].cache is not None:
                cache.offset = group.rows[0].length

    def position_deltas(self) -> mx.array:
        """Return each row's position minus its length, (rows,), in the order of the pass."""
        return self.to_rows(mx.array([slot.position_delta for slot in self.slots], mx.int32))

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
        return forward(tokens, more, [group_lengths.array for group_lengths in lengths], layers)


class Batch:
    """Rows in decode. Only the engine's thread may call its methods."""

    def __init__(
        self,
        model: LanguageModel,
        mode: BatchMode = BatchMode.SHARED,
        multiple: int = 1,
        short_length: int = _SHORT_LENGTH,
        *,
        traced: bool = False,
        verify_mode: VerifyMode = VerifyMode.TOGETHER,
    ) -> None:
        """Pad each group of several rows to a multiple of `multiple` rows, with copies that nobody reads.

        All rows of fewer than `short_length` tokens count as similar. `traced`: passes are compiled, see `traced_pass`.
        `verify_mode`: which rows `verify` may be used for.
        """
        self._model = model
        self.mode = mode
        """Which rows share a pass."""
        self.verify_mode = verify_mode
        """Which rows may verify proposed tokens."""
        self._multiple = multiple
        self._short = short_length
        self.traced = traced
        """Whether passes are compiled."""
        self._traced = TracedPasses() if traced else None
        self._groups: list[_BatchGroup] = []
        self.passes: list[Pass] = []
        """The forward passes of a step."""
        self._ran: list[Pass] = []  # those of the last step that raised nothing
        self.slots: list[BatchSlot] = []
        """The rows, in the order of the tokens and logits."""

    @property
    def trace_count(self) -> int:
        """How many passes have been traced so far. A step that traces one takes much longer than others."""
        return self._traced.trace_count if self._traced else 0

    @property
    def is_outgrown(self) -> bool:
        """Whether a row has become too long for its group, so that `arrange` must move it."""
        return any(self._key(slot) != group.key for group in self._groups for slot in group.slots)

    def arrange(self, slots: Sequence[BatchSlot]) -> None:
        """Hold exactly these rows from now on; `slots` has their order. Raise Unbatchable if a layer can't."""
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
        self.slots = [slot for pass_ in self.passes for slot in pass_.slots]

    def drop_all(self) -> None:
        """Forget all rows and their caches."""
        self._groups, self.passes, self._ran, self.slots = [], [], [], []

    def _key(self, slot: BatchSlot) -> tuple[Any, ...]:
        """Return a key that is equal for the rows of a group; its first part is `()` for a row that must be alone."""
        # An empty cache has no shapes that a batched cache could take over.
        if self.mode is BatchMode.SEQUENTIAL or slot.isolated or not slot.length:
            return (), id(slot)
        return slot.kinds, max(slot.length, self._short - 1).bit_length()

    def extract(self, slot: BatchSlot) -> list[Any]:
        """Return a row's own cache; if the row is in the batch, it stays until the next `arrange`."""
        return slot.cache or next(group for group in self._groups if slot in group.slots).extract(slot)

    def first_layers(self) -> list[Any]:
        """Return the contents of one layer cache at a third of each pass's depth, for `mx.async_eval`."""
        passes = [pass_.groups[0].layers() for pass_ in self._ran]
        return [vars(layers[len(layers) // 3]) for layers in passes if layers]

    def forward(self, tokens: mx.array) -> tuple[mx.array | None, SlotFailures]:
        """Read one token per row, (rows,); return lazy logits (rows, vocab_size), and failures (slots, error).

        The logits lack the rows of passes that raised: their caches are in an unknown state. An out-of-memory error is
        raised.
        """

        def run(pass_: Pass, start: int) -> mx.array:
            own = tokens if len(self.passes) == 1 else tokens[start : start + len(pass_.slots)]
            return pass_.run(self._model, own, self._traced)

        return self._run_passes(run)

    def verify(
        self, tokens: Sequence[Sequence[int]], draw_counts: Sequence[int], array: mx.array | None = None
    ) -> tuple[mx.array | None, SlotFailures]:
        """Read several tokens per row, some of which may be rejected; return logits (rows, n, vocab_size) and failures.

        n is the maximum of `draw_counts`. Row i has the logits of its last `draw_counts[i]` tokens, then padding. If
        some tokens are not computed yet, `array`, (rows, most tokens), has all of them, padded, and `tokens` has
        placeholders. The next call must be `keep`.
        """
        most = max(draw_counts)
        # If rows can only verify alone, their recurrent states would count padding as tokens.
        multiple = self._multiple if self.verify_mode is VerifyMode.TOGETHER else 1

        def run(pass_: Pass, start: int) -> mx.array:
            stop = start + len(pass_.slots)
            own = tokens[start:stop]
            known = None if array is None else array[start:stop, : max(map(len, own))]
            logits = pass_.verify(self._model, own, known, self._traced, multiple)
            return _last_logits(logits, own, draw_counts[start:stop], most)

        return self._run_passes(run)

    def keep(self, tokens: Sequence[int]) -> None:
        """Keep the first `tokens[i]` tokens that row i got in `verify`, for the rows whose passes did not raise.

        If a layer can't keep a part of the tokens, its row keeps all or none: read `BatchSlot.length`.
        """
        start = 0
        for pass_ in self._ran:
            pass_.keep(tokens[start : start + len(pass_.slots)])
            start += len(pass_.slots)

    def mark(self) -> Callable[[], bool]:
        """Return a function that takes the rows back to their present lengths after later calls of `forward`.

        The rows must have batched layer caches. The function returns whether the tokens read since are still in the
        caches, behind the rows' ends: if so, raising a row's length brings them back.
        """
        lengths = [slot.length for slot in self.slots]
        # No pass reads what lies behind a row's end. Only layers that overwrite older content are restored.
        layers = [layer for group in self._groups for layer in group.layers() if not isinstance(layer, BatchedKVCache)]
        written = [(layer, list(layer.arrays)) for layer in layers]

        def restore() -> bool:
            for slot, length in zip(self.slots, lengths, strict=True):
                slot.length = length
            for layer, arrays in written:
                layer.arrays = arrays
            return not written

        return restore

    def _run_passes(self, run: Callable[[Pass, int], mx.array]) -> tuple[mx.array | None, SlotFailures]:
        """Call `run` with each pass and the number of its first row; return all logits, and failures (slots, error)."""
        logits: list[mx.array] = []
        failed: SlotFailures = []
        start = 0
        self._ran = []
        for pass_ in self.passes:
            try:
                logits.append(run(pass_, start))
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                failed.append((pass_.slots, error))
            else:
                self._ran.append(pass_)
            start += len(pass_.slots)
        return (mx.concatenate(logits) if len(logits) > 1 else next(iter(logits), None)), failed


def _last_logits(logits: mx.array, tokens: Sequence[Sequence[int]], draw_counts: Sequence[int], most: int) -> mx.array:
    """Return (rows, most, vocab_size): row i has the `logits` of its last `draw_counts[i]` tokens."""
    count = logits.shape[1]
    if all(len(row_tokens) == count and last == most for row_tokens, last in zip(tokens, draw_counts, strict=True)):
        return logits[:, count - most :]
    places = [
        [min(len(row_tokens) - last + place, len(row_tokens) - 1) for place in range(most)]
        for row_tokens, last in zip(tokens, draw_counts, strict=True)
    ]
    return logits[mx.arange(len(places))[:, None], mx.array(places)]
