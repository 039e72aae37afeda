"""The rows that are being decoded, and one forward pass for all of them.

Rows lie in groups of like length (within a factor of two), each with shelves of its own, so that a long row makes
neither memory nor attention dear for short ones. A group of one row keeps that row's own cache, as mlx-lm made it: so a
row alone costs what it costs in mlx-lm's own loop, and a long row is not copied when others join.
"""

import itertools
from collections.abc import Sequence
from enum import Enum
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache

from orchard.engine import kv_cache
from orchard.engine.batching.attention import Parts
from orchard.engine.batching.batched_cache import BatchedLayerCache, Dense, Lengths, Ring, States, shelf_for
from orchard.engine.model import LanguageModel

_SHORT = 512


class BatchMode(Enum):
    """How far a model's rows can share a forward pass."""

    ALL = "all rows share one pass"
    LIKE = "rows of like length share a pass"
    NONE = "rows take turns"


class BatchSlot:
    """A row's place in a batch: how many tokens its keys and values hold and, while it sits alone, its own cache."""

    def __init__(self, cache: list[Any], length: int, position_delta: int = 0, *, apart: bool = False) -> None:
        """`position_delta`: how much further than its length the row's next position is (M-RoPE).
        `apart`: it must not share a pass."""
        self.length = length
        self.position_delta = position_delta
        self.apart = apart
        self.replace(cache)

    def replace(self, cache: list[Any]) -> None:
        """Give the row another cache of its own, to be used from the next `Batch.reseat` on."""
        self.cache: list[Any] | None = cache
        self.kind = tuple(type(layer).__name__ for _, layer in kv_cache.layers(cache))


class _BatchGroup:
    """Rows that share shelves, or one row with its own cache."""

    def __init__(self, key: Any) -> None:
        self.key = key
        self.seats: list[BatchSlot] = []
        self.shelves: list[BatchedLayerCache] = []
        self.spare = 0

    def reseat(self, seats: list[BatchSlot], spare: int) -> None:
        """Hold exactly these rows from now on."""
        replaced = len(seats) > 1 and any(seat.cache is not None for seat in seats)
        if seats == self.seats and spare == self.spare and not replaced:
            return
        stay = [seat for seat in seats if seat in self.seats and seat.cache is None]
        if len(seats) == 1:
            if stay:
                seats[0].cache = self.take(seats[0])
            self.shelves = []
        else:
            self._share(stay, [seat for seat in seats if seat.cache is not None], spare)
            seats = stay + [seat for seat in seats if seat.cache is not None]
            for seat in seats:
                seat.cache = None
        self.seats, self.spare = seats, spare if len(seats) > 1 else 0

    def _share(self, stay: list[BatchSlot], join: list[BatchSlot], spare: int) -> None:
        caches = [seat.cache for seat in join if seat.cache is not None]
        if not self.shelves:
            self.shelves = [shelf_for(layer) for layer in caches[0]]
        keep = [self.seats.index(seat) for seat in stay]
        lengths = [seat.length for seat in stay + join]
        for index, shelf in enumerate(self.shelves):
            shelf.rebuild(keep, [cache[index] for cache in caches], spare, lengths)

    def take(self, seat: BatchSlot) -> list[Any]:
        """Give a row's keys, values and states as a cache of its own."""
        if seat.cache is not None:
            return seat.cache
        row = self.seats.index(seat)
        return [shelf.take(row, seat.length) for shelf in self.shelves]

    def lengths(self) -> Lengths:
        known = [seat.length for seat in self.seats]
        return Lengths(known + known[:1] * self.spare)

    @property
    def rows(self) -> int:
        """How many rows the forward pass has for this group."""
        return len(self.seats) + self.spare


class _Span:
    """One layer of one group in the step under way."""

    def __init__(self, layer: Any, lengths: Lengths | None) -> None:
        """`lengths` None: `layer` is a row's own cache."""
        self.layer = layer
        self.lengths = lengths

    def update(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        if self.lengths is None:
            fetched: tuple[Any, Any] = self.layer.update_and_fetch(keys, values)
            return fetched
        assert isinstance(self.layer, Dense | Ring)
        return self.layer.update(keys, values, self.lengths)

    def mask(self, window: int | None, return_array: bool) -> Any:
        if self.lengths is None:
            return self.layer.make_mask(1, window_size=window, return_array=return_array)
        assert isinstance(self.layer, Dense | Ring)
        return self.layer.mask(self.lengths, window, return_array)


class _Attending:
    """What a model sees in place of a KVCache: keys and values of all groups.

    As mlx-lm's caches do, it holds what it returned last: layers that share keys and values read it once more.
    """

    def __init__(self, spans: list[_Span], cuts: list[int], offset: mx.array) -> None:
        self.keys: Any = None
        self.values: Any = None
        self._spans = spans
        self._cuts = cuts
        self.offset = offset
        if len(spans) == 1 and hasattr(spans[0].layer, "bits"):
            self.bits, self.group_size = spans[0].layer.bits, spans[0].layer.group_size

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Any, Any]:
        """Take one token a row, (rows, heads, 1, width) each; gives what attention needs."""
        cuts = list(itertools.pairwise(self._cuts))
        if len(self._spans) == 1:
            self.keys, self.values = self._spans[0].update(keys, values)
        else:
            fetched = [span.update(keys[a:b], values[a:b]) for span, (a, b) in zip(self._spans, cuts, strict=True)]
            self.keys, self.values = (self._parts(list(of)) for of in zip(*fetched, strict=True))
        return self.keys_and_values()

    def keys_and_values(self) -> tuple[Any, Any]:
        """Return what `update_and_fetch` returned last."""
        return self.keys, self.values

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Any:
        """Give the mask for one token a row, as mlx-lm's caches do."""
        masks = [span.mask(window_size, return_array) for span in self._spans]
        return masks[0] if len(masks) == 1 else self._parts(masks)

    def _parts(self, of: list[Any]) -> Parts:
        return Parts(of, self._cuts, [span.layer for span in self._spans])


class _Remembering(ArraysCache):  # type: ignore[misc]  # mlx-lm has no types
    """What a model sees in place of an ArraysCache: the states of all groups. Mamba asks for that very class."""

    def __init__(self, spans: list[_Span], cuts: list[int]) -> None:
        super().__init__(0)
        self._of: list[list[Any]] = [
            span.layer.of if isinstance(span.layer, States) else span.layer.cache for span in spans
        ]
        self._cuts = cuts

    def __getitem__(self, index: int) -> Any:
        states = [of[index] for of in self._of]
        return states[0] if len(states) == 1 else mx.concatenate(states)

    def __setitem__(self, index: int, value: mx.array) -> None:
        for of, (a, b) in zip(self._of, itertools.pairwise(self._cuts), strict=True):
            of[index] = value if len(self._of) == 1 else value[a:b]

    def advance(self, n: int) -> None:
        """Nothing to do: no row of a decoding batch is padded."""

    def make_mask(self, n: int) -> None:
        """Give no mask: every row has exactly one token."""


class _Nested:
    """What a model sees in place of a CacheList."""

    def __init__(self, caches: list[Any]) -> None:
        self.caches = caches

    def __getitem__(self, index: int) -> Any:
        return self.caches[index]


class _Pass:
    """The groups that one forward pass serves."""

    def __init__(self, groups: list[_BatchGroup]) -> None:
        self.groups = groups
        self.seats = [seat for group in groups for seat in group.seats]
        self._cuts = [0, *itertools.accumulate(group.rows for group in groups)]
        spread: list[int] = []  # which seat's token each row reads
        real: list[int] = []  # which row each seat's logits are in
        for group in groups:
            first = len(real)
            real += range(len(spread), len(spread) + len(group.seats))
            spread += [*range(first, len(real)), *[first] * group.spare]
        self._spread, self._real = mx.array(spread, mx.int32), mx.array(real, mx.int32)
        self._padded = len(spread) > len(self.seats)

    def run(self, model: LanguageModel, tokens: mx.array) -> mx.array:
        """Read one token a row, (rows,); gives logits (rows, vocab_size) and counts the token."""
        alone = self.seats[0].cache if len(self.seats) == 1 else None
        if self._padded:
            tokens = tokens[self._spread]
        cache = self._view() if alone is None else alone
        logits = model.forward(tokens[:, None], cache, positions=self._positions())[:, -1]
        for seat in self.seats:
            seat.length += 1
        return logits[self._real] if self._padded else logits

    def first_layers(self) -> Any:
        """See `Batch.first_layers`."""
        group = self.groups[0]
        layers = [layer for _, layer in kv_cache.layers(group.seats[0].cache or group.shelves)]
        return vars(layers[len(layers) // 3]) if layers else []

    def _positions(self) -> mx.array | None:
        """Give the rows' next positions where they are not their lengths."""
        if not any(seat.position_delta for seat in self.seats):
            return None
        positions = mx.array([seat.length + seat.position_delta for seat in self.seats], mx.int32)
        return positions[self._spread]

    def _view(self) -> list[Any]:
        """Give what the model takes for its caches, one a layer."""
        lengths = [group.lengths() for group in self.groups]
        offset = lengths[0].array if len(lengths) == 1 else mx.concatenate([one.array for one in lengths])
        known = [
            None if group.seats[0].cache is not None else one for group, one in zip(self.groups, lengths, strict=True)
        ]
        layers: list[list[Any]] = [group.seats[0].cache or group.shelves for group in self.groups]
        return [
            self._layer([_Span(layer, own) for layer, own in zip(of, known, strict=True)], offset)
            for of in zip(*layers, strict=True)
        ]

    def _layer(self, spans: list[_Span], offset: mx.array) -> Any:
        first = spans[0].layer
        if isinstance(first, States) or hasattr(first, "cache"):
            return _Remembering(spans, self._cuts)
        if hasattr(first, "caches"):
            inner = zip(*([_Span(layer, span.lengths) for layer in span.layer.caches] for span in spans), strict=True)
            return _Nested([self._layer(list(of), offset) for of in inner])
        return _Attending(spans, self._cuts, offset)


class Batch:
    """Rows in decode. All methods belong to the engine's thread."""

    def __init__(
        self, model: LanguageModel, together: BatchMode = BatchMode.ALL, multiple: int = 1, short: int = _SHORT
    ) -> None:
        """The rows of a group are filled up to a multiple of `multiple`, with copies that nobody reads. Rows of fewer
        than `short` tokens are alike."""
        self._model = model
        self.together = together
        """How far the rows share a pass."""
        self._multiple = multiple
        self._short = short
        self._groups: list[_BatchGroup] = []
        self._passes: list[_Pass] = []
        self._ran: list[_Pass] = []  # in the last step, without an error
        self.seats: list[BatchSlot] = []
        """The rows, in the order of tokens and logits."""

    @property
    def outgrown(self) -> bool:
        """Whether a row has become too long for its group, so that `reseat` would move it."""
        return any(self._key(seat) != group.key for group in self._groups for seat in group.seats)

    def reseat(self, seats: Sequence[BatchSlot]) -> None:
        """Hold exactly these rows from now on; the order is the batch's own. Raises Unbatchable."""
        members: dict[Any, list[BatchSlot]] = {}
        for seat in seats:
            members.setdefault(self._key(seat), []).append(seat)
        here = {id(seat) for seat in seats}
        for group in self._groups:
            for seat in group.seats:
                if id(seat) in here and self._key(seat) != group.key:
                    seat.cache = group.take(seat)
        groups = {group.key: group for group in self._groups}
        self._groups = [groups.get(key) or _BatchGroup(key) for key in members]
        for group in self._groups:
            own = members[group.key]
            group.reseat(own, -len(own) % self._multiple if len(own) > 1 else 0)
        joint = [group for group in self._groups if self.together is BatchMode.ALL and group.key[0]]
        self._passes = [_Pass(of) for of in [joint, *([group] for group in self._groups if group not in joint)] if of]
        self.seats = [seat for one in self._passes for seat in one.seats]

    def _key(self, seat: BatchSlot) -> tuple[Any, ...]:
        """Give what the rows of a group have in common; the empty kind is that of a row that is on its own."""
        # A cache without content has no shape that a shelf could take over.
        if self.together is BatchMode.NONE or seat.apart or not seat.length:
            return (), id(seat)
        return seat.kind, max(seat.length, self._short - 1).bit_length()

    def take(self, seat: BatchSlot) -> list[Any]:
        """Give a row's own cache; the row stays until the next `reseat`."""
        return next(group for group in self._groups if seat in group.seats).take(seat)

    def first_layers(self) -> list[Any]:
        """Give what the first third of the last pass comes to, for `mx.async_eval`: what a layer there has written."""
        return [one.first_layers() for one in self._ran]

    def forward(self, tokens: mx.array) -> tuple[mx.array | None, list[tuple[list[BatchSlot], Exception]]]:
        """Read one token a row, (rows,); gives lazy logits (rows, vocab_size), and what was raised by whose pass.

        The logits lack the rows of passes that raised: those rows' caches are in no known state.
        """
        logits: list[mx.array] = []
        failed: list[tuple[list[BatchSlot], Exception]] = []
        start = 0
        self._ran = []
        for one in self._passes:
            own = tokens if len(self._passes) == 1 else tokens[start : start + len(one.seats)]
            start += len(one.seats)
            try:
                logits.append(one.run(self._model, own))
            except Exception as error:
                failed.append((one.seats, error))
            else:
                self._ran.append(one)
        if len(logits) > 1:
            return mx.concatenate(logits), failed
        return (logits[0] if logits else None), failed
