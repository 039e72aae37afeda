"""What the parsers of all families have in common."""

from itertools import groupby

from orchard.formats.format_events import CallArguments, Content, Piece, Thought
from orchard.formats.text_reader import Reading, TextReader


class StreamParser:
    """One answer, read by a generator that waits for more of `_source` and appends what it finds to `_out`."""

    def __init__(self) -> None:
        self._source = TextReader()
        self._out: list[Piece] = []

    def _drive(self, reader: Reading[None]) -> None:
        """Begin with the generator, which must wait for the first text at once. Called once, by the constructor."""
        self._reader = reader
        next(reader)

    def feed(self, text: str) -> list[Piece]:
        """Take the next characters. Return what is certain by now."""
        if text:
            self._source.append(text)
            self._reader.send(None)
        return self._taken()

    def finish(self, *, cut_off: bool = False) -> list[Piece]:
        """End the text. Return what was held back. See `Format`."""
        self._source.final, self._source.cut_off = True, cut_off
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
