"""Proposes what a model's own multi-token-prediction head says would come next.

The head has read what the model has: its keys and values lie in the rows' caches, see `head`. So there is no text to be
read first, and a guess costs one pass over one layer and the layer that makes logits, for all rows at once. What the
head writes for its guesses lies behind the rows' ends, where the model's next pass writes. A guess is the likeliest
token.
"""

from collections.abc import Sequence

import mlx.core as mx

from orchard.engine.batching.batch import Batch, BatchSlot, Pass
from orchard.engine.batching.decode import Row
from orchard.engine.batching.head_cache import HeadView
from orchard.engine.drafting.head import HeadedModel
from orchard.engine.speculation.acceptance import EXPECTED_OF_DRAFT, ModelAcceptance, RowAcceptance
from orchard.engine.speculation.interface import SpeculatingRow
from orchard.engine.speculation.proposal import Proposal

_AGAIN = 500  # promises without a guess, after which guesses are worth a try however bad the last ones were
_BEHIND_ALL = 2**30  # tokens: mlx-vlm's layers cut a mask behind the cache's offset


class _HeadRow:
    """What was guessed of one row."""

    def __init__(self, row: SpeculatingRow, acceptance: RowAcceptance) -> None:
        self.row = row
        self.acceptance = acceptance
        self._seen = len(row.tokens)

    def take(self) -> None:
        """Compare the last guesses with the tokens that have come."""
        new = self.row.tokens[self._seen :]
        self._seen += len(new)
        self.acceptance.take(new)


class MtpProposer:
    """The head of one engine's model. All calls come from the engine's thread."""

    def __init__(self, model: HeadedModel, batch: Batch, most: int) -> None:
        """`batch`: the model's rows in decode. `most`: guesses a step for each row."""
        self._model = model
        self._batch = batch
        self._most = most
        self._acceptance = ModelAcceptance()
        self._rows: dict[SpeculatingRow, _HeadRow] = {}
        self._unused = 0  # promises since the last guess

    def open(self, row: SpeculatingRow) -> None:
        """See `Drafter`."""
        self._rows[row] = _HeadRow(row, RowAcceptance(self._acceptance))

    def close(self, row: SpeculatingRow) -> None:
        """See `Drafter`."""
        self._rows.pop(row).take()

    def promise(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        """See `Drafter`. Rows that have not been in a pass together yet are promised nothing."""
        self._unused += 1
        here = set(self._batch.slots)
        return [
            self._promise(self._rows[row], min(count, self._most)) if _slot(row) in here else None
            for row, count in zip(rows, most, strict=True)
        ]

    def _promise(self, mine: _HeadRow, most: int) -> Proposal | None:
        mine.take()
        if self._model.broken:
            return None
        chances = mine.acceptance.chances("mtp", most)
        if self._unused > _AGAIN:
            chances = [EXPECTED_OF_DRAFT ** (place + 1) for place in range(most)]
        return Proposal("mtp", [], chances)

    def read(self, rows: Sequence[SpeculatingRow]) -> int:
        """See `Drafter`: the head has read all that the model has."""
        return 0

    def draft(self, rows: Sequence[SpeculatingRow], counts: Sequence[int]) -> list[list[int]]:
        """See `Drafter`."""
        self._unused = 0
        wanted = {_slot(row): row for row in rows}
        found: dict[SpeculatingRow, list[int]] = {}
        for one in self._batch.passes:
            own = [wanted.get(slot) for slot in one.slots]
            if any(own):
                guesses = _listed(self._guess(one, own, max(counts)))
                found |= {row: tokens for row, tokens in zip(own, guesses, strict=True) if row}
        given = [found.get(row, [])[:count] for row, count in zip(rows, counts, strict=True)]
        for row, tokens in zip(rows, given, strict=True):
            self._rows[row].acceptance.propose("mtp", tokens)
        return given

    def _guess(self, one: Pass, rows: Sequence[SpeculatingRow | None], most: int) -> mx.array:
        """Return guesses (rows, most) for the rows of a pass; what it has for None is worth nothing."""
        unread = [list(row.tokens[slot.length :]) if row else [0] for row, slot in zip(rows, one.slots, strict=True)]
        behind = [max(len(tokens) - 1, 0) for tokens in unread]
        states, kept = one.layers(-2), one.layers(-1)
        before = mx.concatenate([layer.behind(of) for layer, of in zip(states, one.by_group(behind), strict=True)])
        tokens = one.spread(mx.array([of[-1] if of else 0 for of in unread], mx.uint32))
        guesses: list[mx.array] = []
        try:
            for place in range(most):
                places = one.begin_ahead([count + place for count in behind])
                view = HeadView(kept, one.bounds, places)
                view.offset = _BEHIND_ALL  # type: ignore[assignment]
                before = self._model.head.read(tokens[:, None], before, view, places + one.position_deltas())
                guesses.append(self.pick(rows, place, one.real(self._model.head.logits(before)[:, -1])))
                tokens = one.spread(guesses[-1])
        finally:
            one.end_ahead(kept)
        return mx.stack(guesses, axis=1)

    def pick(self, rows: Sequence[SpeculatingRow | None], place: int, logits: mx.array) -> mx.array:
        """Return the guesses (rows,) of one place from logits (rows, vocab_size): the likeliest tokens."""
        return mx.argmax(logits, axis=-1).astype(mx.uint32)

    def limit(self, cache_bytes: int) -> int:
        """See `Drafter`: what the head keeps of cached prompts lies with the model's."""
        return cache_bytes


def _slot(row: SpeculatingRow) -> BatchSlot:
    assert isinstance(row, Row), "only rows in decode have a head's keys and values"
    return row.slot


def _listed(guesses: mx.array) -> list[list[int]]:
    listed: list[list[int]] = guesses.tolist()  # type: ignore[assignment]
    return listed
