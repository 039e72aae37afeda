"""Text that arrives in pieces, broken between words so that it fits a terminal."""

import shutil
import sys
from typing import TextIO

from rich.cells import cell_len

_FENCE = "```"


class WordWrap:
    """Breaks lines between words. A word waits until it is complete. Blocks of code between ``` keep their lines."""

    def __init__(self, width: int) -> None:
        """`width` is the terminal's, in columns."""
        self._width = width
        self._column = 0
        self._gap = ""  # the spaces before the next word
        self._word = ""
        self._begins = True  # no word of the text's own line has been placed yet
        self._is_code = False

    def feed(self, text: str) -> str:
        """Return what can be printed now."""
        placed = ""
        for char in text:
            if char == "\n":
                placed += self.end() + char
                self._column, self._gap, self._begins = 0, "", True
            elif char in " \t":
                placed += self.end()
                self._gap += char
            else:
                self._word += char
                if cell_len(char) > 1:  # Chinese and Japanese have no spaces
                    placed += self.end()
        return placed

    def end(self) -> str:
        """Return the word that waits."""
        gap, word = self._gap, self._word
        if not word:
            return ""
        self._gap = self._word = ""
        if self._begins and word.startswith(_FENCE):
            self._is_code = not self._is_code
        self._begins = False
        cells = cell_len(gap + word)
        if self._column and self._column + cells > self._width and not self._is_code:
            self._column = cell_len(word)
            return "\n" + word
        self._column += cells
        return gap + word


def print_line(text: str, stream: TextIO | None = None) -> None:
    """Print a text and a line break on stdout, or on another stream. If it is a terminal, lines end at words."""
    stream = stream or sys.stdout
    if stream.isatty():
        wrap = WordWrap(shutil.get_terminal_size().columns)
        text = wrap.feed(text) + wrap.end()
    print(text, file=stream)
