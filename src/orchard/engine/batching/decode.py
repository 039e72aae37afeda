"""Decode: one forward and one sampling call per step for all rows; a step is launched before the last one is read,
unless that is the first one of all rows.

If a row has a grammar, the tokens that it may draw depend on its last token. Then a step launches the first part of the
pass, reads the last tokens, and launches the rest while the masks are computed; the next step begins with the draw.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, wait

import mlx.core as mx

from orchard.engine.batching.batch import Batch, BatchSlot, SlotFailures
from orchard.engine.batching.job import DrawnToken, EndReason, Job
from orchard.engine.batching.kv_cache import Cache, KVStore
from orchard.engine.batching.model import LanguageModel
from orchard.engine.prefix_cache.values import CacheScope
from orchard.engine.sampling.grammar import GrammarError, MaskFuture, Masks
from orchard.engine.sampling.params import Sample
from orchard.engine.sampling.sampler import Draw, Sampler, ShareTokens

Failures = list[tuple[list["Row"], Exception]]


class Row:
    """One choice of a job. `tokens`: the prompt and the answer's tokens that have been read from the device."""

    def __init__(
        self, job: Job, choice: int, tokens: list[int], slot: BatchSlot, logits: mx.array | None = None
    ) -> None:
        """`slot` holds all `tokens` but the last or, if the `logits` (1, vocab_size) after them are known, all of them.

        If there are more than the prompt's, the row continues an answer.
        """
        self.job = job
        self.choice = choice
        self.tokens = tokens
        self.slot = slot
        self.logits = logits
        """The logits of the row's first draw, until its prompt is saved; None: the draw needs a pass."""
        self.launched_tokens = len(tokens) - len(job.prompt)
        self.ended = False
        self.cacheable = True
        self.grammar = job.grammar.begin(self.answer_tokens) if job.grammar else None
        if self.grammar:
            self.grammar.tokens_left = self.tokens_left

    @property
    def answer_tokens(self) -> list[int]:
        """The answer's tokens that have been read from the device."""
        return self.tokens[len(self.job.prompt) :]

    @property
    def tokens_left(self) -> int:
        """How many more tokens the answer may get, including launched ones that have not been read."""
        return self.job.max_tokens - (len(self.tokens) - len(self.job.prompt))

    @property
    def prompt_length(self) -> int:
        """The number of prompt tokens."""
        return len(self.job.prompt)

    @property
    def prediction(self) -> Sequence[int]:
        """The tokens that the caller expects in the answer."""
        return self.job.prediction

    @property
    def cache_scope(self) -> CacheScope:
        """Whose recent answers the row may use, and who may use its own."""
        return self.job.cache_scope

    @property
    def unread_tokens(self) -> list[int]:
        """The tokens that the cache lacks, if no token is launched: usually the last one."""
        return self.tokens[self.slot.length :]

    @property
    def wants_more(self) -> bool:
        """Whether the row needs another token to be launched."""
        return not self.ended and self.launched_tokens < self.job.max_tokens

    def take(self, sample: Sample, eos: frozenset[int]) -> DrawnToken:
        """Append the next token; return it with the reason if the row ends with it."""
        self.tokens.append(sample.token)
        reason: EndReason | None = None
        if sample.token in eos:
            reason = "stop"
        elif not self.tokens_left:
            reason = "length"
        self.ended = reason is not None
        if self.grammar and not self.ended:
            self.grammar.due.append(sample.token)
            self.grammar.tokens_left = self.tokens_left
        return DrawnToken(self.job.id, self.choice, sample, reason)


class Rows:
    """All rows in decode. Between two steps at most one token of each row is launched and not read. So `Row.tokens`
    are the tokens in the row's cache, or one more."""

    def __init__(
        self, model: LanguageModel, batch: Batch, store: KVStore, share_tokens: ShareTokens | None = None
    ) -> None:
        """`share_tokens`: see `Sampler`."""
        self._model = model
        self._batch = batch
        self._store = store
        self._share_tokens = share_tokens
        self._sampler = Sampler(model.vocab_size, share_tokens)
        self._masks = Masks(model.vocab_size)
        self._active: list[Row] = []  # in the batch's and the sampler's order
        self._joining: list[Row] = []
        self._starting: list[Row] = []  # rows that have the logits of their first draw; then they join the batch
        self._inputs: mx.array | None = None  # (rows,): the next token of each active row
        self._unread: deque[tuple[list[Row], Draw]] = deque()
        self._masked_logits: tuple[mx.array, MaskFuture] | None = (
            None  # the active rows' logits and masks, not drawn yet
        )
        self._stale = False  # the batch must be arranged again: rows have left or changed their caches
        self.launched_draws = 0
        """How many draws have been launched, of those that a later step reads."""
        self.read_draws = 0
        """How many of them have been read."""

    @property
    def has_unread_draws(self) -> bool:
        """Whether there are launched tokens that have not been read."""
        return bool(self._unread or self._masked_logits)

    @property
    def is_idle(self) -> bool:
        """Whether a step would have nothing to do."""
        return not (self._active or self._joining or self._starting or self._unread or self._stale)

    def join(self, row: Row) -> None:
        """Let a row decode from the next step on."""
        (self._joining if row.logits is None else self._starting).append(row)

    def leave(self, row: Row) -> None:
        """Stop a row; none of its later tokens are delivered."""
        row.ended = True
        if row in self._joining:
            self._joining.remove(row)
        if row in self._starting:
            self._starting.remove(row)
            self._save_prompt(row)

    def save_prompts(self) -> None:
        """Save the prompts of the rows that drew their first tokens in the last step. A step begins with this.

        Their first tokens don't wait for it, and the prompts that are looked up next find them.
        """
        for row in self._active:
            if row.logits is not None:
                self._save_prompt(row)

    def drop_all(self) -> None:
        """Forget all rows and what was computed for them, without reading it."""
        if self._masked_logits:
            wait([self._masked_logits[1]])  # until then another thread uses the grammars' states
        self._batch.drop_all()
        self._sampler = Sampler(self._model.vocab_size, self._share_tokens)
        self._active, self._joining, self._starting, self._inputs = [], [], [], None
        self._unread.clear()
        self._masked_logits, self._stale, self.read_draws = None, False, self.launched_draws

    def disturb(self) -> None:
        """Note that the device got other work (prefill), so that the next step's time doesn't count."""

    def step(self) -> tuple[list[DrawnToken], Failures]:
        """Launch the next token of every row and read those that were launched before; return them, and failures."""
        failed = self._draw_with_masks()
        logits, broken = self._forward()
        logits = self._start(logits)
        drawn: list[DrawnToken] = []
        if logits is not None and any(row.grammar for row in self._active):
            # On a fast GPU, the host takes as long to launch as the device to compute: neither may wait.
            mx.async_eval(self._batch.first_layers())  # type: ignore[no-untyped-call]
            drawn = self.read()
            grammars = [None if row.ended else row.grammar for row in self._active]
            self._masked_logits = logits, self._masks.begin(grammars)
            mx.async_eval(logits)  # type: ignore[no-untyped-call]
        elif logits is not None:
            self._draw(logits, None)
        # A first token doesn't wait until the next pass is launched, unless other rows would have to.
        if len(self._unread) > 1 or all(row.launched_tokens == 1 for row in self._active):
            drawn += self.read()
        return drawn, failed + broken

    def read(self) -> list[DrawnToken]:
        """Wait for the oldest draw that was launched and not read; return one token of each row that has not ended."""
        if not self._unread:
            return []
        rows, draw = self._unread.popleft()
        samples = draw.read()
        self.read_draws += 1
        return [
            row.take(sample, self._model.eos_token_ids)
            for row, sample in zip(rows, samples, strict=True)
            if not row.ended
        ]

    def take_grammar_failures(self) -> list[tuple[str, GrammarError]]:
        """Wait for the masks of the next draw; return the jobs whose grammars failed, which `step` then doesn't."""
        if self._masked_logits is None:
            return []
        logits, computing = self._masked_logits
        masks, broken = computing.result()
        known: MaskFuture = Future()
        known.set_result((masks, {}))
        self._masked_logits = logits, known
        return [(self._active[place].job.id, error) for place, error in broken.items()]

    def _forward(self) -> tuple[mx.array | None, Failures]:
        """Launch a pass over every row's next token; return lazy logits (rows, vocab_size), and failures.

        The logits lack rows whose pass raised.
        """
        self._settle()
        if not self._active:
            return None, []
        assert self._inputs is not None
        logits, broken = self._batch.forward(self._inputs)
        failed = self._drop_failed(broken)
        if logits is None:
            self._inputs = None
        return logits, failed

    def _start(self, logits: mx.array | None) -> mx.array | None:
        """Let the starting rows take part in this step's draw, after those of `logits`; return the logits of all.

        They join the batch with their first tokens in the next step.
        """
        starting, self._starting = self._starting, []
        if not starting:
            return logits
        known = [] if logits is None else [logits]
        for row in starting:
            assert row.logits is not None
            known.append(row.logits)
            self._sampler.add(row.job.params, row.job.prompt, row.choice, row.answer_tokens)
        self._active = self._active + starting
        self._stale = True
        return mx.concatenate(known) if len(known) > 1 else known[0]

    def _drop_failed(self, broken: SlotFailures) -> Failures:
        failed = [([row for row in self._active if row.slot in slots], error) for slots, error in broken]
        if failed:
            self._drop([row for rows, _ in failed for row in rows])
        return failed

    def _settle(self) -> None:
        """Prepare the rows for the next pass: quantise those that are due, and arrange the batch if it must change."""
        for row in self._active:
            if self._store.quantizes_at(row.slot.length):
                cache = self._batch.extract(row.slot)
                self._save(row, cache)
                row.slot.replace(self._store.quantize_if_due(cache, row.slot.length))
                self._stale = True
        staying = [row for row in self._active if row.wants_more]
        if self._stale or self._joining or len(staying) < len(self._active) or self._batch.is_outgrown:
            self._stale = False
            self._arrange(staying)

    def _draw_with_masks(self) -> Failures:
        """Draw the tokens of rows with grammars from the last step's logits; return the rows whose grammar failed."""
        if self._masked_logits is None:
            return []
        logits, computing = self._masked_logits
        self._masked_logits = None
        masks, broken = computing.result()
        failed: Failures = []
        for place, error in broken.items():
            self._active[place].ended = True
            failed.append(([self._active[place]], error))
        self._draw(logits, masks)
        return failed

    def _draw(self, logits: mx.array, masks: mx.array | None) -> None:
        draw = self._sampler.draw(logits, masks)
        draw.launch()
        self._inputs = draw.token
        self._unread.append((self._active, draw))
        self.launched_draws += 1
        for row in self._active:
            row.launched_tokens += 1

    def _save(self, row: Row, cache: Cache, beyond: int = 0) -> None:
        """Save a row's cache, without its last `beyond` tokens, in the prefix cache."""
        if row.cacheable:
            tokens = row.tokens[: row.slot.length - beyond]
            self._store.save(tokens, cache, row.job.spans, row.job.cache_scope, beyond)

    def _save_prompt(self, row: Row) -> None:
        """Save what a row holds before its first step: as much of it as the same prompt could use."""
        row.logits = None
        self._save(row, self._batch.extract(row.slot), beyond=1)

    def _arrange(self, staying: list[Row]) -> None:
        """Form the batch of the rows that stay and those that join, in the batch's order; save rows that leave."""
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
            self._sampler.add(row.job.params, row.job.prompt, row.choice, row.answer_tokens)
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
        """Drop rows whose forward pass raised; the other rows have taken their step."""
        for row in rows:
            row.ended, row.cacheable = True, False
        stay = [index for index, row in enumerate(self._active) if not row.ended]
        self._sampler.keep(stay)
        self._active = [self._active[index] for index in stay]
        self._stale = True
