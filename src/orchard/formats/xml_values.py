"""Arguments that stand between tags: strings as they are, all else as JSON, or as Python writes it.

The schema tells which is which; where it leaves that open, the model may have said it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from orchard.formats.call_grammar import json_body, literal, text_up_to, within
from orchard.formats.calls import Region
from orchard.formats.json_text import Give
from orchard.formats.listed import NAME, listed, open_ended
from orchard.formats.schema import Signature, type_of, values
from orchard.formats.text_reader import MOST_SPACES, OutputEnded, Reading, TextReader, begun
from orchard.formats.typed_value import OTHERS, Typed, Types

_ANY_NAME = "{}"
TEXT = Types({"string"})
"""The type of values that are strings."""
Opening = Callable[[str, Types], Sequence[str]]
"""Gives the texts before the value of a parameter, by its name and the types that it may have, if they are known."""
Tags = tuple[str, ...]
_Ends = dict[str, tuple[Tags, ...]]  # by the tag that ends a value: what must follow it
UNTOLD = Types({"string", "array", "object", "null"})
"""What a parameter may be whose schema doesn't say."""


class Arguments:
    """The arguments of one call, given to a region as the text of a JSON object."""

    def __init__(self, region: Region, signature: Signature | None, *, newlines: bool) -> None:
        """`newlines`: one after a value's opening tag, and then one before its end tag, are no part of it."""
        self._region = region
        self._signature = signature
        self._newlines = newlines
        self._before = "{"
        region.between = True

    def read(
        self, name: str, close: str, follows: Tags, without: Tags = (), said: Types = frozenset()
    ) -> Reading[None]:
        """Read a value and its end tag. An end tag that none of `follows` follows is part of the value.

        `without`: tags that end the value where its own is missing, if they stand there one after the other, and behind
        them the end of the answer, or the last of them. They are not read. `said`: the types that the model says the
        value may have, which tell where the schema leaves it open.
        """
        source, give = self._region.source, self._region.arguments
        known = self._signature.types(name) if self._signature else frozenset()
        types = (known or TEXT | OTHERS) & said or known or UNTOLD
        own_lines = self._newlines and (yield from source.peek()) == "\n"
        source.at += own_lines
        give(f"{self._before}{json.dumps(name, ensure_ascii=False)}: ")
        self._before = ", "
        ends: _Ends = {close: (follows,)}
        if without:
            ends[without[0]] = tuple((tag,) for tag in without[1:])
        value = Typed(types, give)
        self._region.between = False
        try:
            yield from self._text(source, ends, value.add, own_lines=own_lines)
        except OutputEnded:
            value.cut()
            raise
        value.end()
        self._region.between = True

    def end(self) -> None:
        """Say that no argument follows."""
        self._region.arguments("{}" if self._before == "{" else "}")

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
    """Whether a text goes on with one of each of these tags; also where the end cuts that off. None: not known yet.

    Where very much white space stands before one, it doesn't: a model that writes it is not waited for.
    """
    for one_of in tags:
        spaces, rest = len(rest), rest.lstrip()
        if spaces - len(rest) > MOST_SPACES:
            return False
        found = next((tag for tag in one_of if rest.startswith(tag)), None)
        if found is None:
            begun = any(tag.startswith(rest) for tag in one_of)
            return (final or None) if begun else False
        rest = rest[len(found) :]
    return True


def body_shape(signature: Signature, opening: Opening, close: Sequence[str], kinds: Sequence[Types] = ()) -> str:
    """Give the expression for a call's arguments: those that are listed, in their order, and then others.

    `close` are the texts behind a value, of which the first is what ends a string. A tag that may be a token of its own
    is a text of its own. `kinds`: the types that the texts before a value tell apart. Raises ValueError where the
    schema of a strict tool asks for more than can be kept.
    """

    def parameter(name: str, schema: Any) -> str:
        found = []
        part = within(schema, signature.schema)
        for types, value in _value_shapes(part, signature.types(name), close, kinds):
            texts = [text for text in opening(name, types) if text]
            before = [_named(text, signature) if name == _ANY_NAME else literal(text) for text in texts]
            found.append(" ".join((*before, value)))
        return found[0] if len(found) == 1 else f"({' | '.join(found)})"

    found = []
    for name, schema in listed(signature).items():
        one = parameter(name, schema)
        found.append(one if name in signature.required else f"({one})?")
    if open_ended(signature):
        found.append(f"({parameter(_ANY_NAME, signature.others)})*")
    return " ".join(found) or literal("")


def may_be_text(types: Types) -> bool:
    """Whether a parameter may be a string, as far as is known."""
    return not types or "string" in types


def _named(text: str, signature: Signature) -> str:
    """Give the expression for a text in which there is the name of a parameter that isn't listed."""
    before, any_name, after = text.partition(_ANY_NAME)
    if not any_name:
        return literal(text)
    name = text_up_to("", {**NAME, "not": {"enum": list(signature.properties)}})
    return " ".join((literal(before), name, literal(after)))


def _value_shapes(
    schema: Any, types: Types, close: Sequence[str], kinds: Sequence[Types]
) -> Iterator[tuple[Types, str]]:
    """Give the expressions for a parameter's value and the texts behind it, each with the types that it is for."""
    if not may_be_text(types):
        yield types, " ".join((json_body(schema), *map(literal, filter(None, close))))
        return
    for one in _told(schema, types, kinds) or [types]:
        text = text_up_to(close[0], schema, sorted(one or UNTOLD))
        yield one, " ".join((text, *map(literal, filter(None, close[1:]))))


def _told(schema: Any, types: Types, kinds: Sequence[Types]) -> list[Types]:
    """Give what a parameter may be of each of these kinds: none where its schema lists values of others."""
    listed_types = {type_of(value) for value in values(schema)}
    found = [kind & (types or TEXT | OTHERS) for kind in kinds if not listed_types or kind & listed_types]
    return [one for one in found if one]
