"""What a proposer proposes."""

from typing import Literal

from msgspec import Struct

Source = Literal["ngram", "prediction", "grammar", "draft"]


class Proposal(Struct, frozen=True):
    """Guesses of a row's next tokens. `chances`: for each, how likely it and all guesses before it are right."""

    source: Source
    tokens: list[int]
    chances: list[float]

    def part(self, start: int, stop: int | None = None) -> "Proposal":
        """Return the guesses from `start` to `stop`, as they are before any of them is known to be right."""
        return Proposal(self.source, self.tokens[start:stop], self.chances[start:stop])
