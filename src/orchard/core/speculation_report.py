"""A report on guesses: how many were right, and what they saved."""

from collections.abc import Mapping

from msgspec import Struct


class SourceTotals(Struct, frozen=True, array_like=True):
    """Tokens of one source that were verified, how many of them were right, and the seconds that this saved.

    The seconds are how much longer the streams' steps would have taken without them; negative if shorter.
    """

    proposed: int = 0
    accepted: int = 0
    saved_seconds: float = 0.0

    def plus(self, proposed: int, accepted: int, saved_seconds: float) -> "SourceTotals":
        """Return the totals with these numbers added."""
        return SourceTotals(self.proposed + proposed, self.accepted + accepted, self.saved_seconds + saved_seconds)


SpeculationReport = Mapping[str, SourceTotals]
"""The totals by source, since the model was loaded."""
