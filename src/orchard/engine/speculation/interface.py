"""The parts of speculative decoding: proposers guess rows' next tokens; a controller decides how many to verify."""

from collections.abc import Sequence
from typing import Protocol

from orchard.core.speculation_report import SpeculationReport
from orchard.engine.prefix_cache.values import CacheScope
from orchard.engine.sampling.grammar import GrammarState
from orchard.engine.speculation.proposal import DraftedTokens, Proposal


class SpeculatingRow(Protocol):
    """A row in decode, as proposers see it. It is hashable; proposers must not change it."""

    @property
    def tokens(self) -> Sequence[int]:
        """The prompt and the answer so far. It only grows, by one or several tokens per step."""

    @property
    def prompt_length(self) -> int:
        """The number of prompt tokens."""

    @property
    def prediction(self) -> Sequence[int]:
        """The tokens that the caller predicts for the answer; usually none."""

    @property
    def cache_scope(self) -> CacheScope:
        """Whose earlier texts may be used for its guesses; its own text may be used for rows of the same scope."""

    @property
    def grammar(self) -> GrammarState | None:
        """The state of the row's grammar, if it has one; proposers may use it in `propose` only."""


class Proposer(Protocol):
    """Guesses rows' next tokens. All calls come from the engine's thread.

    If a method raises, the rows of that call continue without this proposer.
    """

    def open(self, row: SpeculatingRow) -> None:
        """Begin with a row. After a preemption, it already has a part of its answer."""

    def close(self, row: SpeculatingRow) -> None:
        """Forget a row that has ended or is stopped. Its tokens may still be read."""

    def propose(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> Sequence[Proposal | None]:
        """Guess up to `most[i]` tokens that may follow the tokens of open row i; None: no guess.

        A call leaves out rows that must not speculate now; they stay open.
        """


class Drafter(Protocol):
    """A proposer whose guesses need passes of a model. It first says what they are worth, and guesses if chosen."""

    def open(self, row: SpeculatingRow) -> None:
        """Begin with a row, as with a `Proposer`."""

    def close(self, row: SpeculatingRow) -> None:
        """Forget a row."""

    def promise(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> Sequence[Proposal | None]:
        """Return, for each row, a proposal without tokens: the chances of up to `most[i]` guesses; None: no guess."""

    def read(self, rows: Sequence[SpeculatingRow]) -> int:
        """Prefill a piece of the tokens of these rows that the draft has not read; return how many tokens."""

    def draft(self, rows: Sequence[SpeculatingRow], counts: Sequence[int]) -> DraftedTokens:
        """Guess up to `counts[i]` tokens of each row; none for a row with much text left to read.

        The device may still compute the guesses when this returns; the pass that verifies them then takes longer.
        """

    def drop_all(self) -> None:
        """Forget all that was computed for rows and for cached prompts. Rows stay open until they are closed."""

    def limit(self, cache_bytes: int) -> int:
        """Limit the draft's own cached prompts to a share of `cache_bytes`; return the bytes that are left."""


class Controller(Protocol):
    """Decides how many proposed tokens are verified. All calls come from the engine's thread."""

    @property
    def totals(self) -> SpeculationReport:
        """What was proposed, accepted and saved, by source. It is replaced, never changed: any thread may read it."""

    def proposal_limit(self, rows: int) -> int:
        """Return the most tokens to propose for each of `rows` rows in this step; 0: don't ask the proposers."""

    def choose(self, offers: Sequence[Sequence[Proposal]]) -> Sequence[Proposal | None]:
        """Return what to verify of each row, in the order of the rows: one of its proposals, cut; None: nothing.

        The pass computes rows * (1 + the most tokens that are chosen for a row) tokens, including padding.
        """

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """Note the seconds from the end of the last step to the end of this one, including drafting.

        `tokens`: how many the pass computed, including padding; 0 if the step launched a pass but waited for none,
        since the step before had waited for all. This is not called for steps with prefill, for steps in which rows
        join or leave, or for the first step after an idle time.
        """

    def note_reading(self, tokens: int, seconds: float) -> None:
        """Note how many seconds the draft took to read `tokens` tokens of rows' texts."""

    def note_drafting(self, rows: int, tokens: int, seconds: float) -> None:
        """Note how many seconds of this step the draft took to guess up to `tokens` tokens for each of `rows` rows."""

    def note_verification(self, proposal: Proposal, proposed: int, accepted: int) -> None:
        """Note how many of the first `proposed` tokens of a row's proposal were accepted."""
