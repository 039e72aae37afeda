"""The format of models that have none: everything is the answer."""

from orchard.formats.format_events import Content, Piece


class Plain:
    """Passes text through."""

    thinking = False

    def __init__(self) -> None:
        self._position = 0

    def feed(self, text: str) -> list[Piece]:
        """Return the characters as content."""
        start, self._position = self._position, self._position + len(text)
        return [Content(text, start)] if text else []

    def finish(self, *, cut_off: bool = False) -> list[Piece]:
        """Nothing is ever held back."""
        return []
