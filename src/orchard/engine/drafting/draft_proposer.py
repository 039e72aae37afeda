"""Proposes the tokens that a draft model guesses: a smaller model with the same vocabulary.

The draft has its own KV cache for each row. It reads a row's text only when its guesses are wanted, one piece per step,
and caches it for later prompts with the same beginning. All rows share its passes: the first reads the tokens that are
new since the last guesses, and each further pass makes one more guess. A guess is the most likely token.
"""

from collections.abc import Sequence

import mlx.core as mx

from orchard.engine.batching.batch import Batch, BatchSlot, SlotFailures
from orchard.engine.batching.kv_cache import KVStore, named_layers
from orchard.engine.batching.model import LanguageModel
from orchard.engine.speculation.acceptance import EXPECTED_OF_DRAFT, ModelAcceptance, RowAcceptance
from orchard.engine.speculation.interface import SpeculatingRow
from orchard.engine.speculation.proposal import DraftedTokens, Proposal

_MAX_UNREAD = 15  # unread tokens that a pass over all rows may read; more are read row by row
_PROMISES_UNTIL_RETRY = 500  # without a guess; then the draft is tried again, even if its last guesses were bad
_PROMISES_PER_UNREAD = 4  # more of them for each token that the draft would have to read first


class _DraftRow:
    """The draft's state of one row."""

    def __init__(self, row: SpeculatingRow, acceptance: RowAcceptance) -> None:
        self.row = row
        self.acceptance = acceptance
        self.slot: BatchSlot | None = None
        self._compared_tokens = len(row.tokens)
        self._cached_guesses: list[int] = []  # guesses whose keys and values are in the cache, behind the row's end

    def begin(self, store: KVStore) -> BatchSlot:
        """Return the row's slot; at the first call, make it from the draft's prefix cache."""
        if self.slot is None:
            found = store.find(list(self.row.tokens), scope=self.row.cache_scope)
            store.end_admission()
            self.slot = BatchSlot(found.cache, found.length)
            self.slot.batched = True
        return self.slot

    def take(self) -> None:
        """Compare the last guesses with the tokens that have come; right ones that the cache holds count as read."""
        new = self.row.tokens[self._compared_tokens :]
        self._compared_tokens += len(new)
        self.acceptance.take(new)
        if self.slot and self._cached_guesses and new:
            pairs = zip(self._cached_guesses, self.row.tokens[self.slot.length : -1], strict=False)
            right = [held == token for held, token in pairs]
            self.slot.length += right.index(False) if False in right else len(right)
            self._cached_guesses = []

    def drop(self) -> None:
        """Forget the cache, whose content is unknown."""
        self.slot, self._cached_guesses = None, []

    @property
    def unread_count(self) -> int:
        """How many tokens are unread before the last one; reading the last one gives the first guess."""
        return len(self.row.tokens) - 1 - (self.slot.length if self.slot else 0)

    def note_guesses(self, tokens: Sequence[int], held: int) -> None:
        """Note the guesses, and how many of them the cache holds."""
        self.acceptance.propose("draft", tokens)
        self._cached_guesses = list(tokens[:held])


class DraftProposer:
    """The draft model of one engine's model. All calls come from the engine's thread."""

    def __init__(
        self, model: LanguageModel, batch: Batch, store: KVStore, *, most: int, chunk: int, share: float
    ) -> None:
        """`batch`, `store`: the draft's own. `most`: guesses per row and step. `chunk`: tokens of texts read per step.
        `share`: the draft's share of the memory for cached prompts."""
        self._model = model
        self._batch = batch
        self._store = store
        self._most = most
        self._chunk = chunk
        self._share = share
        self._acceptance = ModelAcceptance()
        self._rows: dict[SpeculatingRow, _DraftRow] = {}
        self._just_read: set[SpeculatingRow] = set()
        self._unused = 0  # promises since the last guess

    def open(self, row: SpeculatingRow) -> None:
        """See `Drafter`."""
        self._rows[row] = _DraftRow(row, RowAcceptance(self._acceptance))

    def close(self, row: SpeculatingRow) -> None:
        """See `Drafter`; save the row's cache in the draft's prefix cache."""
        mine = self._rows.pop(row)
        mine.take()
        if mine.slot and mine.slot.length:
            self._store.save(row.tokens[: mine.slot.length], self._own_cache(mine.slot), scope=row.cache_scope)
            self._share_passes([slot for slot in self._batch.slots if slot is not mine.slot])

    def promise(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        """See `Drafter`."""
        self._unused += 1
        return [self._promise(self._rows[row], min(count, self._most)) for row, count in zip(rows, most, strict=True)]

    def _promise(self, mine: _DraftRow, most: int) -> Proposal | None:
        mine.take()
        if len(mine.row.tokens) < 2:
            return None  # an empty cache has no shapes that rows could share
        mine.begin(self._store)
        unread = mine.unread_count if mine.unread_count > _MAX_UNREAD else 0
        chances = mine.acceptance.chances("draft", most)
        if self._unused > _PROMISES_UNTIL_RETRY + _PROMISES_PER_UNREAD * unread:
            chances = [EXPECTED_OF_DRAFT ** (place + 1) for place in range(most)]
        return Proposal("draft", [], chances, unread)

    def read(self, rows: Sequence[SpeculatingRow]) -> int:
        """See `Drafter`."""
        self._just_read.clear()
        left = self._chunk
        for row in rows:
            mine = self._rows[row]
            slot = mine.begin(self._store)
            if left and (mine.unread_count > _MAX_UNREAD or not slot.length):
                stop = min(len(row.tokens) - 1, slot.length + left)
                slot.replace(self._own_cache(slot))
                self._read(slot, row.tokens[slot.length : stop])
                self._just_read.add(row)
                left -= stop - slot.length
                slot.length = stop
                if mine.unread_count <= _MAX_UNREAD:
                    self._store.save(row.tokens[:stop], self._own_cache(slot), scope=row.cache_scope)
        return self._chunk - left

    def _read(self, slot: BatchSlot, tokens: Sequence[int]) -> None:
        assert slot.cache is not None
        self._model.forward(mx.array([self._clip_tokens(tokens)], mx.uint32), slot.cache)
        mx.eval([layer.state for _, layer in named_layers(slot.cache)])

    def draft(self, rows: Sequence[SpeculatingRow], counts: Sequence[int]) -> DraftedTokens:
        """See `Drafter`. The guesses are computed when this returns, so that their time is measured separately."""
        ready = {row: self._rows[row] for row in rows if row not in self._just_read and self._is_ready(row)}
        if not ready:
            return DraftedTokens.from_lists([[] for _ in rows])
        self._unused = 0
        try:
            found = self._guess(list(ready.values()), max(counts))
        except Exception:
            for mine in ready.values():
                mine.drop()
            self._share_passes([])
            raise
        return DraftedTokens.from_lists(
            [found[row][:count] if row in found else [] for row, count in zip(rows, counts, strict=True)]
        )

    def _is_ready(self, row: SpeculatingRow) -> bool:
        mine = self._rows[row]
        return mine.slot is not None and mine.slot.length > 0 and 0 <= mine.unread_count <= _MAX_UNREAD

    def _guess(self, ready: Sequence[_DraftRow], most: int) -> dict[SpeculatingRow, list[int]]:
        """Guess `most` tokens for each of these rows, which share passes."""
        slots = {mine.slot: mine for mine in ready if mine.slot}
        self._share_passes(list(slots))
        rows = [slots[slot] for slot in self._batch.slots]
        logits = self._read_new([self._clip_tokens(mine.row.tokens[mine.slot.length :]) for mine in rows if mine.slot])
        guesses = [self.pick([mine.row for mine in rows], 0, logits)]
        restore = self._batch.mark()
        for place in range(1, most):
            logits = self._checked_logits(self._batch.forward(guesses[-1]))
            guesses.append(self.pick([mine.row for mine in rows], place, logits))
        held = restore()
        listed: list[list[int]] = mx.stack(guesses, axis=1).tolist()  # type: ignore[assignment]
        for mine, tokens in zip(rows, listed, strict=True):
            mine.note_guesses(tokens, most - 1 if held else 0)
        return {mine.row: tokens for mine, tokens in zip(rows, listed, strict=True)}

    def _read_new(self, texts: list[list[int]]) -> mx.array:
        """Read each row's new tokens; return logits (rows, vocab_size) for the first guesses."""
        if all(len(text) == 1 for text in texts):
            return self._checked_logits(self._batch.forward(mx.array([text[0] for text in texts], mx.uint32)))
        logits = self._checked_logits(self._batch.verify(texts, [1] * len(texts)))
        self._batch.keep([len(text) for text in texts])
        return logits[:, -1]

    def pick(self, rows: Sequence[SpeculatingRow], place: int, logits: mx.array) -> mx.array:
        """Return the guesses (rows,) at one place from logits (rows, vocab_size): the most likely tokens."""
        return mx.argmax(logits, axis=-1).astype(mx.uint32)

    @staticmethod
    def _checked_logits(ran: tuple[mx.array | None, SlotFailures]) -> mx.array:
        logits, failed = ran
        if failed:
            raise failed[0][1]
        assert logits is not None
        return logits

    def _share_passes(self, slots: list[BatchSlot]) -> None:
        """Let exactly these rows share passes; rows that leave get their own caches back."""
        open_slots = {mine.slot for mine in self._rows.values()}
        for slot in self._batch.slots:
            if slot not in slots and slot in open_slots:
                slot.replace(self._own_cache(slot))
        self._batch.arrange(slots)

    def _own_cache(self, slot: BatchSlot) -> list[object]:
        return self._batch.extract(slot) if slot.cache is None else slot.cache

    def _clip_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens, limited to the draft's vocabulary: the model's logits may be wider."""
        return [min(token, self._model.vocab_size - 1) for token in tokens]

    def drop_all(self) -> None:
        """See `Drafter`."""
        for mine in self._rows.values():
            mine.drop()
        self._batch.drop_all()
        self._store.drop_all()

    def limit(self, cache_bytes: int) -> int:
        """See `Drafter`."""
        own = int(self._share * cache_bytes)
        self._store.limit(own)
        return cache_bytes - own
