"""Reads arguments between tags: strings as they are, other values as JSON.

The schema tells the types; if it doesn't, the model may have said them. If a value can't be a string, arrays and
objects are also read in Python's notation.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from orchard.formats import json_text, literals
from orchard.formats.call_grammar import (
    JsonValue,
    Node,
    Repetition,
    TextValue,
    alternation,
    concatenation,
    optional_part,
)
from orchard.formats.calls import MAX_HELD_CHARS, CallEmitter
from orchard.formats.fit import fits_parameter
from orchard.formats.schema import (
    CONSTANT_WORDS,
    PARAMETER_NAME,
    Signature,
    convert_text,
    enum_values,
    json_type,
    standalone_schema,
)
from orchard.formats.text_reader import (
    MOST_SPACES,
    Emit,
    MalformedOutput,
    OutputEnded,
    Parser,
    TextReader,
    partial_tag_length,
)

Types = frozenset[str]
_ANY_NAME = "{}"
_DIGITS = "-0123456789"
# The first characters of values, by type, except for strings.
_BEGINNINGS = {"array": "[(", "object": "{", "null": "nN", "boolean": "tTfF", "integer": _DIGITS, "number": _DIGITS}
NON_TEXT_TYPES = Types(_BEGINNINGS)
"""The types of values that are not strings."""
_NUMBER = re.compile(r"[-+.0-9eE]*")
_CONSTANTS = tuple(form(word) for word in CONSTANT_WORDS for form in (str, str.title, str.upper))
TEXT_TYPES = Types({"string"})
"""The type of values that are strings."""
_NAME_IN_TAG = re.compile(r"""\s*(?:key=)?["']?([^"'<>=\n]+)["'<>\n]""")  # of a parameter, behind what opens it
_MAX_HEAD_CHARS = 300  # characters that are waited for, to find such a name
Opening = Callable[[str, Types], Sequence[str]]
"""Returns the texts before the value of a parameter, by its name and the types that it may have, if they are known."""
Tags = tuple[str, ...]
_Ends = dict[str, tuple[Tags, ...]]  # by the tag that ends a value: what must follow it
UNSPECIFIED_TYPES = Types({"string", "array", "object", "null"})
"""The types of a parameter whose schema doesn't say them."""


class TypedValueParser:
    """Reads one value as its text arrives.

    It is held back while it may be a string or something else. If it can't be a string, it is held back until there is
    enough of it: if it breaks before that, it becomes a string; if it breaks later, the rest is emitted raw.
    """

    def __init__(self, types: Types, emit: Emit) -> None:
        """`types`: those that the value may have. `emit` gets its JSON text piece by piece."""
        self._types = types
        self._emit = emit
        self._reader = TextReader()
        self._held: list[str] = []
        self._found: list[str] = []  # its JSON text, as something else than a string
        self._length = 0
        self._is_complete = False  # an array or an object was read to its end
        self._is_certain = False  # it is not a string
        self._parser = self._read() if types - {"string"} else None
        if not self._parser:
            emit('"')

    def add(self, text: str) -> None:
        """Take the next characters."""
        if not self._parser:
            self._emit(text if self._is_certain else _escape_json(text))
            return
        self._held.append(text)
        self._reader.append(text)
        try:
            next(self._parser)
        except MalformedOutput:
            self._parser = None
            self._emit(self._take_rest() if self._is_certain else f'"{_escape_json("".join(self._held))}')
        if self._is_certain:
            self._held.clear()

    def end(self) -> None:
        """End the value."""
        if self._is_certain:
            self.cut()
        elif not self._parser:
            self._emit('"')
        elif self._is_complete:
            self._emit("".join(self._found))
        else:
            text = "".join(self._held)
            self._emit(convert_text(text, self._types) or json.dumps(text, ensure_ascii=False))

    def cut(self) -> None:
        """End the text inside the value. If the value is certain, emit what is held back as it is."""
        if self._is_certain and self._parser:
            self._emit(self._take_rest())

    def _take_rest(self) -> str:
        return self._reader.take_text() + self._reader.text[self._reader.at :]

    def _read(self) -> Parser[None]:
        """Read a value other than a string, and white space after it. Raise MalformedOutput if there is none."""
        reader = self._reader
        first = yield from reader.skip()
        if not any(first in _BEGINNINGS.get(one, "") for one in self._types):
            raise MalformedOutput
        if first in "[({":
            if "string" in self._types:
                yield from json_text.read_json_value(reader, self._take)
            else:
                yield from literals.read_literal(reader, literals.PYTHON_OR_JSON, self._take)
            self._is_complete = True
        elif first in _DIGITS:
            yield from reader.read_run(_NUMBER)
        elif not (yield from reader.accept(_CONSTANTS)):
            raise MalformedOutput
        yield from reader.skip()
        raise MalformedOutput

    def _take(self, text: str) -> None:
        self._reader.mark()
        self._found.append(text)
        self._length += len(text)
        if self._length > MAX_HELD_CHARS and "string" not in self._types:
            self._is_certain = True
            self._emit("".join(self._found))
            self._found.clear()


def _escape_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def read_typed_value(calls: CallEmitter, types: Types, text: Callable[[Emit], Parser[None]]) -> Parser[None]:
    """Read a value of one of the types; `text` reads its text and the tag that ends it."""
    value = TypedValueParser(types, calls.add_arguments)
    calls.between_values = False
    try:
        yield from text(value.add)
    except OutputEnded:
        value.cut()
        raise
    value.end()
    calls.between_values = True


class TaggedArguments:
    """The arguments of one call, emitted as the text of a JSON object.

    A value without an end tag ends before the next parameter. Only the text up to the call's end shows where that is,
    so the value is held back until then.
    """

    def __init__(
        self,
        calls: CallEmitter,
        signature: Signature | None,
        opens: str,
        ends: Tags,
        *,
        head: str = ">",
        line: str = "",
        newlines: bool = False,
    ) -> None:
        """Begin arguments: `opens` opens a parameter, up to `head`, and one of `ends` closes them all.

        `line`: what the model writes between tags. `newlines`: one after a value's opening tag, and then one before its
        end tag, are no part of it.
        """
        self._calls = calls
        self._head = head
        self._line = line
        # The parameters that the call doesn't have yet, if a value without an end tag may end before them.
        self._missing = set(signature.properties) if signature and calls.is_lenient else set()
        self._is_checked = False  # up to the call's end, no parameter is part of a value
        self._signature = signature
        self._opens = opens
        self._ends = ends
        self._newlines = newlines
        self._before = "{"
        calls.between_values = True

    def read_tag(self) -> Parser[str]:
        """Read the tag that begins a parameter, or one that ends them all; return it.

        Raise MalformedOutput where another text stands.
        """
        reader = self._calls.reader
        yield from reader.skip()
        tag = yield from reader.accept((self._opens, *self._ends), ends=self._ends)
        if tag is None:
            raise MalformedOutput
        if tag != self._opens:
            self._calls.add_arguments("{}" if self._before == "{" else "}")
        return tag

    def read_value(self, name: str, close: str, without: Tags = (), said: Types = frozenset()) -> Parser[None]:
        """Read a value and its end tag. An end tag is part of the value unless a tag that `read_tag` takes follows it.

        `without`: the tags that end the value if its own end tag is missing. They must stand there one after the other,
        before the end of the answer, or before the last of them. They are not read. `said`: the types that the model
        says the value has. They decide where the schema allows several types.
        """
        reader, emit = self._calls.reader, self._calls.add_arguments
        self._missing.discard(name)
        known = self._signature.types(name) if self._signature else frozenset()
        types = (known or TEXT_TYPES | NON_TEXT_TYPES) & said or known or UNSPECIFIED_TYPES
        own_lines = self._newlines and (yield from reader.peek()) == "\n"
        reader.at += own_lines
        emit(f"{self._before}{json.dumps(name, ensure_ascii=False)}: ")
        self._before = ", "
        ends: _Ends = {close: ((self._opens, *self._ends),)}
        if without:
            ends[without[0]] = tuple((tag,) for tag in without[1:])
        yield from read_typed_value(
            self._calls, types, lambda emit: self._read_text(reader, ends, emit, own_lines=own_lines)
        )

    def _read_text(self, reader: TextReader, ends: _Ends, emit: Emit, *, own_lines: bool) -> Parser[None]:
        """Read a value up to the first tag that is followed as it must be, and its own end tag, the first of `ends`."""
        close = next(iter(ends))
        while True:
            text, at = reader.text, reader.at
            tags = (*ends, self._opens) if self._missing else tuple(ends)
            found = [(place, tag) for tag in tags if (place := text.find(tag, at)) >= 0]
            end, tag = min(found, default=(len(text) - max([partial_tag_length(text, tag, at) for tag in tags]), ""))
            on_line = end > at and text[end - 1] == "\n"
            stop = end - 1 if on_line and (own_lines or self._line) else end
            if stop > at:
                reader.at = stop
                emit(text[at:stop])
            over: bool | None = None
            if tag == self._opens:
                rest = end - reader.at
                over = (on_line or not self._line) and (yield from self._parameter_begins(rest + len(tag), close))
                text, stop, end = reader.text, reader.at, reader.at + rest
            elif tag:
                over = _is_followed(text[end + len(tag) :], ends[tag], final=reader.final)
            if over is None:
                yield from reader.wait_for_text()
            elif over:
                if tag == close and not own_lines:
                    emit(text[stop:end])
                reader.at = end + len(tag) if tag == close else end
                return
            else:
                reader.at = end + len(tag)
                emit(text[stop : reader.at])

    def _parameter_begins(self, offset: int, close: str) -> Parser[bool]:
        """Return whether a parameter begins here, and not a value goes on; its name is `offset` characters further.

        A parameter begins if the call has neither this name nor any later one yet, and all their values fit.
        """
        reader, calls = self._calls.reader, self._calls
        while True:
            head = reader.text[reader.at + offset : reader.at + offset + _MAX_HEAD_CHARS]
            found = _NAME_IN_TAG.match(head)
            if found or len(head) == _MAX_HEAD_CHARS or reader.final:
                break
            yield from reader.wait_for_text()
        if not found or found[1].strip() not in self._missing:
            return False
        if not self._is_checked:
            place = reader.place
            reader.at += offset
            try:
                self._is_checked = yield from self._rest_fits(close)
            except MalformedOutput:
                self._is_checked = False
            reader.rewind_to(place)
        if not self._is_checked:
            self._missing.clear()
        return self._is_checked and calls.allows("a parameter without an end tag")

    def _rest_fits(self, close: str) -> Parser[bool]:
        """Read parameters from behind what opens the first one, up to the call's end. Return whether they all fit."""
        reader, signature = self._calls.reader, self._signature
        assert signature
        missing = set(self._missing)
        while True:
            found = _NAME_IN_TAG.match((yield from reader.read_word(self._head, "")) + "<")
            name = found[1].strip() if found else ""
            if name not in missing:
                return False
            missing.discard(name)
            value, tag = yield from self._read_ahead(close, missing)
            if not fits_parameter(signature, name, value.strip() if self._newlines else value):
                return False
            if tag != self._opens:
                return missing.isdisjoint(signature.required)

    def _read_ahead(self, close: str, missing: set[str]) -> Parser[tuple[str, str]]:
        """Read a value, and the tag behind it, over what opens the next parameter. Return both."""
        reader, tags = self._calls.reader, (self._opens, close, *self._ends)
        read = [""]
        while True:
            place, tag = reader.find_first(tags)
            if place > reader.at:
                read.append(reader.text[reader.at : place])
            reader.at = place + len(tag)
            if not tag:
                yield from reader.wait_for_text()
            elif tag == close:
                after = yield from reader.accept_spaced((self._opens, *self._ends))
                if after:
                    return "".join(read), after
                read.append(tag)
            elif tag != self._opens or not self._line or read[-1].endswith("\n"):
                return "".join(read), tag
            else:
                read.append(tag)


def _is_followed(rest: str, tags: tuple[Tags, ...], *, final: bool) -> bool | None:
    """Return whether one tag of each group follows, in order, or the text ends before; None if that is not known yet.

    After more than MOST_SPACES of white space, no tag follows, so that nothing waits for a model that writes them.
    """
    for some in tags:
        spaces, rest = len(rest), rest.lstrip()
        if spaces - len(rest) > MOST_SPACES:
            return False
        found = next((tag for tag in some if rest.startswith(tag)), None)
        if found is None:
            begun = any(tag.startswith(rest) for tag in some)
            return (final or None) if begun else False
        rest = rest[len(found) :]
    return True


def arguments_grammar(
    signature: Signature, opening: Opening, close: Sequence[str], kinds: Sequence[Types] = ()
) -> Node:
    """Return the grammar of a call's arguments: those that are listed, in their order, and then others.

    `close` are the texts behind a value, of which the first is what ends a string. `kinds`: the types that the texts
    before a value tell apart. Raise ValueError if the schema of a strict tool asks for more than a grammar can enforce.
    """

    def parameter(name: str, schema: Any) -> Node:
        part = standalone_schema(schema, signature.schema)
        found = []
        for types, value in _value_grammars(part, signature.types(name), close, kinds):
            texts = opening(name, types)
            before = [_name_grammar(text, signature) if name == _ANY_NAME else text for text in texts]
            found.append(concatenation(*before, value))
        return alternation(found)

    found = []
    for name, schema in signature.parameter_schemas().items():
        one = parameter(name, schema)
        found.append(one if name in signature.required else optional_part(one))
    if signature.is_open_ended:
        found.append(Repetition(parameter(_ANY_NAME, signature.other_schema)))
    return concatenation(*found)


def may_be_text(types: Types) -> bool:
    """Return whether a parameter may be a string, as far as is known."""
    return not types or "string" in types


def _name_grammar(text: str, signature: Signature) -> Node:
    """Return the grammar of a text in which there is the name of a parameter that isn't listed."""
    before, any_name, after = text.partition(_ANY_NAME)
    if not any_name:
        return concatenation(text)
    name = TextValue("", {**PARAMETER_NAME, "not": {"enum": list(signature.properties)}})
    return concatenation(before, name, after)


def _value_grammars(
    schema: Any, types: Types, close: Sequence[str], kinds: Sequence[Types]
) -> Iterator[tuple[Types, Node]]:
    """Return the grammars of a parameter's value and the texts behind it, each with the types that it is for."""
    if not may_be_text(types):
        yield types, concatenation(JsonValue(schema), *close)
        return
    # The parameter's types of each kind: none if its schema lists values, and none of them is of that kind.
    listed_types = {json_type(value) for value in enum_values(schema)}
    told = [kind & (types or TEXT_TYPES | NON_TEXT_TYPES) for kind in kinds if not listed_types or kind & listed_types]
    for one in list(filter(None, told)) or [types]:
        yield one, concatenation(TextValue(close[0], schema, tuple(sorted(one or UNSPECIFIED_TYPES))), *close[1:])
