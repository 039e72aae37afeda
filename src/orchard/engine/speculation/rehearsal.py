"""Speculation that verifies any tokens in each step, so that what it needs has run before a model serves."""

from collections.abc import Sequence

from orchard.core.speculation_report import SpeculationReport
from orchard.engine.speculation.interface import SpeculatingRow
from orchard.engine.speculation.proposal import Proposal
from orchard.engine.speculation.speculation import Speculation


class _Rehearsal:
    """Proposer and controller in one: proposes token 0 for every row, so many times, and has all of it verified.

    If a draft guesses, it proposes nothing itself.
    """

    totals: SpeculationReport = {}  # noqa: RUF012 - nobody writes to it

    def __init__(self, count: int, drafted: bool) -> None:
        self._count = count
        self._drafted = drafted

    def open(self, row: SpeculatingRow) -> None:
        """Do nothing: all rows are alike."""

    def close(self, row: SpeculatingRow) -> None:
        """Do nothing."""

    def propose(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        """Propose as many tokens as may be."""
        return [None if self._drafted else Proposal("ngram", [0] * count, [0.5] * count) for count in most]

    def looks(self, rows: int) -> int:
        """Return the number of tokens, however many rows there are."""
        return self._count

    def choose(self, offers: Sequence[Sequence[Proposal]]) -> list[Proposal | None]:
        """Choose everything."""
        return [next(iter(offered), None) for offered in offers]

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """Do nothing: the first pass of a size may take many times what later ones take."""

    def has_read(self, tokens: int, seconds: float) -> None:
        """Do nothing: the first time may be many times longer than later ones."""

    def drafted(self, rows: int, tokens: int, seconds: float) -> None:
        """Do nothing."""

    def verified(self, proposal: Proposal, proposed: int, accepted: int) -> None:
        """Do nothing."""


def rehearse(count: int, vocab_size: int, *, drafted: bool = False) -> Speculation:
    """Return speculation that verifies `count` tokens of each row in each step; if `drafted`, those of a draft."""
    rehearsal = _Rehearsal(count, drafted)
    return Speculation([rehearsal], rehearsal, vocab_size)
