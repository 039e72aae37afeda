"""A report on guessed tokens: how many were right, and how much time they saved."""

from collections.abc import Mapping

from msgspec import Struct


class SourceTotals(Struct, frozen=True, array_like=True):
    """How many tokens of one source were verified, how many were right, and how many seconds this saved.

    `saved_seconds`: how much longer the streams' steps would have taken without them; negative if shorter.
    """

    proposed: int = 0
    accepted: int = 0
    saved_seconds: float = 0.0

    def plus(self, proposed: int, accepted: int, saved_seconds: float) -> "SourceTotals":
        """Return the totals with these numbers added."""
        return SourceTotals(self.proposed + proposed, self.accepted + accepted, self.saved_seconds + saved_seconds)


SpeculationReport = Mapping[str, SourceTotals]
"""The totals by source, since the model was loaded."""
