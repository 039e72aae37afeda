"""What a format makes of a model's text."""

from typing import Protocol

from msgspec import Struct


class Content(Struct, frozen=True):
    """A piece of the answer; `start` counts the characters that the model wrote before it, tags included."""

    text: str
    start: int


class Thought(Struct, frozen=True):
    """A piece of the model's reasoning."""

    text: str


class Call(Struct, frozen=True):
    """A whole tool call; `arguments` is the text of a JSON object."""

    name: str
    arguments: str


Piece = Content | Thought | Call


class Format(Protocol):
    """Splits one answer. The pieces, merged, are the same however the text was cut for `feed`.

    Content pieces come in the order of their `start` and never overlap, so that a caller can tell which characters
    went where.
    """

    @property
    def thinking(self) -> bool:
        """Whether the text fed next belongs to the reasoning, as far as is known."""
        ...

    def feed(self, text: str) -> list[Piece]:
        """Take the next characters; gives what is certain by now."""
        ...

    def finish(self) -> list[Piece]:
        """Say that nothing follows; gives what was held back."""
        ...
