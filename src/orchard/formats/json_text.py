"""Reads JSON as models write it, piece by piece: escapes raw newlines in strings, and checks everything else.

Where the reader allows it, Python's single quotes and constants are read as JSON's, and a missing last brace is added.
"""

import json
import re
from collections.abc import Sequence

from orchard.formats import literals
from orchard.formats.schema import Signature, convert_text, is_encodable, load_json
from orchard.formats.text_reader import MAX_DEPTH, Emit, MalformedOutput, OutputEnded, Parser, TextReader

# Characters and whole escapes, as they may stand in a JSON string.
_RUN = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))++')
_PARTIAL_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_SCALAR = re.compile(r"[-+.\w]*")
_CLOSING = {"[": "]", "{": "}"}
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_QUOTES = "\"'"
_NO_BRACE = "a missing brace"


def read_json_string_rest(reader: TextReader, emit: Emit) -> Parser[None]:
    """Read a string from after its opening quote to its closing one, inclusive; `emit` gets its JSON text."""
    while True:
        text, at = reader.text, reader.at
        if run := _RUN.match(text, at):
            reader.at = run.end()
            emit(run[0])
        elif at == len(text):
            yield from reader.wait_for_text()
        elif text[at] == '"':
            reader.at += 1
            return
        elif text[at] != "\\":
            reader.at += 1
            emit(json.dumps(text[at])[1:-1])
        elif _PARTIAL_ESCAPE.fullmatch(text, at):
            yield from reader.wait_for_text()
        else:
            raise MalformedOutput("a backslash begins no escape of JSON")


def read_json_string(reader: TextReader, emit: Emit) -> Parser[None]:
    """Read a string with its quotes; `emit` gets its JSON text without quotes."""
    quote = yield from reader.peek()
    if quote != '"' and not (quote == "'" and reader.allows("single quotes")):
        raise MalformedOutput("a string is missing")
    reader.at += 1
    if quote == '"':
        yield from read_json_string_rest(reader, emit)
    else:
        yield from literals.read_literal_string_rest(
            reader, literals.PYTHON_OR_JSON, quote, lambda text: emit(literals.escape_json(text))
        )


def _collect_json_string(reader: TextReader) -> Parser[str]:
    found: list[str] = []
    yield from read_json_string(reader, found.append)
    return "".join(found)


def read_decoded_string(reader: TextReader) -> Parser[str]:
    """Read a string. Return its value. Raise MalformedOutput if that is not valid text."""
    found: str = json.loads(f'"{(yield from _collect_json_string(reader))}"')
    if not is_encodable(found):
        raise MalformedOutput("a text is not valid Unicode")
    return found


def read_json_value(reader: TextReader, emit: Emit) -> Parser[None]:
    """Read a value of any kind; `emit` gets its JSON text piece by piece."""
    opened: list[str] = []  # the closing brackets of the open arrays and objects
    while True:
        char = yield from reader.peek()
        first = char in _CLOSING  # the next item is the first of its array or object
        if first:
            if len(opened) == MAX_DEPTH:
                raise MalformedOutput("a value is nested too deeply")
            reader.at += 1
            opened.append(_CLOSING[char])
            emit(char)
        elif char in _QUOTES:
            emit('"')
            yield from read_json_string(reader, emit)
            emit('"')
        else:
            word = yield from reader.read_run(_SCALAR)
            if word in _PYTHON and reader.allows("a constant of Python"):
                word = _PYTHON[word]
            if load_json(word) is None:
                raise MalformedOutput("a value is not JSON")
            emit(word)
        while opened:
            before = yield from reader.read_spaces()
            if reader.text[reader.at] != opened[-1]:
                break
            reader.at += 1
            emit(before + opened.pop())
            first = False
        else:
            return
        if not first:
            yield from reader.expect(",")
            before += "," + (yield from reader.read_spaces())
        emit(before)
        if opened[-1] == "}":
            yield from _read_json_key(reader, emit)


def _read_json_key(reader: TextReader, emit: Emit) -> Parser[str]:
    """Read an object's key, the colon and the white space around it. Return the key's JSON text."""
    key = yield from _collect_json_string(reader)
    between = yield from reader.read_spaces()
    yield from reader.expect(":")
    emit(f'"{key}"{between}:{(yield from reader.read_spaces())}')
    return key


def read_member_end(reader: TextReader, ends: Sequence[str], *, complete: bool = True) -> Parser[str]:
    """Read white space, and the comma or the brace after an object's member. Return what was read.

    Where it is allowed, the brace may be missing before one of `ends`, and if the object is `complete` at the end of an
    answer that isn't cut off.
    """
    try:
        before = yield from reader.read_spaces()
    except OutputEnded:
        if reader.cut_off or not (complete and reader.allows(_NO_BRACE)):
            raise
        return "}"
    found = yield from reader.accept((",", "}"))
    if not found:
        end = yield from reader.accept(ends)
        reader.at -= len(end or "")
        if not (end and reader.allows(_NO_BRACE)):
            raise MalformedOutput("a comma or a brace is missing")
    return before + (found or "}")


def read_json_arguments(
    reader: TextReader, signature: Signature | None, emit: Emit, ends: Sequence[str] = ()
) -> Parser[None]:
    """Read white space and an object of arguments; `ends`: the tags that may follow it.

    `emit` gets the object piece by piece, each value of a type that its parameter may have.
    """
    yield from reader.expect_spaced("{")
    before = "{" + (yield from reader.read_spaces())
    if reader.text[reader.at] == "}":
        reader.at += 1
        emit(before + "}")
        return
    while True:
        emit(before)
        key = yield from _read_json_key(reader, emit)
        types = signature.types(json.loads(f'"{key}"')) if signature else frozenset()
        if reader.text[reader.at] not in _QUOTES or not types or "string" in types:
            yield from read_json_value(reader, emit)
        else:
            text = yield from _collect_json_string(reader)
            emit(convert_text(json.loads(f'"{text}"'), types) or f'"{text}"')
        before = yield from read_member_end(reader, ends)
        if before.endswith("}"):
            emit(before)
            return
        before += yield from reader.read_spaces()


def parse_json_arguments(text: str, signature: Signature | None) -> str:
    """Read a text that is an object of arguments. Raise MalformedOutput if it is not."""
    reader = TextReader(text.strip(), final=True)
    found: list[str] = []
    try:
        list(read_json_arguments(reader, signature, found.append))  # it never waits for more of a text that is final
    except OutputEnded:
        raise MalformedOutput from None
    if reader.at < len(reader.text):
        raise MalformedOutput
    return "".join(found)
