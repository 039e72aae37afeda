"""A value that stands between tags, as the JSON text of one of its types: a string as it is, all else as JSON.

Where no string may stand, arrays and objects are also read as Python writes them.
"""

import json
import re

from orchard.formats import json_text, literals
from orchard.formats.calls import CERTAIN
from orchard.formats.json_text import Give
from orchard.formats.schema import WORDS, fitted
from orchard.formats.text_reader import MalformedOutput, Reading, TextReader

Types = frozenset[str]

_DIGITS = "-0123456789"
# How the values of a type may begin, strings aside.
_BEGINNINGS = {"array": "[(", "object": "{", "null": "nN", "boolean": "tTfF", "integer": _DIGITS, "number": _DIGITS}
OTHERS = Types(_BEGINNINGS)
"""The types of values that are no strings."""
_NUMBER = re.compile(r"[-+.0-9eE]*")
_CONSTANTS = tuple(form(word) for word in WORDS for form in (str, str.title, str.upper))


class TypedValueParser:
    """One value, read as its text comes.

    It is held back while it may be a string and may be something else. Where it can't be a string, it is held back
    until there is enough of it: it becomes a string where it breaks before that, and goes on raw where it does later.
    """

    def __init__(self, types: Types, give: Give) -> None:
        """`types`: those that the value may have. `give` gets its JSON text piece by piece."""
        self._types = types
        self._give = give
        self._source = TextReader()
        self._held: list[str] = []
        self._found: list[str] = []  # its JSON text, as something else than a string
        self._length = 0
        self._whole = False  # an array or an object was read to its end
        self._certain = False  # it is no string
        self._reader = self._read() if types - {"string"} else None
        if self._reader:
            next(self._reader)
        else:
            give('"')

    def add(self, text: str) -> None:
        """Take the next characters."""
        if not self._reader:
            self._give(text if self._certain else _inner(text))
            return
        self._held.append(text)
        self._source.append(text)
        try:
            self._reader.send(None)
        except MalformedOutput:
            self._reader = None
            self._give(self._rest() if self._certain else f'"{_inner("".join(self._held))}')
        if self._certain:
            self._held.clear()

    def end(self) -> None:
        """End the value."""
        if self._certain:
            self.cut()
        elif not self._reader:
            self._give('"')
        elif self._whole:
            self._give("".join(self._found))
        else:
            text = "".join(self._held)
            self._give(fitted(text, self._types) or json.dumps(text, ensure_ascii=False))

    def cut(self) -> None:
        """End the text within the value. Of a value that is certain, what is held back is given out raw."""
        if self._certain and self._reader:
            self._give(self._rest())

    def _rest(self) -> str:
        return self._source.kept() + self._source.text[self._source.at :]

    def _read(self) -> Reading[None]:
        """Read a value that is no string, and white space behind it. Raise MalformedOutput where there is none."""
        source = self._source
        yield  # to the constructor
        first = yield from source.skip()
        if not any(first in _BEGINNINGS.get(one, "") for one in self._types):
            raise MalformedOutput
        if first in "[({":
            if "string" in self._types:
                yield from json_text.value(source, self._take)
            else:
                yield from literals.value(source, literals.PYTHON_OR_JSON, self._take)
            self._whole = True
        elif first in _DIGITS:
            yield from literals.run_of(source, _NUMBER)
        elif not (yield from source.choice(_CONSTANTS)):
            raise MalformedOutput
        yield from source.skip()
        raise MalformedOutput

    def _take(self, text: str) -> None:
        self._source.mark()
        self._found.append(text)
        self._length += len(text)
        if self._length > CERTAIN and "string" not in self._types:
            self._certain = True
            self._give("".join(self._found))
            self._found.clear()


def _inner(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
