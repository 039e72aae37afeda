"""What a proposer proposes."""

from typing import Literal

from msgspec import Struct

Source = Literal["ngram", "prediction", "grammar", "draft"]


class Proposal(Struct, frozen=True):
    """Guesses of a row's next tokens. `matched`: how many tokens before them speak for them, if that says anything."""

    source: Source
    tokens: list[int]
    matched: int = 0
