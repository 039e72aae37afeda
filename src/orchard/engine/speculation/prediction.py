"""Counts how much of a predicted answer has come true."""

from collections.abc import Sequence

from orchard.engine.speculation.suffix_index import MOST_COMPARED, Follower, SuffixIndex


class PredictionUse:
    """One answer and its prediction. The count depends on the tokens alone, not on what was proposed when."""

    def __init__(self, prediction: Sequence[int]) -> None:
        self._prediction = SuffixIndex(prediction)
        self._follower = Follower()
        self._follower.follow(self._prediction, 0, 0)
        self._other: list[int] = []  # the tokens since the last one that was predicted
        self._found = 0

    def take(self, token: int) -> None:
        """Note the next token of the answer."""
        if self._follower.advance(token):
            self._found += 1
            self._other = []
            return
        self._other = [*self._other, token][-MOST_COMPARED:]
        self._follower.search([self._prediction], self._other)
        if self._follower.matched:
            self._found += self._follower.matched
            self._other = []

    @property
    def accepted(self) -> int:
        """How many tokens of the prediction are in the answer."""
        return min(self._found, len(self._prediction))

    @property
    def rejected(self) -> int:
        """How many are not, so far."""
        return len(self._prediction) - self.accepted
