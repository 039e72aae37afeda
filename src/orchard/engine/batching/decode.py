"""Decode: one forward pass and one sampling call per step for all rows; the next step starts before the last is read.

Where a row has a grammar, what it may draw depends on its last token. Then a step launches the first part of the pass,
reads the last tokens, and launches the rest while the masks are computed; the next step begins with the draw.
"""

from collections import deque
from collections.abc import Sequence

import mlx.core as mx

from orchard.engine.batching.batch import Batch, BatchSlot
from orchard.engine.batching.job import Drawn, EndReason, Job
from orchard.engine.batching.kv_cache import Cache, KVStore
from orchard.engine.batching.model import LanguageModel
from orchard.engine.sampling.grammar import Computing, GrammarState, Masks
from orchard.engine.sampling.params import Sample
from orchard.engine.sampling.sampler import Draw, Sampler

Failures = list[tuple[list["Row"], Exception]]


class Row:
    """One choice of a job. `tokens`: the prompt and what has been read of the answer."""

    def __init__(self, job: Job, choice: int, tokens: list[int], slot: BatchSlot) -> None:
        """`slot` holds all tokens but the last one. More tokens than the prompt: a row that was preempted goes on."""
        self.job = job
        self.choice = choice
        self.tokens = tokens
        self.slot = slot
        self.launched = len(tokens) - len(job.prompt)
        self.ended = False
        self.cacheable = True
        self.grammar = GrammarState(job.grammar, self.generated) if job.grammar else None
        if self.grammar:
            self.grammar.left = self.left

    @property
    def generated(self) -> list[int]:
        """What has been read of the answer."""
        return self.tokens[len(self.job.prompt) :]

    @property
    def left(self) -> int:
        """How many tokens are still to be read at most."""
        return self.job.max_tokens - (len(self.tokens) - len(self.job.prompt))

    @property
    def prompt_length(self) -> int:
        """How many of the tokens are the prompt's."""
        return len(self.job.prompt)

    @property
    def prediction(self) -> Sequence[int]:
        """The tokens that the caller expects in the answer."""
        return self.job.prediction

    @property
    def to_read(self) -> list[int]:
        """The tokens that the model has still to read, where none is launched: mostly the last one."""
        return self.tokens[self.slot.length :]

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
        if self.grammar and not self.ended:
            self.grammar.due.append(sample.token)
            self.grammar.left = self.left
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
        self._active: list[Row] = []  # in the batch's and the sampler's order
        self._joining: list[Row] = []
        self._inputs: mx.array | None = None  # (rows,): the next token of each active row
        self._unread: deque[tuple[list[Row], Draw]] = deque()
        self._bound: tuple[mx.array, Computing] | None = None  # the active rows' logits, to be drawn by their grammars
        self._stale = False  # the batch still holds rows that are gone, or holds them in another form

    @property
    def idle(self) -> bool:
        """Whether a step would do nothing."""
        return not (self._active or self._joining or self._unread or self._stale)

    def join(self, row: Row) -> None:
        """Let a row decode from the next step on."""
        self._joining.append(row)

    def leave(self, row: Row) -> None:
        """Stop a row; nothing more of it is delivered."""
        row.ended = True
        if row in self._joining:
            self._joining.remove(row)

    def disturb(self) -> None:
        """Note that the step under way does, or waits for, other work than the rows'."""

    def step(self) -> tuple[list[Drawn], Failures]:
        """Launch the next token of every row and read one that was launched before."""
        failed = self._draw_bound()
        logits, broken = self._forward()
        drawn: list[Drawn] = []
        if logits is not None and any(row.grammar for row in self._active):
            # On a fast GPU, launching takes the host as long as computing takes the device: neither may wait.
            mx.async_eval(self._batch.first_layers())  # type: ignore[no-untyped-call]
            drawn = self.read()
            grammars = [None if row.ended else row.grammar for row in self._active]
            self._bound = logits, self._masks.begin(grammars)
            mx.async_eval(logits)  # type: ignore[no-untyped-call]
        elif logits is not None:
            self._draw(logits, None)
        if len(self._unread) > 1 or not self._active:
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

    def _forward(self) -> tuple[mx.array | None, Failures]:
        """Read the next token of every row; return lazy logits (rows, vocab_size) of those whose pass did not raise."""
        self._settle()
        if not self._active:
            return None, []
        assert self._inputs is not None
        logits, broken = self._batch.forward(self._inputs)
        failed = self._drop_failed(broken)
        if logits is None:
            self._inputs = None
        return logits, failed

    def _drop_failed(self, broken: list[tuple[list[BatchSlot], Exception]]) -> Failures:
        failed = [([row for row in self._active if row.slot in slots], error) for slots, error in broken]
        if failed:
            self._drop([row for rows, _ in failed for row in rows])
        return failed

    def _settle(self) -> None:
        """Let the rows be arranged for the next pass."""
        for row in self._active:
            if self._store.quantizes_at(row.slot.length):
                cache = self._batch.extract(row.slot)
                self._save(row, cache)
                row.slot.replace(self._store.quantized_if_due(cache, row.slot.length))
                self._stale = True
        staying = [row for row in self._active if row.wants_more]
        if self._stale or self._joining or len(staying) < len(self._active) or self._batch.outgrown:
            self._stale = False
            self._arrange(staying)

    def _draw_bound(self) -> Failures:
        """Draw what the last step has left to this one.

        A row that can't go on by its grammar ends here.
        """
        if self._bound is None:
            return []
        logits, computing = self._bound
        self._bound = None
        allowed, broken = computing.result()
        failed: Failures = []
        for place, error in broken.items():
            self._active[place].ended = True
            failed.append(([self._active[place]], error))
        self._draw(logits, allowed)
        return failed

    def _draw(self, logits: mx.array, allowed: mx.array | None) -> None:
        draw = self._sampler.draw(logits, allowed)
        draw.launch()
        self._inputs = draw.token
        self._unread.append((self._active, draw))
        for row in self._active:
            row.launched += 1

    def _save(self, row: Row, cache: Cache) -> None:
        if row.cacheable:
            self._store.save(row.tokens[: row.slot.length], cache, row.job.spans)

    def _arrange(self, staying: list[Row]) -> None:
        """Let the rows that stay and those that join decode, in the order that the batch finds best."""
        for row in self._active:
            if not row.wants_more:
                self._save(row, self._batch.extract(row.slot))
        joining, self._joining = self._joining, []
        rows = staying + joining
        self._batch.arrange([row.slot for row in rows])
        place = {row.slot: index for index, row in enumerate(rows)}
        order = [place[slot] for slot in self._batch.slots]
        stay = [self._active.index(row) for row in staying]
        self._sampler.keep(stay)
        for row in joining:
            self._sampler.add(row.job.params, row.job.prompt, row.choice, row.generated)
        self._sampler.keep(order)
        sources = [*stay, *range(len(self._active), len(self._active) + len(joining))]
        inputs = [] if self._inputs is None else [self._inputs]
        if joining:
            inputs.append(mx.array([row.tokens[-1] for row in joining], mx.uint32))
        self._inputs = None
        if rows:
            known = mx.concatenate(inputs) if len(inputs) > 1 else inputs[0]
            self._inputs = known[mx.array([sources[index] for index in order], mx.uint32)]
        self._active = [rows[index] for index in order]

    def _drop(self, rows: list[Row]) -> None:
        """Forget rows whose forward pass raised; the others have taken their step."""
        for row in rows:
            row.ended, row.cacheable = True, False
        stay = [index for index, row in enumerate(self._active) if not row.ended]
        self._sampler.keep(stay)
        self._active = [self._active[index] for index in stay]
        self._stale = True
