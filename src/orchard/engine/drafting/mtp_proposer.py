"""Proposes the tokens that a model's own multi-token-prediction (MTP) head guesses.

The head has read the same tokens as the model, and its keys and values are in the rows' caches (see `head`). So it has
no text to read first, and a guess for all rows takes a pass over one layer and the output layer. The head writes the
keys and values of its guesses behind the rows' ends, where the model's next pass overwrites them. A guess is the most
likely token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlx.core as mx

from orchard.engine.batching.batch import Batch, BatchSlot, Pass
from orchard.engine.batching.batched_cache import Lengths
from orchard.engine.batching.decode import Row
from orchard.engine.batching.head_cache import HeadView
from orchard.engine.batching.layer_kinds import BatchedKVCache
from orchard.engine.batching.traced_pass import TracedPasses
from orchard.engine.drafting.head import HeadedModel, PredictionHead
from orchard.engine.speculation.acceptance import EXPECTED_OF_DRAFT, ModelAcceptance, RowAcceptance
from orchard.engine.speculation.interface import SpeculatingRow
from orchard.engine.speculation.proposal import DraftedTokens, Proposal

_PROMISES_UNTIL_RETRY = 500  # without a guess; then the head is tried again, even if its last guesses were bad
_BEHIND_ALL = 2**30  # an offset beyond all tokens: mlx-vlm's layers cut a mask after the cache's offset


class _HeadRow:
    """The head's guesses for one row, and how often they were right."""

    def __init__(self, row: SpeculatingRow, acceptance: RowAcceptance) -> None:
        self.row = row
        self.acceptance = acceptance
        self._compared_tokens = len(row.tokens)

    def take(self) -> None:
        """Compare the last guesses with the tokens that have come."""
        new = self.row.tokens[self._compared_tokens :]
        self._compared_tokens += len(new)
        self.acceptance.take(new)


@dataclass(frozen=True)
class HeadGuesses:
    """`most` passes of a head, one after the other. `bounds`: where each group's rows begin and end."""

    head: PredictionHead
    bounds: list[int]
    most: int

    def __call__(
        self, tokens: mx.array, more: Sequence[mx.array], lengths: list[mx.array], groups: list[list[Any]]
    ) -> mx.array:
        """Return the most likely tokens (rows, most) after tokens (rows,), which are at the places `lengths`.

        `more`: the hidden state before each token, (rows, 1, width), and its position minus its place, (rows,).
        """
        before, deltas = more
        kept = [layer for [layer] in groups]
        guesses: list[mx.array] = []
        for place in range(self.most):
            offsets = [start + place for start in lengths]
            for layer, offset in zip(kept, offsets, strict=True):
                if isinstance(layer, BatchedKVCache):
                    layer.lengths = Lengths.for_trace(offset, layer.arrays[0].shape[2], 1, None)
            places = mx.concatenate(offsets)
            view = HeadView(kept, self.bounds, places)
            view.offset = _BEHIND_ALL  # type: ignore[assignment]
            before = self.head.read(tokens[:, None], before, view, places + deltas)
            tokens = mx.argmax(self.head.logits(before)[:, -1], axis=-1).astype(mx.uint32)
            guesses.append(tokens)
        return mx.stack(guesses, axis=1)


class MtpProposer:
    """The head of one engine's model. All calls come from the engine's thread."""

    def __init__(self, model: HeadedModel, batch: Batch, most: int) -> None:
        """`batch`: the model's rows in decode. `most`: guesses per row and step."""
        self._model = model
        self._batch = batch
        self._most = most
        self._acceptance = ModelAcceptance()
        self._rows: dict[SpeculatingRow, _HeadRow] = {}
        self._unused = 0  # promises since the last guess
        self._traced: dict[int, TracedPasses] = {}  # by the number of guesses

    def open(self, row: SpeculatingRow) -> None:
        """See `Drafter`."""
        self._rows[row] = _HeadRow(row, RowAcceptance(self._acceptance))

    def close(self, row: SpeculatingRow) -> None:
        """See `Drafter`."""
        self._rows.pop(row).take()

    def promise(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        """See `Drafter`. Return None for rows that are not in the batch yet."""
        self._unused += 1
        here = set(self._batch.slots)
        return [
            self._promise(self._rows[row], min(count, self._most)) if _slot_of(row) in here else None
            for row, count in zip(rows, most, strict=True)
        ]

    def _promise(self, mine: _HeadRow, most: int) -> Proposal | None:
        mine.take()
        if self._model.has_failed:
            return None
        chances = mine.acceptance.chances("mtp", most)
        if self._unused > _PROMISES_UNTIL_RETRY:
            chances = [EXPECTED_OF_DRAFT ** (place + 1) for place in range(most)]
        return Proposal("mtp", [], chances)

    def read(self, rows: Sequence[SpeculatingRow]) -> int:
        """See `Drafter`. The head has always read the same tokens as the model."""
        return 0

    def draft(self, rows: Sequence[SpeculatingRow], counts: Sequence[int]) -> DraftedTokens:
        """See `Drafter`. The device computes the guesses while the pass that verifies them is launched."""
        self._unused, traces = 0, self._trace_count
        wanted = {_slot_of(row): row for row in rows}
        made: list[mx.array] = []
        places: dict[SpeculatingRow, int] = {}
        for pass_ in self._batch.passes:
            own = [wanted.get(slot) for slot in pass_.slots]
            if any(own):
                first = sum(map(len, made))
                places |= {row: first + place for place, row in enumerate(own) if row}
                made.append(self.guess(pass_, own, max(counts)))
        found = mx.concatenate(made) if made[1:] else made[0]
        order = [places[row] for row in rows]
        if order != list(range(len(found))):
            found = found[mx.array(order)]
        mx.async_eval(found)  # type: ignore[no-untyped-call]
        return DraftedTokens(found, list(counts), partial(self._note_guesses, rows), self._trace_count > traces)

    @property
    def _trace_count(self) -> int:
        return sum(passes.trace_count for passes in self._traced.values())

    def _note_guesses(self, rows: Sequence[SpeculatingRow], tokens: Sequence[list[int]]) -> None:
        for row, guesses in zip(rows, tokens, strict=True):
            if row in self._rows:
                self._rows[row].acceptance.propose("mtp", guesses)

    def guess(self, pass_: Pass, rows: Sequence[SpeculatingRow | None], most: int) -> mx.array:
        """Return guesses (rows, most) for the rows of a pass; ignore those of rows that are None."""
        unread = [list(row.tokens[slot.length :]) if row else [0] for row, slot in zip(rows, pass_.slots, strict=True)]
        behind = [max(len(tokens) - 1, 0) for tokens in unread]
        states = zip(pass_.layers(-2), pass_.split(behind), strict=True)
        before = mx.concatenate([layer.states_after(counts) for layer, counts in states])
        tokens = pass_.to_rows(mx.array([row_tokens[-1] if row_tokens else 0 for row_tokens in unread], mx.uint32))
        given = tokens, [before, pass_.position_deltas()]
        return pass_.to_slots(self._run_head(pass_, HeadGuesses(self._model.head, pass_.bounds, most), *given, behind))

    def _run_head(
        self, pass_: Pass, forward: HeadGuesses, tokens: mx.array, more: list[mx.array], behind: Sequence[int]
    ) -> mx.array:
        """Let the head guess after tokens (rows,), which are `states_after[i]` places behind the rows' ends."""
        lengths = pass_.begin_ahead(behind, forward.most)
        kept = [[layer] for layer in pass_.layers(-1)]
        if self._batch.traced and all(slot.cache is None for slot in pass_.slots):
            traced = self._traced.setdefault(forward.most, TracedPasses())
            made = traced.run(forward, tokens, more, lengths, kept, at_once=True)
            if made is not None:
                return made
        try:
            return forward(tokens, more, [group_lengths.array for group_lengths in lengths], kept)
        finally:
            pass_.end_ahead([layer for [layer] in kept])

    def drop_all(self) -> None:
        """See `Drafter`. What the head has computed is in the rows' caches."""

    def limit(self, cache_bytes: int) -> int:
        """See `Drafter`. The model's cached prompts include the head's."""
        return cache_bytes


def _slot_of(row: SpeculatingRow) -> BatchSlot:
    assert isinstance(row, Row), "only rows in decode have a head's keys and values"
    return row.slot
