"""Calls of MiniMax M3: in a section, with arguments as elements within each other.

Before each tag stands a token, here written as `~`: `~<tool_call>\\n~<invoke name="f">~<city>Paris~</city>~</invoke>\\n
~</tool_call>`. The members of an object are elements with their names, those of an array are called `item`, and what is
null is left out: https://huggingface.co/MiniMaxAI/MiniMax-M3/blob/main/chat_template.jinja
"""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import DEFINITIONS, CallShape, CallsShape, json_body, literal, text_up_to, within
from orchard.formats.calls import Region, read_section
from orchard.formats.listed import listed
from orchard.formats.schema import Signature
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Reading
from orchard.formats.typed_value import Typed, Types
from orchard.formats.xml_values import UNTOLD, may_be_text

_MARK = "]<]minimax[>["
_SECTION, _END_SECTION = f"{_MARK}<tool_call>", f"{_MARK}</tool_call>"
_CALL, _END_CALL = f"{_MARK}<invoke name=", f"{_MARK}</invoke>"
_OPEN, _CLOSE = f"{_MARK}<", f"{_MARK}</"
_ITEM = "item"
_OPEN_ITEM = f"{_OPEN}{_ITEM}>"
_NESTED = Types({"array", "object"})
_DEEPEST = 32  # elements within each other that are read
_DEEPEST_SHAPE = 5  # and that a grammar keeps; what is deeper is JSON
_NOTES = {"title", "description", "default", "examples", "additionalProperties", *DEFINITIONS}
_OBJECT = {"type", "properties", "required"}


class MiniMaxM3Calls(Struct, frozen=True):
    """MiniMax M3's calls."""

    opens: tuple[str, ...] = (_SECTION, _CALL)
    leads: tuple[str, ...] = ()
    closes: str = _END_SECTION

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read calls, and the tag that ends them all."""
        yield from read_section(region, opener, (_SECTION, _CALL, _END_SECTION), _call)

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Return what the model would write for one or more calls of these tools."""
        calls = tuple(
            CallShape(
                tool.name,
                f'{_CALL}"{tool.name}">',
                _members_shape(Signature(tool), _DEEPEST_SHAPE),
                f"{_END_CALL}\n",
                (_MARK,),
            )
            for tool in tools
        )
        return CallsShape(_SECTION, f"{_SECTION}\n", calls, "", _END_SECTION)


def _call(region: Region) -> Reading[None]:
    name = (yield from region.source.word(">", "<\n")).strip().strip("\"'")
    if not name:
        raise MalformedOutput
    signature = region.start(name) or Signature(Tool(name))
    region.between = True
    yield from _members(region, signature, _DEEPEST)
    yield from region.close(_END_CALL)


def _members(region: Region, signature: Signature, depth: int) -> Reading[None]:
    """Read the elements of an object, up to the tag that closes it."""
    before = "{"
    while (name := (yield from _opened(region))) is not None:
        region.arguments(f"{before}{json.dumps(name, ensure_ascii=False)}: ")
        before = ", "
        yield from _value(region, name, signature, depth)
    region.arguments("{}" if before == "{" else "}")


def _items(region: Region, signature: Signature, depth: int) -> Reading[None]:
    """Read the elements of an array, up to the tag that closes it."""
    before = "["
    while (name := (yield from _opened(region))) is not None:
        if name != _ITEM:
            raise MalformedOutput
        region.arguments(before)
        before = ", "
        yield from _value(region, name, signature, depth)
    region.arguments("[]" if before == "[" else "]")


def _opened(region: Region) -> Reading[str | None]:
    """Read a tag that opens an element; return its name. None, and nothing is read, where one closes."""
    source = region.source
    yield from source.skip()
    tag = yield from source.choice((_OPEN, _CLOSE))
    if tag == _OPEN:
        if not (name := (yield from source.word(">", "<\n"))):
            raise MalformedOutput
        return name
    if tag is None:
        raise OutputEnded if source.final and _CLOSE.startswith(source.text[source.at :]) else MalformedOutput
    source.at -= len(tag)
    return None


def _value(region: Region, name: str, signature: Signature, depth: int) -> Reading[None]:
    """Read the value of an element and the tag that closes it."""
    source, types = region.source, signature.types(name) or UNTOLD
    close = f"{_CLOSE}{name}>"
    tag = (yield from source.choice((_OPEN, _OPEN_ITEM, close))) if types & _NESTED else None
    if tag is None:
        yield from _scalar(region, types, close)
    elif tag == close:
        region.arguments('""' if "string" in types else "[]" if "array" in types else "{}")
    elif not depth:
        raise MalformedOutput
    else:
        source.at -= len(tag)
        array = "array" in types and ("object" not in types or tag == _OPEN_ITEM)
        inner = _inner(signature, name, "array" if array else "object")
        yield from (_items if array else _members)(region, inner, depth - 1)
        yield from source.literal(close)


def _scalar(region: Region, types: Types, close: str) -> Reading[None]:
    value = Typed(types, region.arguments)
    region.between = False
    try:
        yield from region.source.until(close, value.add)
    except OutputEnded:
        value.cut()
        raise
    value.end()
    region.between = True


def _inner(signature: Signature, name: str, kind: str) -> Signature:
    """Return what is known of the members of an object, or of the items of an array, that is a parameter's value."""
    found = _branch(_part(signature, name), kind)
    return _of_item(found.get("items", True), found) if kind == "array" else Signature(Tool("", parameters=found))


def _part(signature: Signature, name: str) -> Any:
    return within(signature.properties.get(name, signature.others), signature.schema)


def _branch(part: Any, kind: str, depth: int = _DEEPEST) -> dict[str, Any]:
    """Return a schema, or the first of its alternatives that may be of a kind, with what it refers to put into it."""
    schema = Signature(Tool("", parameters=part)).schema if isinstance(part, dict) else {}
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    for one in alternatives if depth and isinstance(alternatives, list) else ():
        if kind in _of_item(one, schema).types(_ITEM):
            return _branch(within(one, schema), kind, depth - 1)
    return schema


def _of_item(part: Any, root: dict[str, Any]) -> Signature:
    """Return a signature whose one parameter, called `item`, has this schema, which is a part of another."""
    definitions = {key: root[key] for key in DEFINITIONS if key in root}
    return Signature(Tool("", parameters={"properties": {_ITEM: part}} | definitions))


def _members_shape(signature: Signature, depth: int) -> str:
    """Return the expression for the elements that are listed, in their order."""
    found = []
    for name in listed(signature):
        one = _element_shape(name, signature, depth)
        found.append(one if name in signature.required else f"({one})?")
    return " ".join(found) or literal("")


def _element_shape(name: str, signature: Signature, depth: int) -> str:
    part, types = _part(signature, name), signature.types(name)
    opened, closed = literal(f"{_OPEN}{name}>"), literal(f"{_CLOSE}{name}>")
    if may_be_text(types):
        value = text_up_to(_MARK, part, sorted(types or UNTOLD))
        return f"{opened} {value} {literal(f'</{name}>')}"
    found = _branch(part, min(types, default=""))
    keys = found.keys() - _NOTES
    if types == {"array"} and keys == {"type", "items"} and depth:
        value = f"({_element_shape(_ITEM, _of_item(found['items'], found), depth - 1)})*"
    elif types == {"object"} and found.get("properties") and keys <= _OBJECT and depth:
        value = _members_shape(Signature(Tool("", parameters=found)), depth - 1)
    else:
        value = json_body(part)
    return f"{opened} {value} {closed}"


MINIMAX_M3 = MiniMaxM3Calls()
