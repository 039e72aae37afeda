"""What a format makes of a model's text."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallsGrammar


class Content(Struct, frozen=True):
    """A piece of the answer; `start` counts the characters that the model wrote before it, tags included."""

    text: str
    start: int


class Thought(Struct, frozen=True):
    """A piece of the model's reasoning."""

    text: str


class CallStart(Struct, frozen=True):
    """A tool call begins. `id` is the model's own name for it, where its format has one."""

    name: str
    id: str | None = None


class CallArguments(Struct, frozen=True):
    """A piece of the JSON text of the arguments of the call that began last."""

    text: str


class CallEnd(Struct, frozen=True):
    """The call that began last is over. Its arguments, put together, are a JSON object, unless the model broke them."""


Piece = Content | Thought | CallStart | CallArguments | CallEnd


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
        """Take the next characters. Return what is certain by now."""
        ...

    def finish(self, *, cut_off: bool = False) -> list[Piece]:
        """End the text. Return what was held back.

        `cut_off`: the model had more to say. Then what has begun as a tag is none of the answer, and a call whose name
        is known is one, of which the end is missing.
        """
        ...


class Headers(Struct, frozen=True):
    """What a model that writes messages puts before them: before its answer to the user, and between two messages."""

    answer: str
    between: str


class Family(Protocol):
    """How one model writes. It makes the format of each of its answers."""

    @property
    def name(self) -> str:
        """What the family is called in messages and logs."""
        ...

    @property
    def reasoning_tags(self) -> tuple[str, str] | None:
        """The texts that open and end the reasoning; None where it has none."""
        ...

    @property
    def headers(self) -> Headers | None:
        """What stands before the model's messages; None where it writes none."""
        ...

    def begin(self, prompt: str, tools: Sequence[Tool] = (), *, forced: bool = False) -> Format:
        """Make the format of one answer to a rendered prompt. Without tools, what looks like a call is text.

        `forced`: a grammar keeps the answer to calls, so that what begins as one is never text.
        """
        ...

    def calls(self, tools: Sequence[Tool]) -> CallsGrammar | None:
        """Return what the model would write for one or more calls of these tools; None where that isn't known."""
        ...
