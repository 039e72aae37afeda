"""What the formats of all families have in common."""

from contextlib import suppress
from itertools import groupby

from orchard.formats.format_events import CallArguments, Content, Piece, Thought
from orchard.formats.schema import Signatures
from orchard.formats.text_reader import OutputEnded, Reading, TextReader


class Format:
    """Splits one answer. The pieces, merged, are the same however the text was cut for `feed`.

    Content pieces come in the order of their `start` and never overlap, so that a caller can tell which characters
    went where.
    """

    thinking = False
    """Whether the text fed next belongs to the reasoning, as far as is known."""

    def __init__(self, tools: Signatures, *, forced: bool) -> None:
        """`tools`: none where calls are text. `forced`: a grammar keeps the calls."""
        self._tools = tools
        self._forced = forced
        self._source = TextReader()
        self._out: list[Piece] = []
        self._reader = self._read()

    def _read(self) -> Reading[None]:
        """Read the answer: wait for more of `_source` and append what is found to `_out`."""
        raise NotImplementedError

    def feed(self, text: str) -> list[Piece]:
        """Take the next characters. Return what is certain by now."""
        if text:
            self._source.append(text)
            next(self._reader)
        return self._taken()

    def finish(self, *, cut_off: bool = False) -> list[Piece]:
        """End the text. Return what was held back.

        `cut_off`: the model had more to say. Then what has begun as a tag is none of the answer, and a call whose name
        is known is one, of which the end is missing.
        """
        self._source.final, self._source.cut_off = True, cut_off
        with suppress(OutputEnded):
            next(self._reader, None)
        return self._taken()

    def _content(self, text: str) -> None:
        """Give out a piece of the answer that ends where the source is now."""
        if text:
            self._out.append(Content(text, self._source.place - len(text)))

    def _thought(self, text: str) -> None:
        """Give out a piece of the reasoning."""
        if text:
            self._out.append(Thought(text))

    def _taken(self) -> list[Piece]:
        taken: list[Piece] = []
        for of_arguments, run in groupby(self._out, lambda piece: isinstance(piece, CallArguments)):
            if of_arguments:
                taken.append(CallArguments("".join(piece.text for piece in run if isinstance(piece, CallArguments))))
            else:
                taken += run
        self._out.clear()  # readers hold on to the list
        return taken
