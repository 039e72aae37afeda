"""JSON as models write it, read piece by piece: raw newlines in strings are made escapes, all else is checked."""

import json
import re
from collections.abc import Callable

from orchard.formats.schema import Signature, encodable, fitted, loads
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Reading, TextReader, run

# Characters and whole escapes, as they may stand in a JSON string.
_RUN = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))++')
_BEGUN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_SCALAR = re.compile(r"[-+.\w]*")
_CLOSING = {"[": "]", "{": "}"}
DEEPEST = 200
"""Arrays and objects within each other."""

Give = Callable[[str], object]


def string(source: TextReader, give: Give) -> Reading[None]:
    """Read a string from behind its quote, over its closing one; `give` gets what stands between, as JSON has it."""
    while True:
        text, at = source.text, source.at
        if run := _RUN.match(text, at):
            source.at = run.end()
            give(run[0])
        elif at == len(text):
            yield from source.more()
        elif text[at] == '"':
            source.at += 1
            return
        elif text[at] != "\\":
            source.at += 1
            give(json.dumps(text[at])[1:-1])
        elif _BEGUN_ESCAPE.fullmatch(text, at):
            yield from source.more()
        else:
            raise MalformedOutput


def quoted(source: TextReader) -> Reading[str]:
    """Read a string. Return its text as JSON has it, without quotes."""
    yield from source.literal('"')
    found: list[str] = []
    yield from string(source, found.append)
    return "".join(found)


def plain(source: TextReader) -> Reading[str]:
    """Read a string. Return what it stands for. Raise MalformedOutput where that is no text."""
    found: str = json.loads(f'"{(yield from quoted(source))}"')
    if not encodable(found):
        raise MalformedOutput
    return found


def value(source: TextReader, give: Give) -> Reading[None]:
    """Read a value of any kind; `give` gets its JSON text piece by piece."""
    opened: list[str] = []  # what will close the arrays and objects that the value stands in
    while True:
        char = yield from source.peek()
        first = char in _CLOSING  # of what stands in one
        if first:
            if len(opened) == DEEPEST:
                raise MalformedOutput
            source.at += 1
            opened.append(_CLOSING[char])
            give(char)
        elif char == '"':
            source.at += 1
            give('"')
            yield from string(source, give)
            give('"')
        else:
            word = yield from source.run_of(_SCALAR)
            if loads(word) is None:
                raise MalformedOutput
            give(word)
        while opened:
            before = yield from source.spaces()
            if source.text[source.at] != opened[-1]:
                break
            source.at += 1
            give(before + opened.pop())
            first = False
        else:
            return
        if not first:
            yield from source.literal(",")
            before += "," + (yield from source.spaces())
        give(before)
        if opened[-1] == "}":
            yield from _key(source, give)


def _key(source: TextReader, give: Give) -> Reading[str]:
    """Read an object's key, the colon and the white space around it. Return the key as JSON has it."""
    key = yield from quoted(source)
    between = yield from source.spaces()
    yield from source.literal(":")
    give(f'"{key}"{between}:{(yield from source.spaces())}')
    return key


def arguments(source: TextReader, signature: Signature | None, give: Give) -> Reading[None]:
    """Read white space and an object of arguments.

    `give` gets the object piece by piece, each value of a type that its parameter may have.
    """
    yield from source.expect("{")
    before = "{" + (yield from source.spaces())
    if source.text[source.at] != "}":
        while True:
            give(before)
            key = yield from _key(source, give)
            types = signature.types(json.loads(f'"{key}"')) if signature else frozenset()
            if source.text[source.at] != '"' or not types or "string" in types:
                yield from value(source, give)
            else:
                text = yield from quoted(source)
                give(fitted(json.loads(f'"{text}"'), types) or f'"{text}"')
            before = yield from source.spaces()
            if source.text[source.at] == "}":
                break
            yield from source.literal(",")
            before += "," + (yield from source.spaces())
    source.at += 1
    give(before + "}")


def whole(text: str, signature: Signature | None) -> str:
    """Read an object of arguments that stands in a text of its own. Raise MalformedOutput where it is none."""
    source = TextReader(text.strip(), final=True)
    found: list[str] = []
    try:
        run(arguments(source, signature, found.append))
    except OutputEnded:
        raise MalformedOutput from None
    if source.at < len(source.text):
        raise MalformedOutput
    return "".join(found)
