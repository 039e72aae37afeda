"""Decode with speculative decoding: a step may verify proposed tokens, so that a row gets several tokens in one pass.

Such a step first reads all launched tokens. One pass then reads each row's last token and the tokens proposed after it,
and a token is drawn after each of them. A row's seed and tokens determine its draws. So a proposed token is accepted if
it equals the draw at its place, and then the next draw is valid, too. The step waits for its draws, since the next one
must know how many are valid. All other steps are those of `decode`.
"""

from collections.abc import Callable, Sequence

import mlx.core as mx
from msgspec.structs import replace

from orchard.engine.batching.batch import Batch, VerifyMode
from orchard.engine.batching.decode import Failures, Row, Rows
from orchard.engine.batching.job import DrawnToken, Verification
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.model import LanguageModel
from orchard.engine.sampling.grammar import GrammarError, GrammarState
from orchard.engine.sampling.params import Sample
from orchard.engine.speculation.proposal import DraftedTokens, Proposal
from orchard.engine.speculation.speculation import Speculation
from orchard.engine.speculation.step_clock import StepClock

_MAX_LOGITS = 2**25  # in one pass: 128 MiB in float32


class VerifyError(Exception):
    """A pass with proposed tokens raised the error in `args`; without proposed tokens, it may not raise."""


class _StepProposals:
    """What a step verifies, by row.

    The host launches the pass that verifies a draft's guesses while the device still computes them. Until `read`, zeros
    stand for the guesses.
    """

    def __init__(
        self, by_row: dict[Row, Proposal], rows: Sequence[Row] = (), guesses: DraftedTokens | None = None
    ) -> None:
        """`guesses`: those for each of `rows`, which are then all rows in `by_row`."""
        self.by_row = by_row
        self._rows, self._guesses = rows, guesses
        if guesses:
            self._fill([[0] * count for count in guesses.counts])

    def tokens(self, row: Row) -> list[int]:
        """Return the tokens that are proposed for a row, or zeros until they are read."""
        return self.by_row[row].tokens if row in self.by_row else []

    def array(self, rows: Sequence[Row], given: Sequence[Sequence[int]]) -> mx.array | None:
        """Return each row's tokens, (rows, most), with the guesses in place of zeros; None: `given` has no zeros."""
        if self._guesses is None:
            return None
        of_row = {row: place for place, row in enumerate(self._rows)}
        guesses = mx.take(self._guesses.array, mx.array([of_row.get(row, 0) for row in rows]), axis=0)
        most = max(map(len, given))
        known = mx.array([[*tokens, *[0] * (most - len(tokens))] for tokens in given], mx.uint32)
        first = [len(tokens) - len(self.tokens(row)) for row, tokens in zip(rows, given, strict=True)]
        places = [
            [place + (most - start if start <= place < len(tokens) else 0) for place in range(most)]
            for start, tokens in zip(first, given, strict=True)
        ]
        return mx.take_along_axis(mx.concatenate([known, guesses], axis=1), mx.array(places), axis=1)

    def read(self) -> None:
        """Wait for the draft's guesses, if there are any, and replace the zeros."""
        if self._guesses:
            self._fill(self._guesses.read())

    def _fill(self, tokens: Sequence[list[int]]) -> None:
        pairs = zip(self._rows, tokens, strict=True)
        self.by_row = {
            row: replace(self.by_row[row].part(0, len(guesses)), tokens=guesses) for row, guesses in pairs if guesses
        }


class SpeculatingRows(Rows):
    """All rows in decode, with speculative decoding.

    After a step that verifies, a row's cache holds all of its tokens but the last one. A cache that can't drop single
    tokens may lack more: the next step, which then always verifies, reads them again.
    """

    def __init__(
        self, model: LanguageModel, batch: Batch, store: KVStore, speculation: Speculation, room: Callable[[], int]
    ) -> None:
        """`room` returns for how many tokens beyond one each row has memory in the current step."""
        super().__init__(model, batch, store)
        self._speculation = speculation
        self._room = room
        self._clock = StepClock()

    def join(self, row: Row) -> None:
        """See `Rows`."""
        super().join(row)
        if row.job.speculates:
            self._speculation.open(row)

    def leave(self, row: Row) -> None:
        """See `Rows`."""
        super().leave(row)
        self._speculation.close(row)

    def drop_all(self) -> None:
        """See `Rows`."""
        self._speculation.drop_all()
        super().drop_all()
        self._clock.disturb(2)

    def disturb(self) -> None:
        """See `Rows`."""
        self._clock.disturb(1)

    def step(self) -> tuple[list[DrawnToken], Failures]:
        """See `Rows`. A step that verifies proposed tokens reads all of its draws."""
        failed: Failures = []
        drawn: list[DrawnToken] = []
        if not self._starting and self._is_worth_reading():
            failed, drawn = self._draw_with_masks(), self.read()
            proposals = self._propose()
            if proposals.by_row or self._must_reread:
                held = self._hold_back()
                taken, broken = self._verify(proposals)
                self._joining += held
                return drawn + taken, failed + broken
        waits = self.has_unread_draws
        taken, broken = super().step()
        if (seconds := self._clock.lap()) and self._active:
            rows = len(self._active)
            self._speculation.controller.observe(rows, rows if waits else 0, seconds)
        return drawn + taken, failed + broken

    def _arrange(self, staying: list[Row]) -> None:
        self._clock.disturb(2)  # the next step waits for the arrays of this one
        for row in self._active:
            if not row.wants_more:
                self._speculation.close(row)
        super()._arrange(staying)

    def _drop(self, rows: list[Row]) -> None:
        self._clock.disturb(2)
        for row in rows:
            self._speculation.close(row)
        super()._drop(rows)

    @property
    def _must_reread(self) -> bool:
        """Whether a row must read tokens again, which only a step that verifies can do."""
        return not self.has_unread_draws and any(len(row.unread_tokens) > 1 for row in self._active)

    def _hold_back(self) -> list[Row]:
        """Return the joining rows that must wait: if rows verify alone, none may join one that reads tokens again."""
        must_reread = any(row.wants_more and len(row.unread_tokens) > 1 for row in self._active)
        held: list[Row] = []
        if must_reread and self._batch.verify_mode is VerifyMode.ALONE:
            held, self._joining = self._joining, held
        return held

    def _decoding_rows(self) -> list[Row]:
        return [row for row in self._active if row.wants_more] + self._joining

    def _step_limit(self, rows: list[Row]) -> int:
        if not rows or self._batch.verify_mode is VerifyMode.NEVER:
            return 0
        return min(self._speculation.controller.proposal_limit(len(rows)), self._room())

    def _row_limit(self, row: Row, rows: int, most: int) -> int:
        """Return how many tokens, up to `most`, may be proposed for a row; `rows`: how many rows decode."""
        slot = row.slot
        verifies = rows == 1 or self._batch.verify_mode is VerifyMode.TOGETHER
        if slot.isolated or not (slot.length and row.job.speculates and verifies):
            return 0
        before = len(row.unread_tokens)
        logits = _MAX_LOGITS // (rows * self._model.vocab_size)
        return max(
            0,
            min(
                most,
                row.tokens_left - 1,
                logits - 1,
                slot.max_verify_tokens - before,
                self._store.tokens_until_quantization(slot.length) - before,
            ),
        )

    def _is_worth_reading(self) -> bool:
        """Return whether it is worth waiting for all launched tokens in order to verify proposals after them."""
        if self._must_reread:
            return True
        if self._masked_logits:
            # Until then another thread uses the grammars' states. Every step waits for it, so this costs nothing.
            self._masked_logits[1].result()
        rows = self._decoding_rows()
        most = self._step_limit(rows)
        if not most or not self.has_unread_draws:
            return most > 0
        asked = [0 if row in self._joining else self._row_limit(row, len(rows), most) for row in rows]
        return any(self._speculation.controller.choose(self._speculation.propose(rows, asked, launched=True)))

    def _propose(self) -> "_StepProposals":
        """Ask for proposals; return what the controller chooses to verify."""
        rows = self._decoding_rows()
        most = self._step_limit(rows)
        if not most:
            return _StepProposals({})
        offers = self._speculation.propose(rows, [self._row_limit(row, len(rows), most) for row in rows])
        for row, offered in zip(rows, offers, strict=True):
            offered[:] = [self._cut_by_grammar(row, one) if one.tokens else one for one in offered]
        found = zip(rows, self._speculation.controller.choose(offers), strict=True)
        return self._draft_guesses({row: one for row, one in found if one and one.count})

    def _draft_guesses(self, chosen: dict[Row, Proposal]) -> "_StepProposals":
        """Let the draft guess for the rows whose draft proposals were chosen; return all proposals to verify."""
        rows = [row for row, one in chosen.items() if not one.tokens]
        if not rows:
            return _StepProposals(chosen)
        guesses = self._speculation.draft(rows, [chosen[row].count for row in rows])
        if guesses.compiled or max(guesses.counts) < max(one.count for one in chosen.values()):
            self._clock.disturb(1)  # kernels were compiled, or the pass is narrower than chosen, or texts were read
        if len(rows) == len(chosen) and not any(row.grammar for row in rows):
            return _StepProposals(chosen, rows, guesses)
        found = dict(chosen)
        for row, tokens in zip(rows, guesses.read(), strict=True):
            found[row] = self._cut_by_grammar(row, replace(chosen[row], tokens=tokens).part(0, len(tokens)))
        return _StepProposals({row: one for row, one in found.items() if one.tokens})

    @staticmethod
    def _cut_by_grammar(row: Row, proposal: Proposal) -> Proposal:
        """Return the beginning of a proposal that the row's grammar allows."""
        if not (row.grammar and proposal.tokens):
            return proposal
        return proposal.part(0, len(row.grammar.states_ahead(proposal.tokens)) - 1)

    def _verify(self, proposals: "_StepProposals") -> tuple[list[DrawnToken], Failures]:
        """Run one pass over each row's unread tokens and its proposed tokens, and draw a token after each."""
        for row in self._decoding_rows():
            if row.slot.length and not (row.slot.isolated or row.slot.batched):
                row.slot.batched = self._stale = True
        self._settle()
        if not self._active:
            return [], []
        given = [[*row.unread_tokens, *proposals.tokens(row)] for row in self._active]
        ahead = [1 + len(proposals.tokens(row)) for row in self._active]
        tried = {row for row, tokens in zip(self._active, given, strict=True) if len(tokens) > 1}
        rows, traces = len(given), self._batch.trace_count
        logits, broken = self._batch.verify(given, ahead, proposals.array(self._active, given))
        if self._batch.trace_count > traces:
            self._clock.disturb(1)  # later passes of these shapes are faster
        failed = [
            (failed_rows, VerifyError(error) if tried.intersection(failed_rows) else error)
            for failed_rows, error in self._drop_failed(broken)
        ]
        drawn: list[DrawnToken] = []
        if logits is None:
            self._inputs = None
        else:
            mx.async_eval(logits)  # type: ignore[no-untyped-call]
            drawn = self._draw_ahead(logits, failed, proposals)
        if seconds := self._clock.lap():
            self._speculation.controller.observe(rows, rows * max(map(len, given)), seconds)
        return drawn, failed

    def _draw_ahead(self, logits: mx.array, failed: Failures, proposals: "_StepProposals") -> list[DrawnToken]:
        """Draw tokens from logits (rows, n, vocab_size), and accept or reject proposed ones; add to `failed`."""
        rows = self._active
        allowed, stuck = self._masks_ahead([proposals.tokens(row) for row in rows], logits.shape[1])
        draws = self._sampler.draw_ahead(logits, allowed)
        draws.launch()
        samples = draws.read()
        proposals.read()
        drawn: list[DrawnToken] = []
        stand: list[int] = []
        keep: list[int] = []
        for place, row in enumerate(rows):
            tokens = proposals.tokens(row)
            given = [*row.unread_tokens, *tokens]
            possible, error = stuck.get(place, (1 + len(tokens), None))
            if error and not possible:
                row.ended = True
                failed.append(([row], error))
            taken = self._take_draws(row, samples[place][:possible], tokens)
            if tokens and taken:
                right = _common_prefix_length([one.sample.token for one in taken], tokens)
                proposal = proposals.by_row[row]
                taken[-1] = replace(taken[-1], verified=Verification(proposal.source, len(tokens), right))
                self._speculation.controller.note_verification(proposal, len(tokens), right)
            drawn += taken
            stand.append(len(taken))
            # A row that continues must have a token left to read.
            keep.append(min(_common_prefix_length(given, row.unread_tokens), len(row.unread_tokens) - (not row.ended)))
            row.launched_tokens = len(row.tokens) - row.prompt_length
        self._batch.keep(keep)
        self._sampler.settle(stand)
        self._inputs = mx.array([row.tokens[-1] for row in rows], mx.uint32)
        return drawn

    def _masks_ahead(
        self, proposals: list[list[int]], most: int
    ) -> tuple[mx.array | None, dict[int, tuple[int, GrammarError]]]:
        """Return the grammars' masks after each of the rows' tokens, (rows, most, words), and the rows that are stuck.

        A stuck row, by its number, comes with the number of draws that it can still make, and with the error.
        """
        if not any(row.grammar for row in self._active):
            return None, {}
        states: list[GrammarState | None] = []
        for row, tokens in zip(self._active, proposals, strict=True):
            own = row.grammar.states_ahead(tokens) if row.grammar else []
            states += [*own, *[None] * (most - len(own))]
        words, errors = self._masks.begin(states).result()
        stuck: dict[int, tuple[int, GrammarError]] = {}
        for place, error in sorted(errors.items()):
            stuck.setdefault(place // most, (place % most, error))
        return None if words is None else words.reshape(len(proposals), most, -1), stuck

    def _take_draws(self, row: Row, samples: Sequence[Sample], proposed: Sequence[int]) -> list[DrawnToken]:
        """Append a row's draws up to the first one that differs from its proposed token, including that one."""
        taken: list[DrawnToken] = []
        for place, sample in enumerate(samples):
            if row.ended:
                break
            taken.append(row.take(sample, self._model.eos_token_ids))
            if list(proposed[place : place + 1]) != [sample.token]:
                break
        return taken


def _common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the longest common prefix of two token sequences."""
    pairs = zip(first, second, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))
