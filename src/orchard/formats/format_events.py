"""What a format makes of a model's text."""

from msgspec import Struct


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


class Headers(Struct, frozen=True):
    """What a model that writes messages puts before them: before its answer to the user, and between two messages."""

    answer: str
    between: str
