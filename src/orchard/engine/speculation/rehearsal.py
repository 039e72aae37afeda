"""Speculation for the warm-up: it verifies arbitrary tokens in each step, so that all kernels are compiled."""

from collections.abc import Sequence

from orchard.core.speculation_report import SpeculationReport
from orchard.engine.speculation.interface import SpeculatingRow
from orchard.engine.speculation.proposal import Proposal
from orchard.engine.speculation.speculation import Speculation


class _Rehearsal:
    """Proposer and controller in one: proposes `count` times token 0 for every row, and chooses all of it.

    If `uses_draft`, it proposes nothing itself and chooses the draft's guesses.
    """

    totals: SpeculationReport = {}  # noqa: RUF012 - nobody writes to it

    def __init__(self, count: int, uses_draft: bool) -> None:
        self._count = count
        self._uses_draft = uses_draft

    def open(self, row: SpeculatingRow) -> None:
        """Do nothing: all rows are alike."""

    def close(self, row: SpeculatingRow) -> None:
        """Do nothing."""

    def propose(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        """Propose as many tokens as are allowed."""
        return [None if self._uses_draft else Proposal("ngram", [0] * count, [0.5] * count) for count in most]

    def proposal_limit(self, rows: int) -> int:
        """Return `count`, for any number of rows."""
        return self._count

    def choose(self, offers: Sequence[Sequence[Proposal]]) -> list[Proposal | None]:
        """Choose the first proposal of each row."""
        return [next(iter(offered), None) for offered in offers]

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """Do nothing: the first pass of a size may take many times what later ones take."""

    def note_reading(self, tokens: int, seconds: float) -> None:
        """Do nothing: the first time may take many times as long as later ones."""

    def note_drafting(self, rows: int, tokens: int, seconds: float) -> None:
        """Do nothing."""

    def note_verification(self, proposal: Proposal, proposed: int, accepted: int) -> None:
        """Do nothing."""


def rehearse(count: int, vocab_size: int, *, uses_draft: bool = False) -> Speculation:
    """Return speculation that verifies `count` tokens of each row in each step; if `uses_draft`, those of the draft."""
    rehearsal = _Rehearsal(count, uses_draft)
    return Speculation([rehearsal], rehearsal, vocab_size)
