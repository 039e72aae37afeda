"""The pieces that a format makes of a model's text, and the base of all families' formats."""

from contextlib import suppress
from itertools import groupby

from msgspec import Struct

from orchard.formats.schema import Signatures
from orchard.formats.text_reader import OutputEnded, Parser, TextReader


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
    """The call that began last is complete. Its arguments, joined, are a JSON object, unless the model broke them."""


Piece = Content | Thought | CallStart | CallArguments | CallEnd


class Headers(Struct, frozen=True):
    """The headers of a model that writes messages: before its answer to the user, and between two messages."""

    answer: str
    between: str


class Format:
    """Splits one answer. The merged pieces don't depend on how the text was divided for `feed`.

    Content pieces come in the order of their `start` and never overlap, so that a caller can find the characters of
    each.
    """

    thinking = False
    """Whether the next text for `feed` belongs to the reasoning, as far as is known."""

    def __init__(self, tools: Signatures, *, forced: bool) -> None:
        """`tools`: empty if calls count as text. `forced`: a grammar is enforced on the calls."""
        self.notes: list[str] = []
        """Why texts that look like calls are broken calls, or none; for the log."""
        self._tools = tools
        self._forced = forced
        self._reader = TextReader()
        self._out: list[Piece] = []
        self._parser = self._read()

    def _read(self) -> Parser[None]:
        """Read the answer: wait for more text of `_reader`, and append pieces to `_out`."""
        raise NotImplementedError

    def feed(self, text: str) -> list[Piece]:
        """Take the next characters; return the pieces that are certain now."""
        if text:
            self._reader.append(text)
            next(self._parser)
        return self._take_pieces()

    def finish(self, *, cut_off: bool = False) -> list[Piece]:
        """End the text; return the pieces that were held back.

        `cut_off`: a limit ended the answer. Then the beginning of a tag is dropped, and a call whose name is known
        counts as a call without an end.
        """
        self._reader.final, self._reader.cut_off = True, cut_off
        with suppress(OutputEnded):
            next(self._parser, None)
        return self._take_pieces()

    def _emit_content(self, text: str) -> None:
        """Emit a piece of the answer that ends where the reader is now."""
        if text:
            self._out.append(Content(text, self._reader.place - len(text)))

    def _emit_thought(self, text: str) -> None:
        """Emit a piece of the reasoning."""
        if text:
            self._out.append(Thought(text))

    def _take_pieces(self) -> list[Piece]:
        taken: list[Piece] = []
        for of_arguments, run in groupby(self._out, lambda piece: isinstance(piece, CallArguments)):
            if of_arguments:
                taken.append(CallArguments("".join(piece.text for piece in run if isinstance(piece, CallArguments))))
            else:
                taken += run
        self._out.clear()  # parsers hold on to the list
        return taken
