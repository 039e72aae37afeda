"""Follows the code that an answer shows: blocks between fences, and text between backticks in a line."""

import re

_RUNS = re.compile(r"`+|[^`]+")
_FENCE = 3


class ShownCode:
    """Takes an answer's text piece by piece, and says whether code has begun and not ended."""

    def __init__(self) -> None:
        """Begin with no text."""
        self._run = 0  # backticks at the text's end
        self._opened = 0  # the number of backticks that opened the code; 0 in no code

    def add(self, text: str) -> None:
        """Add the next characters."""
        if "`" not in text and not (self._run or self._opened):
            return
        for part in _RUNS.findall(text):
            if part[0] == "`":
                self._run += len(part)
                continue
            self._end_run()
            if self._opened < _FENCE and "\n" in part:
                self._opened = 0

    def is_open(self) -> bool:
        """Return whether the text ends in code; no backtick may follow."""
        self._end_run()
        return self._opened > 0

    def _end_run(self) -> None:
        run, self._run = self._run, 0
        if run and not self._opened:
            self._opened = run
        elif run == self._opened or run > self._opened >= _FENCE:
            self._opened = 0
