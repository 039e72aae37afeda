"""A checksum of what a runner tells its scheduler: it differs as soon as two ranks do."""

from zlib import crc32


class NoteSum:
    """Adds up notes, in order. Tokens that end rows and what the prefix cache had of prompts are among them."""

    def __init__(self) -> None:
        self.checksum = 0
        """Of all notes so far."""

    def add(self, *note: str | int) -> None:
        """Add a note."""
        self.checksum = crc32(repr(note).encode(), self.checksum)
