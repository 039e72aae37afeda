"""What speculation consists of: proposers guess rows' next tokens, a controller decides how many a step verifies."""

from collections.abc import Sequence
from typing import Protocol

from orchard.core.speculation_report import SpeculationReport
from orchard.engine.sampling.grammar import GrammarState
from orchard.engine.speculation.proposal import DraftedTokens, Proposal


class SpeculatingRow(Protocol):
    """A row in decode, as proposers see it. It can be a key of a dict; proposers must not change it."""

    @property
    def tokens(self) -> Sequence[int]:
        """The prompt and what has been read of the answer. It only grows, by one token or several a step."""

    @property
    def prompt_length(self) -> int:
        """How many of the tokens are the prompt's."""

    @property
    def prediction(self) -> Sequence[int]:
        """The tokens that the caller predicts for the answer; mostly none."""

    @property
    def grammar(self) -> GrammarState | None:
        """The row's place in its grammar, if it has one; proposers may use it while they propose."""


class Proposer(Protocol):
    """Guesses rows' next tokens. All calls come from the engine's thread.

    Where a method raises, its rows go on without this proposer.
    """

    def open(self, row: SpeculatingRow) -> None:
        """Begin with a row; it may have an answer already, where it goes on after a preemption."""

    def close(self, row: SpeculatingRow) -> None:
        """Forget a row: it has ended, or is stopped. Its tokens are still there."""

    def propose(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> Sequence[Proposal | None]:
        """Guess, for each of these open rows, what may follow `row.tokens`: up to as many tokens as `most` says.

        None: no guess. Rows are left out of calls, not closed, while they may not speculate.
        """


class Drafter(Protocol):
    """A proposer whose guesses cost passes of a model: it says what they promise, and guesses only what is chosen."""

    def open(self, row: SpeculatingRow) -> None:
        """Begin with a row, as with a `Proposer`."""

    def close(self, row: SpeculatingRow) -> None:
        """Forget a row."""

    def promise(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> Sequence[Proposal | None]:
        """Return what up to so many guesses of each row would be worth: proposals without tokens."""

    def read(self, rows: Sequence[SpeculatingRow]) -> int:
        """Read a piece of what these rows' texts have that was not read yet; return how many tokens."""

    def draft(self, rows: Sequence[SpeculatingRow], counts: Sequence[int]) -> DraftedTokens:
        """Guess up to so many tokens of each row; of a row with much still to be read, none.

        What the device has not done when this returns is part of what the pass that verifies takes.
        """

    def limit(self, cache_bytes: int) -> int:
        """Limit what is kept of texts that were read to a share of so many bytes; return what that leaves."""


class Controller(Protocol):
    """Decides how many proposed tokens are verified. All calls come from the engine's thread."""

    @property
    def totals(self) -> SpeculationReport:
        """What has been verified, by source. It is replaced, never changed, so any thread may read it."""

    def looks(self, rows: int) -> int:
        """Return the most tokens that each row may have proposed in this step, of so many rows; 0: nobody is asked."""

    def choose(self, offers: Sequence[Sequence[Proposal]]) -> Sequence[Proposal | None]:
        """Return what is verified of each row, in the order of the rows: one of its proposals, cut; None: nothing.

        The pass computes the tokens of all rows, padded: rows * (1 + the most that any row brings).
        """

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """Note what a step took from the end of the one before; its pass computed so many tokens, padding among them.

        0 tokens: it launched a pass and had none to wait for, as the one before had waited for all. Left out: steps in
        which prompts were read, or rows came or went, and those after an idle time. Drafting is part of the time.
        """

    def has_read(self, tokens: int, seconds: float) -> None:
        """Note how long the draft took to read so many tokens of rows' texts."""

    def drafted(self, rows: int, tokens: int, seconds: float) -> None:
        """Note how long, in this step, the draft took to guess up to so many tokens for each of so many rows."""

    def verified(self, proposal: Proposal, proposed: int, accepted: int) -> None:
        """Note how many of the first `proposed` tokens of a row's proposal were accepted."""
