"""Proposers and a controller whose guesses tests decide."""

from collections.abc import Sequence

from orchard.engine.speculation.proposal import Proposal


class FixedController:
    """Verifies up to so many tokens of each proposal, always; notes what it is told."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.observed: list[tuple[int, int, float]] = []
        self.results: list[tuple[Proposal, int, int]] = []

    def looks(self, rows: int) -> int:
        return self.most

    def choose(self, proposals: Sequence[Proposal | None]) -> list[int]:
        return [min(len(one.tokens), self.most) if one else 0 for one in proposals]

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        self.observed.append((rows, tokens, seconds))

    def verified(self, proposal: Proposal, proposed: int, accepted: int) -> None:
        self.results.append((proposal, proposed, accepted))
