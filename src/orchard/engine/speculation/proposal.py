"""What a proposer proposes."""

from typing import Literal

from msgspec import Struct

Source = Literal["ngram", "prediction", "grammar", "draft", "mtp"]

DRAFTS: frozenset[Source] = frozenset({"draft", "mtp"})
"""The sources whose guesses take passes: of a draft model, or of the model's own MTP head."""


class Proposal(Struct, frozen=True):
    """Guesses of a row's next tokens. `chances`: for each, how likely it and all guesses before it are right.

    A draft's proposal has no tokens before it is chosen: they take passes of a model. `unread`: how many tokens of the
    row's text the draft has to read first.
    """

    source: Source
    tokens: list[int]
    chances: list[float]
    unread: int = 0

    @property
    def count(self) -> int:
        """How many tokens are proposed."""
        return len(self.chances)

    def part(self, start: int, stop: int | None = None) -> "Proposal":
        """Return the guesses from `start` to `stop`, as they are before any of them is known to be right."""
        return Proposal(self.source, self.tokens[start:stop], self.chances[start:stop], self.unread)
