"""The text of an answer as it arrives, and methods to read it piece by piece.

Parsers are generators: they yield when they need more text, and are resumed once text was appended or the text has
ended. So a parser is written as if it had the whole text.
"""

import math
import re
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
Emit = Callable[[str], object]
"""Takes the pieces of what a parser reads."""
Parser = Generator[None, None, T]
"""A parser; it returns what it has read."""

_SPACE = " \t\r\n"
_MAX_NAME_CHARS = 256
_NAME = re.compile(r"[\w.:/$-]*")
_SPACES = re.compile(r"[ \t\r\n]*")
MOST_SPACES = 64  # more white space than this is not held back for a tag after it
MAX_DEPTH = 200
"""The deepest nesting of arrays and objects."""


class MalformedOutput(Exception):
    """The text is not what a parser expects; `TextReader.at` is the first character that doesn't fit.

    Its message says why, without the text.
    """


class OutputEnded(MalformedOutput):
    """The text ends where a parser expects more."""


class TextReader:
    """The text that hasn't been read yet begins at `at` in `text`. What was read is kept from the last `mark` on."""

    def __init__(self, text: str = "", *, final: bool = False) -> None:
        """Begin with a text; `final`: nothing will be appended."""
        self.text = text
        self.at = 0
        self.final = final
        self.cut_off = False  # where it is final: the model had more to say
        self.allows: Callable[[str], bool] = lambda mistake: False
        """Returns whether a parser may read over a mistake, which a noun describes."""
        self._before = 0  # characters of the answer before `text`
        self._mark = 0
        self._kept: list[str] = []

    @property
    def place(self) -> int:
        """How many characters of the answer have been read."""
        return self._before + self.at

    def append(self, text: str) -> None:
        """Append the next characters. Drop what was read from `text`, so that the cost only depends on the new text."""
        if self._mark < self.at:
            self._kept.append(self.text[self._mark : self.at])
        self._before += self.at
        self.text = self.text[self.at :] + text
        self.at = self._mark = 0

    def mark(self) -> None:
        """Forget what was read, because it was emitted."""
        self._kept.clear()
        self._mark = self.at

    def take_text(self) -> str:
        """Return what was read since the last mark, as the model wrote it, and forget it."""
        kept = "".join(self._kept) + self.text[self._mark : self.at]
        self.mark()
        return kept

    def rewind(self) -> None:
        """Go back to the last mark."""
        place, kept = self.place, self.take_text()
        self.text, self._before = kept + self.text[self.at :], place - len(kept)
        self.at = self._mark = 0

    def rewind_to(self, place: int) -> None:
        """Go back to a place after the last mark."""
        self.rewind()
        self.at = place - self._before

    def wait_for_text(self) -> Parser[None]:
        """Wait for more text. Raise OutputEnded if the text has ended."""
        if self.final:
            raise OutputEnded
        yield

    def peek(self) -> Parser[str]:
        """Return the next character without reading it."""
        while self.at >= len(self.text):
            yield from self.wait_for_text()
        return self.text[self.at]

    def skip(self, chars: str = _SPACE) -> Parser[str]:
        """Read over white space, or over `chars`. Return the character after it."""
        while (found := (yield from self.peek())) in chars:
            self.at += 1
        return found

    def read_run(self, pattern: re.Pattern[str], most: float = math.inf) -> Parser[str]:
        """Read as far as a pattern of any number of single characters goes. Return what was read, which may be nothing.

        Raise MalformedOutput where that is more than `most` characters.
        """
        found = ""
        while True:
            match = pattern.match(self.text, self.at)
            assert match
            found += match[0]
            if len(found) > most:
                raise MalformedOutput
            self.at = match.end()
            if self.at < len(self.text):
                return found
            yield from self.wait_for_text()

    def read_spaces(self) -> Parser[str]:
        """Read white space and return it."""
        return (yield from self.read_run(_SPACES))

    def accept(self, tags: Iterable[str], ends: Collection[str] = ()) -> Parser[str | None]:
        """Read the longest of the tags that is next; return None and read nothing if none is.

        One of `ends` also counts if the end of the text has cut it off. Raise OutputEnded if a limit has cut it off.
        """
        tags = sorted(tags, key=len, reverse=True)
        while True:
            rest = self.text[self.at : self.at + len(tags[0])] if tags else ""
            tags = [tag for tag in tags if tag.startswith(rest) or rest.startswith(tag)]
            if not tags:
                return None
            if len(rest) >= len(tags[0]) or self.final:
                found = next((tag for tag in tags if rest.startswith(tag)), None)
                if not found and rest and all(tag in ends for tag in tags):
                    found = tags[0]
                elif self.cut_off and len(rest) < len(tags[0]):
                    raise OutputEnded
                self.at = min(self.at + len(found or ""), len(self.text))
                return found
            yield from self.wait_for_text()

    def accept_spaced(self, tags: Iterable[str]) -> Parser[str | None]:
        """Read white space and the tag after it; return None and read nothing if another text follows.

        A tag that a limit has cut off is removed from the text.
        """
        tags = tuple(tags)
        while True:
            rest = self.text[self.at :].lstrip(_SPACE)
            spaces = len(self.text) - self.at - len(rest)
            found = next((tag for tag in tags if rest.startswith(tag)), None)
            if found and spaces <= MOST_SPACES:
                self.at += spaces + len(found)
                return found
            begun = spaces <= MOST_SPACES and any(tag.startswith(rest) for tag in tags)
            if self.final or not begun:
                if self.cut_off and begun and rest:
                    self.text = self.text[: self.at]
                return None
            yield from self.wait_for_text()

    def expect(self, tag: str) -> Parser[None]:
        """Read a tag. Raise MalformedOutput if something else comes next."""
        if not (yield from self.accept((tag,))):
            if self.final and tag.startswith(self.text[self.at :]):
                raise OutputEnded
            raise MalformedOutput(f"{tag!r} is missing")

    def expect_spaced(self, tag: str) -> Parser[None]:
        """Read white space and the tag after it. Raise MalformedOutput if something else comes there."""
        yield from self.skip()
        yield from self.expect(tag)

    def find_first(self, tags: Sequence[str]) -> tuple[int, str]:
        """Find the first of the tags; if there is none, return the place up to which none begins, and "".

        At the end of the text, a tag may have begun only if a limit has cut the text off.
        """
        text, at = self.text, self.at
        found = [(place, -len(tag), tag) for tag in tags if (place := text.find(tag, at)) >= 0]
        if found:
            place, _, tag = min(found)
            return place, tag
        if (self.final and not self.cut_off) or not tags:
            return len(text), ""
        return len(text) - max([partial_tag_length(text, tag, at) for tag in tags]), ""

    def read_until(self, tag: str, emit: Emit) -> Parser[None]:
        """Read up to a tag and the tag itself; `emit` gets the text before it as it arrives."""
        while True:
            end = self.text.find(tag, self.at)
            stop = end if end >= 0 else len(self.text) - partial_tag_length(self.text, tag, self.at)
            if stop > self.at:
                found, self.at = self.text[self.at : stop], stop
                emit(found)
            if end >= 0:
                self.at += len(tag)
                return
            yield from self.wait_for_text()

    def read_name(self) -> Parser[str]:
        """Read the name of a function. Raise MalformedOutput if there is none, or if it is too long."""
        name = yield from self.read_run(_NAME, _MAX_NAME_CHARS)
        if not name:
            raise MalformedOutput
        return name

    def read_name_before(self, tag: str, stops: str) -> Parser[str]:
        """Read a name and the tag after it. Return the name without the white space and the quotes around it.

        Raise MalformedOutput if there is no name, and what `read_word` raises.
        """
        name = (yield from self.read_word(tag, stops)).strip().strip("\"'")
        if not name:
            raise MalformedOutput
        return name

    def read_word(self, tag: str, stops: str) -> Parser[str]:
        """Read up to a tag and the tag itself. Return the text before it.

        Raise MalformedOutput if a character of `stops` comes before it, or the text is too long for a name.
        """
        while True:
            end = self.text.find(tag, self.at, self.at + _MAX_NAME_CHARS + len(tag))
            whole = len(self.text) - partial_tag_length(self.text, tag, self.at)
            edge = end if end >= 0 else min(whole, self.at + _MAX_NAME_CHARS)
            bad = [place for stop in stops if (place := self.text.find(stop, self.at, edge)) >= 0]
            if bad:
                self.at = min(bad)
                raise MalformedOutput
            if end >= 0:
                found, self.at = self.text[self.at : end], end + len(tag)
                return found
            if whole > self.at + _MAX_NAME_CHARS:
                raise MalformedOutput
            yield from self.wait_for_text()


def partial_tag_length(text: str, tag: str, start: int = 0) -> int:
    """Count the last characters of a text, from `start` on, that may be the beginning of a tag."""
    first = tag[0]
    place = text.find(first, max(start, len(text) - len(tag) + 1))
    while place >= 0:
        if tag.startswith(text[place:]):
            return len(text) - place
        place = text.find(first, place + 1)
    return 0
