"""TaggedArguments that stand between tags: strings as they are, all else as JSON, or as Python writes it.

The schema tells which is which; where it leaves that open, the model may have said it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from orchard.formats.call_grammar import JsonValue, Node, Repetition, TextValue, concatenated, one_of, optional
from orchard.formats.calls import CallEmitter
from orchard.formats.json_text import Give
from orchard.formats.schema import PARAMETER_NAME, Signature, type_of, values, within
from orchard.formats.text_reader import MOST_SPACES, MalformedOutput, OutputEnded, Reading, TextReader, begun
from orchard.formats.typed_value import OTHERS, TypedValueParser, Types

_ANY_NAME = "{}"
TEXT = Types({"string"})
"""The type of values that are strings."""
Opening = Callable[[str, Types], Sequence[str]]
"""Returns the texts before the value of a parameter, by its name and the types that it may have, if they are known."""
Tags = tuple[str, ...]
_Ends = dict[str, tuple[Tags, ...]]  # by the tag that ends a value: what must follow it
UNTOLD = Types({"string", "array", "object", "null"})
"""What a parameter may be whose schema doesn't say."""


class TaggedArguments:
    """The arguments of one call, given out as the text of a JSON object."""

    def __init__(
        self, calls: CallEmitter, signature: Signature | None, opens: str, ends: Tags, *, newlines: bool = False
    ) -> None:
        """Begin arguments: `opens` opens a parameter, and one of `ends` closes them all.

        `newlines`: one after a value's opening tag, and then one before its end tag, are no part of it.
        """
        self._calls = calls
        self._signature = signature
        self._opens = opens
        self._ends = ends
        self._newlines = newlines
        self._before = "{"
        calls.between = True

    def tag(self) -> Reading[str]:
        """Read the tag that begins a parameter, or one that ends them all; return it.

        Raise MalformedOutput where another text stands.
        """
        source = self._calls.source
        yield from source.skip()
        tag = yield from source.choice((self._opens, *self._ends), ends=self._ends)
        if tag is None:
            raise MalformedOutput
        if tag != self._opens:
            self._calls.arguments("{}" if self._before == "{" else "}")
        return tag

    def read(self, name: str, close: str, without: Tags = (), said: Types = frozenset()) -> Reading[None]:
        """Read a value and its end tag. An end tag that is followed by none of the tags of `tag` is part of the value.

        `without`: tags that end the value where its own is missing, if they stand there one after the other, and behind
        them the end of the answer, or the last of them. They are not read. `said`: the types that the model says the
        value may have, which tell where the schema leaves it open.
        """
        source, give = self._calls.source, self._calls.arguments
        known = self._signature.types(name) if self._signature else frozenset()
        types = (known or TEXT | OTHERS) & said or known or UNTOLD
        own_lines = self._newlines and (yield from source.peek()) == "\n"
        source.at += own_lines
        give(f"{self._before}{json.dumps(name, ensure_ascii=False)}: ")
        self._before = ", "
        ends: _Ends = {close: ((self._opens, *self._ends),)}
        if without:
            ends[without[0]] = tuple((tag,) for tag in without[1:])
        value = TypedValueParser(types, give)
        self._calls.between = False
        try:
            yield from self._text(source, ends, value.add, own_lines=own_lines)
        except OutputEnded:
            value.cut()
            raise
        value.end()
        self._calls.between = True

    def _text(self, source: TextReader, ends: _Ends, give: Give, *, own_lines: bool) -> Reading[None]:
        """Read a value up to the first of the tags that is followed as it must be; the first of all is read too."""
        close = next(iter(ends))
        while True:
            text, at = source.text, source.at
            found = [(place, tag) for tag in ends if (place := text.find(tag, at)) >= 0]
            end, tag = min(found, default=(len(text) - max([begun(text, tag, at) for tag in ends]), ""))
            stop = end - 1 if own_lines and end > at and text[end - 1] == "\n" else end
            if stop > at:
                source.at = stop
                give(text[at:stop])
            over = _followed(text[end + len(tag) :], ends[tag], final=source.final) if tag else None
            if over is None:
                yield from source.more()
            elif over:
                source.at = end + len(tag) if tag == close else end
                return
            else:
                source.at = end + len(tag)
                give(text[stop : source.at])


def _followed(rest: str, tags: tuple[Tags, ...], *, final: bool) -> bool | None:
    """Return whether a text goes on with one of each of these tags, or the end cuts that off; None: not known yet.

    Where very much white space stands before one, it doesn't: a model that writes it is not waited for.
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
    before a value tell apart. Raise ValueError where the schema of a strict tool asks for more than can be kept.
    """

    def parameter(name: str, schema: Any) -> Node:
        part = within(schema, signature.schema)
        found = []
        for types, value in _values(part, signature.types(name), close, kinds):
            texts = opening(name, types)
            before = [_named(text, signature) if name == _ANY_NAME else text for text in texts]
            found.append(concatenated(*before, value))
        return one_of(found)

    found = []
    for name, schema in signature.listed().items():
        one = parameter(name, schema)
        found.append(one if name in signature.required else optional(one))
    if signature.open_ended:
        found.append(Repetition(parameter(_ANY_NAME, signature.others)))
    return concatenated(*found)


def may_be_text(types: Types) -> bool:
    """Return whether a parameter may be a string, as far as is known."""
    return not types or "string" in types


def _named(text: str, signature: Signature) -> Node:
    """Return the grammar of a text in which there is the name of a parameter that isn't listed."""
    before, any_name, after = text.partition(_ANY_NAME)
    if not any_name:
        return concatenated(text)
    name = TextValue("", {**PARAMETER_NAME, "not": {"enum": list(signature.properties)}})
    return concatenated(before, name, after)


def _values(schema: Any, types: Types, close: Sequence[str], kinds: Sequence[Types]) -> Iterator[tuple[Types, Node]]:
    """Return the grammars of a parameter's value and the texts behind it, each with the types that it is for."""
    if not may_be_text(types):
        yield types, concatenated(JsonValue(schema), *close)
        return
    for one in _told(schema, types, kinds) or [types]:
        yield one, concatenated(TextValue(close[0], schema, tuple(sorted(one or UNTOLD))), *close[1:])


def _told(schema: Any, types: Types, kinds: Sequence[Types]) -> list[Types]:
    """Return what a parameter may be of each of these kinds: none where its schema lists values of others."""
    listed_types = {type_of(value) for value in values(schema)}
    found = [kind & (types or TEXT | OTHERS) for kind in kinds if not listed_types or kind & listed_types]
    return [one for one in found if one]
