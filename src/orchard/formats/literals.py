"""Turns arguments in notations other than JSON into the text of a JSON object, piece by piece.

Python's keywords, `a=1, b='x')`, and Gemma's, `a:1,b:<|"|>x<|"|>}`. Strings are emitted piece by piece, numbers and
names once they are complete. Nothing is evaluated. The grammars of such arguments use JSON for values that they can't
express in the notation.
"""

import json
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import (
    JsonValue,
    Literal,
    Node,
    Repetition,
    TextValue,
    alternation,
    concatenation,
    optional_part,
)
from orchard.formats.schema import (
    DEFINITIONS,
    PARAMETER_NAME,
    Signature,
    convert_text,
    enum_values,
    is_encodable,
    standalone_schema,
)
from orchard.formats.text_reader import (
    MAX_DEPTH,
    Emit,
    MalformedOutput,
    OutputEnded,
    Parser,
    TextReader,
    partial_tag_length,
)


class Notation(Struct, frozen=True):
    """How a model writes values.

    `quotes`: what opens and closes a string; a backslash is an escape in those that begin with a quotation mark.
    `assign` comes between an argument's name and its value; `close` ends the arguments. `lists`: what opens a list.
    `words`: unquoted text that is not a number or a constant is a string, too. `slashes`: "\\/" is a slash, as in JSON.
    """

    quotes: tuple[str, ...]
    assign: str
    close: str
    lists: str = "["
    words: bool = False
    slashes: bool = False


PYTHON = Notation(('"""', "'''", '"', "'"), "=", ")", lists="[(")
PYTHON_OR_JSON = replace(PYTHON, slashes=True)

_CLOSING = {"[": "]", "(": ")", "{": "}"}
_NAME = re.compile(r"[\w.\-$@/ ]*")  # schemas have names that no notation has
_WORD = re.compile(r"[\w.+\-]*")
_FREE_WORD = re.compile(r"[^,\[\]{}<\n]*")

_CONSTANTS = {"None": "null", "True": "true", "False": "false", "null": "null", "true": "true", "false": "false"}
_MAX_NUMBER_CHARS = 400
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[1-9][0-9_]*|0)")
_FLOAT = re.compile(r"[-+]?(?=[0-9_]*\.|[0-9_]+[eE])(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?")

_ESCAPE = re.compile(r"\\(?:[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")
_PARTIAL_ESCAPE = re.compile(r"\\(?:[0-7]{1,2}|x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})")
_SIMPLE_ESCAPES = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True)) | {"\n": ""}

_MAX_GRAMMAR_DEPTH = 5  # objects and arrays within each other that are written in the notation
_NOTES = {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
_STRING = {"type", "enum", "const", "pattern", "minLength", "maxLength", "format"}
_OBJECT = {"type", "properties", "required", "additionalProperties"}

ValueGrammar = Callable[[dict[str, Any]], Node]
"""Returns the grammar of a value that matches a schema."""


def read_literal_arguments(
    reader: TextReader, notation: Notation, signature: Signature | None, emit: Emit
) -> Parser[None]:
    """Read arguments from after their opening bracket to the closing one, inclusive; `emit` gets a JSON object's text.

    Text becomes a value of a type that its parameter may have, if it can be read as one.
    """
    emit("{")
    before = ""
    while (yield from reader.skip()) != notation.close:
        name = yield from _read_literal_key(reader, notation, _NAME)
        yield from reader.expect(notation.assign)
        yield from reader.skip()
        emit(f"{before}{_dumps(name)}: ")
        before = ", "
        types = signature.types(name) if signature else frozenset()
        quoted = (yield from reader.peek()) in {quote[0] for quote in notation.quotes}
        if quoted and types and "string" not in types:
            text = yield from _read_literal_string(reader, notation)
            emit(convert_text(text, types) or _dumps(text))
        elif notation.words and "string" in types and not quoted and reader.text[reader.at] not in _CLOSING:
            word = yield from _read_free_word(reader)
            emit("null" if word == "null" else convert_text(word, types) or _dumps(word))
        else:
            yield from read_literal(reader, notation, emit)
        if (yield from reader.skip()) != ",":
            break
        reader.at += 1
    yield from reader.expect(notation.close)
    emit("}")


def read_literal(reader: TextReader, notation: Notation, emit: Emit) -> Parser[None]:
    """Read a value of any kind; `emit` gets its JSON text piece by piece."""
    opened: list[str] = []  # what will close the lists and objects that the value stands in
    before = ""
    while True:
        char = yield from reader.skip()
        if not opened or char != opened[-1]:
            emit(before)
            before = ""
            if opened and opened[-1] == "}":
                key = yield from _read_literal_key(reader, notation, _NAME if notation.words else None)
                yield from reader.expect(":")
                emit(f"{_dumps(key)}: ")
                char = yield from reader.skip()
            if char in notation.lists or char == "{":
                reader.at += 1
                emit("{" if char == "{" else "[")
                opened.append(_CLOSING[char])
                if len(opened) > MAX_DEPTH:
                    raise MalformedOutput
                continue
            yield from _read_scalar_literal(reader, notation, emit)
        while opened and (yield from reader.skip()) == opened[-1]:
            reader.at += 1
            emit("}" if opened.pop() == "}" else "]")
        if not opened:
            return
        yield from reader.expect(",")
        before = ", "


def _read_literal_key(reader: TextReader, notation: Notation, bare: re.Pattern[str] | None) -> Parser[str]:
    """Read a key and the white space after it: a string, a name that matches `bare`, or else a constant."""
    if (yield from reader.peek()) in {quote[0] for quote in notation.quotes}:
        key = yield from _read_literal_string(reader, notation)
    else:
        key = (yield from reader.read_run(bare or _WORD)).rstrip()
        if not key:
            raise MalformedOutput
        if not bare:
            key = _constant_json(key)
    yield from reader.skip()
    return key


def _read_scalar_literal(reader: TextReader, notation: Notation, emit: Emit) -> Parser[None]:
    if (yield from reader.peek()) in {quote[0] for quote in notation.quotes}:
        quote = yield from _read_quote(reader, notation)
        emit('"')
        yield from read_literal_string_rest(reader, notation, quote, lambda text: emit(escape_json(text)))
        emit('"')
    elif notation.words:
        word = yield from _read_free_word(reader)
        try:
            emit(_constant_json(word))
        except MalformedOutput:
            emit(_dumps(word))
    else:
        emit(_constant_json((yield from reader.read_run(_WORD))))


def _read_free_word(reader: TextReader) -> Parser[str]:
    word = (yield from reader.read_run(_FREE_WORD)).rstrip()
    if not word:
        raise MalformedOutput
    return word


def _constant_json(word: str) -> str:
    """Return the JSON text of a number or of a constant's name. Raise MalformedOutput if a word is neither."""
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if len(word) > _MAX_NUMBER_CHARS:
        raise MalformedOutput
    try:
        if _JSON_NUMBER.fullmatch(word) and math.isfinite(float(word)):
            return word
        if _INTEGER.fullmatch(word):
            return str(int(word, 0))
        if _FLOAT.fullmatch(word) and math.isfinite(number := float(word)):
            return repr(number)
    except ValueError:  # underscores where none may stand
        pass
    raise MalformedOutput


def _read_quote(reader: TextReader, notation: Notation) -> Parser[str]:
    quote = yield from reader.accept(notation.quotes)
    if quote is None:
        raise OutputEnded if reader.final else MalformedOutput
    return quote


def _read_literal_string(reader: TextReader, notation: Notation) -> Parser[str]:
    quote = yield from _read_quote(reader, notation)
    found: list[str] = []
    yield from read_literal_string_rest(reader, notation, quote, found.append)
    return "".join(found)


def read_literal_string_rest(reader: TextReader, notation: Notation, quote: str, emit: Emit) -> Parser[None]:
    """Read a string from behind its opening quote, over the closing one; `emit` gets what it stands for."""
    if quote[0] not in "'\"":
        yield from reader.read_until(quote, emit)
        return
    stops = re.compile(rf"\\|{quote}")
    while True:
        mark = stops.search(reader.text, reader.at)
        stop = mark.start() if mark else len(reader.text) - partial_tag_length(reader.text, quote, reader.at)
        if stop > reader.at:
            found, reader.at = reader.text[reader.at : stop], stop
            emit(found)
        if not mark:
            yield from reader.wait_for_text()
        elif mark[0] == quote:
            reader.at += len(quote)
            return
        else:
            emit((yield from _read_escape(reader, notation)))


def _read_escape(reader: TextReader, notation: Notation) -> Parser[str]:
    """Read an escape; if a backslash doesn't begin one, it stands for itself."""
    while len(reader.text) - reader.at < 2:
        yield from reader.wait_for_text()
    char = reader.text[reader.at + 1]
    if char == "/" and notation.slashes:
        reader.at += 2
        return char
    if char in _SIMPLE_ESCAPES:
        reader.at += 2
        return _SIMPLE_ESCAPES[char]
    while _PARTIAL_ESCAPE.fullmatch(reader.text, reader.at) and not reader.final:
        yield from reader.wait_for_text()
    found = _ESCAPE.match(reader.text, reader.at)
    reader.at += len(found[0]) if found else 1
    code = int(found[0].lstrip("\\xuU"), 16 if char in "xuU" else 8) if found else 0x5C
    return chr(code) if code <= 0x10FFFF else "\ufffd"


def _dumps(text: str) -> str:
    return json.dumps(text, ensure_ascii=not is_encodable(text))


def escape_json(text: str) -> str:
    """Return a text as it stands in a JSON string."""
    return _dumps(text)[1:-1]


def keywords_grammar(tool: Tool, assign: str, separator: str, value: ValueGrammar) -> Node:
    """Return the grammar of a tool's arguments, `name` `assign` value, in the order of its schema."""
    signature = Signature(tool)
    if signature.is_open_ended and not signature.properties:
        others = value(_object_schema(signature.other_schema, signature.schema))
        one = concatenation(TextValue("", PARAMETER_NAME), assign, others)
        return optional_part(concatenation(one, Repetition(concatenation(separator, one))))
    return _properties_grammar(
        {**signature.schema, "properties": signature.parameter_schemas()}, assign, separator, value
    )


def _properties_grammar(schema: dict[str, Any], assign: str, separator: str, value: ValueGrammar) -> Node:
    properties, required = schema.get("properties"), schema.get("required")
    properties = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    entries = [
        (concatenation(name + assign, value(_object_schema(one, schema))), name in needed)
        for name, one in properties.items()
        if one is not False
    ]
    return _list_grammar(entries, separator)


def _list_grammar(entries: list[tuple[Node, bool]], separator: str) -> Node:
    """Return the grammar of a list of all needed entries (True) and any of the others, in this order.

    If none is needed, the order is free: any entry may come first, and a fixed order would repeat the rest for each.
    """
    first = next((place for place, (_, needed) in enumerate(entries) if needed), None)
    if first is None:
        if not entries:
            return Literal("")
        one = alternation([entry for entry, _ in entries])
        more = [Repetition(concatenation(separator, one), len(entries) - 1)] if len(entries) > 1 else []
        return optional_part(concatenation(one, *more))
    before = (optional_part(concatenation(entry, separator)) for entry, _ in entries[:first])
    after = (
        concatenation(separator, entry) if needed else optional_part(concatenation(separator, entry))
        for entry, needed in entries[first + 1 :]
    )
    return concatenation(*before, entries[first][0], *after)


def python_value_grammar(schema: dict[str, Any]) -> Node:
    """Return the grammar of an argument in Python: JSON with Python's constants."""
    if not schema.keys() - _NOTES - {"type", *DEFINITIONS}:
        if schema.get("type") == "boolean":
            return alternation([Literal("True"), Literal("False")])
        if schema.get("type") == "null":
            return Literal("None")
    return JsonValue(schema)


def gemma_value_grammar(quote: str, schema: dict[str, Any], depth: int = _MAX_GRAMMAR_DEPTH) -> Node:
    """Return the grammar of an argument in Gemma's notation: strings between two tags, names without quotes."""
    keys = schema.keys() - _NOTES - {*DEFINITIONS}
    kind = schema.get("type")
    inner = partial(gemma_value_grammar, quote, depth=depth - 1)
    listed_values = enum_values(schema)
    strings = kind == "string" or (not kind and listed_values and all(isinstance(one, str) for one in listed_values))
    if strings and keys <= _STRING:
        return concatenation(quote, TextValue(quote, schema))
    if kind == "array" and keys == {"type", "items"} and depth:
        item = inner(_object_schema(schema["items"], schema))
        return concatenation("[", optional_part(concatenation(item, Repetition(concatenation(",", item)))), "]")
    if kind == "object" and schema.get("properties") and keys <= _OBJECT and depth:
        return concatenation("{", _properties_grammar(schema, ":", ",", inner), "}")
    return JsonValue(schema)


def _object_schema(part: Any, root: dict[str, Any]) -> dict[str, Any]:
    return standalone_schema(part, root) if isinstance(part, dict) else {}
