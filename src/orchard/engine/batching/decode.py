"""The rows that decode: one forward pass and one draw a step for all, the next launched before the last is read.

Where a row has a grammar, what it may draw depends on its last token. Then the first part of the pass is launched and
the last tokens are read; the masks are computed while the rest is launched, and the next step begins with the draw.
"""

from collections import deque
from collections.abc import Sequence

import mlx.core as mx

from orchard.engine.batching.batch import Batch, BatchSlot
from orchard.engine.job import Drawn, EndReason, Job, Sample
from orchard.engine.kv_cache import Cache
from orchard.engine.kv_store import KVStore
from orchard.engine.model import LanguageModel
from orchard.engine.sampling.grammar import Computing, GrammarState, Masks
from orchard.engine.sampling.sampler import Draw, Sampler


class Row:
    """One choice of a job. `tokens`: the prompt and what has been read of the answer."""

    def __init__(self, job: Job, choice: int, tokens: list[int], seat: BatchSlot) -> None:
        """`seat` holds all tokens but the last one. More tokens than the prompt: a row that was preempted goes on."""
        self.job = job
        self.choice = choice
        self.tokens = tokens
        self.seat = seat
        self.launched = len(tokens) - len(job.prompt)
        self.ended = False
        self.kept = job.embed is None
        self.follower = GrammarState(job.grammar, self.generated) if job.grammar else None
        if self.follower:
            self.follower.left = self.left

    @property
    def generated(self) -> list[int]:
        """What has been read of the answer."""
        return self.tokens[len(self.job.prompt) :]

    @property
    def left(self) -> int:
        """How many tokens are still to be read at most."""
        return self.job.max_tokens - (len(self.tokens) - len(self.job.prompt))

    @property
    def wants_more(self) -> bool:
        """Whether another token is to be launched."""
        return not self.ended and self.launched < self.job.max_tokens

    def take(self, sample: Sample, eos: frozenset[int]) -> Drawn:
        """Read the next token."""
        self.tokens.append(sample.token)
        reason: EndReason | None = None
        if sample.token in eos:
            reason = "stop"
        elif not self.left:
            reason = "length"
        self.ended = reason is not None
        if self.follower and not self.ended:
            self.follower.take_later(sample.token)
            self.follower.left = self.left
        return Drawn(self.job.id, self.choice, sample, reason)


class Rows:
    """All rows in decode. Between two steps at most one token of each is launched and not read yet, so that a row's
    tokens are what its cache holds, or one more."""

    def __init__(self, model: LanguageModel, batch: Batch, store: KVStore) -> None:
        self._model = model
        self._batch = batch
        self._store = store
        self._sampler = Sampler(model.vocab_size)
        self._masks = Masks(model.vocab_size)
        self._seated: list[Row] = []  # in the batch's and the sampler's order
        self._joining: list[Row] = []
        self._inputs: mx.array | None = None  # (rows,): the next token of each seated row
        self._unread: deque[tuple[list[Row], Draw]] = deque()
        self._bound: tuple[mx.array, Computing] | None = None  # the seated rows' logits, to be drawn by their grammars
        self._stale = False  # the batch still holds rows that are gone, or holds them in another form

    @property
    def idle(self) -> bool:
        """Whether a step would do nothing."""
        return not (self._seated or self._joining or self._unread or self._stale)

    def join(self, row: Row) -> None:
        """Let a row decode from the next step on."""
        self._joining.append(row)

    def leave(self, row: Row) -> None:
        """Stop a row; nothing more of it is delivered."""
        row.ended = True
        if row in self._joining:
            self._joining.remove(row)

    def step(self) -> tuple[list[Drawn], list[tuple[list[Row], Exception]]]:
        """Launch the next token of every row and read one that was launched before."""
        failed = self._draw_bound()
        logits, broken = self._forward()
        drawn: list[Drawn] = []
        if logits is not None and any(row.follower for row in self._seated):
            # On a fast GPU, launching takes the host as long as computing takes the device: neither may wait.
            mx.async_eval(self._batch.first_layers())  # type: ignore[no-untyped-call]
            drawn = self.read()
            followers = [None if row.ended else row.follower for row in self._seated]
            self._bound = logits, self._masks.begin(followers)
            mx.async_eval(logits)  # type: ignore[no-untyped-call]
        elif logits is not None:
            self._draw(logits, None)
        if len(self._unread) > 1 or not self._seated:
            drawn += self.read()
        return drawn, failed + broken

    def read(self) -> list[Drawn]:
        """Wait for the oldest token of every row that has been launched and not read."""
        if not self._unread:
            return []
        rows, draw = self._unread.popleft()
        return [
            row.take(sample, self._model.eos_token_ids)
            for row, sample in zip(rows, draw.read(), strict=True)
            if not row.ended
        ]

    def _forward(self) -> tuple[mx.array | None, list[tuple[list[Row], Exception]]]:
        """Read the next token of every row; gives lazy logits (rows, vocab_size) of those whose pass did not raise."""
        self._settle()
        staying = [row for row in self._seated if row.wants_more]
        if self._stale or self._joining or len(staying) < len(self._seated) or self._batch.outgrown:
            self._stale = False
            self._reseat(staying)
        if not self._seated:
            return None, []
        assert self._inputs is not None
        logits, broken = self._batch.forward(self._inputs)
        failed = [([row for row in self._seated if row.seat in seats], error) for seats, error in broken]
        if failed:
            self._drop([row for rows, _ in failed for row in rows])
        if logits is None:
            self._inputs = None
        return logits, failed

    def _draw_bound(self) -> list[tuple[list[Row], Exception]]:
        """Draw what the last step has left to this one.

        A row that can't go on by its grammar ends here.
        """
        if self._bound is None:
            return []
        logits, computing = self._bound
        self._bound = None
        allowed, broken = computing.result()
        failed: list[tuple[list[Row], Exception]] = []
        for place, error in broken.items():
            self._seated[place].ended = True
            failed.append(([self._seated[place]], error))
        self._draw(logits, allowed)
        return failed

    def _draw(self, logits: mx.array, allowed: mx.array | None) -> None:
        draw = self._sampler.draw(logits, allowed)
        draw.launch()
        self._inputs = draw.token
        self._unread.append((self._seated, draw))
        for row in self._seated:
            row.launched += 1

    def _settle(self) -> None:
        """Quantise the rows that have become long enough for it."""
        for row in self._seated:
            if self._store.settles_at(row.seat.length) and "QuantizedKVCache" not in row.seat.kind:
                cache = self._batch.take(row.seat)
                self._keep(row, cache)
                row.seat.replace(self._store.settled(cache, row.seat.length))
                self._stale = True

    def _keep(self, row: Row, cache: Cache) -> None:
        if row.kept:
            self._store.save(row.tokens[: row.seat.length], cache)

    def _reseat(self, staying: list[Row]) -> None:
        """Seat the rows that stay and those that join, in the order that the batch finds best."""
        for row in self._seated:
            if not row.wants_more:
                self._keep(row, self._batch.take(row.seat))
        joining, self._joining = self._joining, []
        rows = staying + joining
        self._batch.reseat([row.seat for row in rows])
        place = {id(seat): index for index, seat in enumerate(self._batch.seats)}
        order = sorted(range(len(rows)), key=lambda index: place[id(rows[index].seat)])
        seated = [self._seated.index(row) for row in staying]
        self._draw_for(seated, joining, order)
        sources = [*seated, *range(len(self._seated), len(self._seated) + len(joining))]
        self._feed([sources[index] for index in order], joining)
        self._seated = [rows[index] for index in order]

    def _draw_for(self, seated: Sequence[int], joining: list[Row], order: Sequence[int]) -> None:
        self._sampler.keep(seated)
        for row in joining:
            self._sampler.add(row.job.params, row.job.prompt, row.choice, row.generated)
        self._sampler.keep(order)

    def _feed(self, sources: Sequence[int], joining: list[Row]) -> None:
        """Put the next tokens in the rows' order; sources count the seated rows, then those that join."""
        if not sources:
            self._inputs = None
            return
        parts = [] if self._inputs is None else [self._inputs]
        if joining:
            parts.append(mx.array([row.tokens[-1] for row in joining], mx.uint32))
        together = mx.concatenate(parts) if len(parts) > 1 else parts[0]
        self._inputs = together[mx.array(list(sources), mx.uint32)]

    def _drop(self, rows: list[Row]) -> None:
        """Forget rows whose forward pass raised; the others have taken their step."""
        for row in rows:
            row.ended, row.kept = True, False
        stay = [index for index, row in enumerate(self._seated) if not row.ended]
        self._sampler.keep(stay)
        self._seated = [self._seated[index] for index in stay]
        self._stale = True
