"""Reads JSON as models write it, piece by piece: escapes raw newlines in strings, and checks everything else."""

import json
import re
from collections.abc import Callable

from orchard.formats.schema import Signature, encodable, fitted, loads
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Parser, TextReader

# Characters and whole escapes, as they may stand in a JSON string.
_RUN = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))++')
_BEGUN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_SCALAR = re.compile(r"[-+.\w]*")
_CLOSING = {"[": "]", "{": "}"}
DEEPEST = 200
"""The deepest nesting of arrays and objects."""

Emit = Callable[[str], object]


def string(reader: TextReader, emit: Emit) -> Parser[None]:
    """Read a string from after its opening quote to its closing one, inclusive; `emit` gets its JSON text."""
    while True:
        text, at = reader.text, reader.at
        if run := _RUN.match(text, at):
            reader.at = run.end()
            emit(run[0])
        elif at == len(text):
            yield from reader.more()
        elif text[at] == '"':
            reader.at += 1
            return
        elif text[at] != "\\":
            reader.at += 1
            emit(json.dumps(text[at])[1:-1])
        elif _BEGUN_ESCAPE.fullmatch(text, at):
            yield from reader.more()
        else:
            raise MalformedOutput


def quoted(reader: TextReader) -> Parser[str]:
    """Read a string. Return its JSON text without quotes."""
    yield from reader.literal('"')
    found: list[str] = []
    yield from string(reader, found.append)
    return "".join(found)


def plain(reader: TextReader) -> Parser[str]:
    """Read a string. Return its value. Raise MalformedOutput if that is not valid text."""
    found: str = json.loads(f'"{(yield from quoted(reader))}"')
    if not encodable(found):
        raise MalformedOutput
    return found


def value(reader: TextReader, emit: Emit) -> Parser[None]:
    """Read a value of any kind; `emit` gets its JSON text piece by piece."""
    opened: list[str] = []  # the closing brackets of the open arrays and objects
    while True:
        char = yield from reader.peek()
        first = char in _CLOSING  # of what stands in one
        if first:
            if len(opened) == DEEPEST:
                raise MalformedOutput
            reader.at += 1
            opened.append(_CLOSING[char])
            emit(char)
        elif char == '"':
            reader.at += 1
            emit('"')
            yield from string(reader, emit)
            emit('"')
        else:
            word = yield from reader.run_of(_SCALAR)
            if loads(word) is None:
                raise MalformedOutput
            emit(word)
        while opened:
            before = yield from reader.spaces()
            if reader.text[reader.at] != opened[-1]:
                break
            reader.at += 1
            emit(before + opened.pop())
            first = False
        else:
            return
        if not first:
            yield from reader.literal(",")
            before += "," + (yield from reader.spaces())
        emit(before)
        if opened[-1] == "}":
            yield from _key(reader, emit)


def _key(reader: TextReader, emit: Emit) -> Parser[str]:
    """Read an object's key, the colon and the white space around it. Return the key's JSON text."""
    key = yield from quoted(reader)
    between = yield from reader.spaces()
    yield from reader.literal(":")
    emit(f'"{key}"{between}:{(yield from reader.spaces())}')
    return key


def arguments(reader: TextReader, signature: Signature | None, emit: Emit) -> Parser[None]:
    """Read white space and an object of arguments.

    `emit` gets the object piece by piece, each value of a type that its parameter may have.
    """
    yield from reader.expect("{")
    before = "{" + (yield from reader.spaces())
    if reader.text[reader.at] != "}":
        while True:
            emit(before)
            key = yield from _key(reader, emit)
            types = signature.types(json.loads(f'"{key}"')) if signature else frozenset()
            if reader.text[reader.at] != '"' or not types or "string" in types:
                yield from value(reader, emit)
            else:
                text = yield from quoted(reader)
                emit(fitted(json.loads(f'"{text}"'), types) or f'"{text}"')
            before = yield from reader.spaces()
            if reader.text[reader.at] == "}":
                break
            yield from reader.literal(",")
            before += "," + (yield from reader.spaces())
    reader.at += 1
    emit(before + "}")


def whole(text: str, signature: Signature | None) -> str:
    """Read a text that is an object of arguments. Raise MalformedOutput if it is not."""
    reader = TextReader(text.strip(), final=True)
    found: list[str] = []
    try:
        list(arguments(reader, signature, found.append))  # it never waits for more of a text that is final
    except OutputEnded:
        raise MalformedOutput from None
    if reader.at < len(reader.text):
        raise MalformedOutput
    return "".join(found)
