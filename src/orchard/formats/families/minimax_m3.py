"""Calls of MiniMax M3: in a section, with arguments as elements within each other.

Before each tag stands a token, here written as `~`: `~<tool_call>\\n~<invoke name="f">~<city>Paris~</city>~</invoke>\\n
~</tool_call>`. The members of an object are elements with their names, those of an array are called `item`, and what is
null is left out: https://huggingface.co/MiniMaxAI/MiniMax-M3/blob/main/chat_template.jinja
"""

import json
from typing import Any

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, JsonValue, Node, Repetition, TextValue, concatenated, optional
from orchard.formats.calls import CallEmitter, SectionSyntax
from orchard.formats.schema import DEFINITIONS, Signature, definitions, within
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Reading
from orchard.formats.xml_values import UNTOLD, Types, may_be_text, typed_value

_MARK = "]<]minimax[>["
_SECTION, _END_SECTION = f"{_MARK}<tool_call>", f"{_MARK}</tool_call>"
_CALL, _END_CALL = f"{_MARK}<invoke name=", f"{_MARK}</invoke>"
_OPEN, _CLOSE = f"{_MARK}<", f"{_MARK}</"
_ITEM = "item"
_OPEN_ITEM = f"{_OPEN}{_ITEM}>"
_NESTED = Types({"array", "object"})
_DEEPEST = 32  # elements within each other that are read
_DEEPEST_GRAMMAR = 5  # and that a grammar keeps; what is deeper is JSON
_NOTES = {"title", "description", "default", "examples", "additionalProperties", *DEFINITIONS}
_OBJECT = {"type", "properties", "required"}


class MiniMaxM3Calls(SectionSyntax, frozen=True, kw_only=True):
    """MiniMax M3's calls."""

    def read_call(self, calls: CallEmitter) -> Reading[None]:
        """Read a call from behind what opens it, over the tag that ends it."""
        name = yield from calls.source.name_before(">", "<\n")
        signature = calls.start(name) or Signature(Tool(name))
        calls.between = True
        yield from _elements(calls, signature, "object", _DEEPEST)
        yield from calls.close(_END_CALL)

    def call(self, tool: Tool) -> CallGrammar:
        """Return what one call of a tool looks like."""
        body = _members_grammar(Signature(tool), _DEEPEST_GRAMMAR)
        return CallGrammar(tool.name, f'{_CALL}"{tool.name}">', body, f"{_END_CALL}\n")


def _elements(calls: CallEmitter, signature: Signature, kind: str, depth: int) -> Reading[None]:
    """Read the elements of an object or an array, up to the tag that closes it."""
    before, end = ("[", "]") if kind == "array" else ("{", "}")
    empty = before + end
    while (name := (yield from _opened(calls))) is not None:
        if kind == "array" and name != _ITEM:
            raise MalformedOutput
        key = "" if kind == "array" else f"{json.dumps(name, ensure_ascii=False)}: "
        calls.arguments(f"{before}{key}")
        before, empty = ", ", end
        yield from _value(calls, name, signature, depth)
    calls.arguments(empty)


def _opened(calls: CallEmitter) -> Reading[str | None]:
    """Read a tag that opens an element; return its name. None, and nothing is read, where one closes."""
    source = calls.source
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


def _value(calls: CallEmitter, name: str, signature: Signature, depth: int) -> Reading[None]:
    """Read the value of an element and the tag that closes it."""
    source, types = calls.source, signature.types(name) or UNTOLD
    close = f"{_CLOSE}{name}>"
    tag = (yield from source.choice((_OPEN, _OPEN_ITEM, close))) if types & _NESTED else None
    if tag is None:
        yield from typed_value(calls, types, lambda give: source.until(close, give))
    elif tag == close:
        calls.arguments('""' if "string" in types else "[]" if "array" in types else "{}")
    elif not depth:
        raise MalformedOutput
    else:
        source.at -= len(tag)
        kind = "array" if "array" in types and ("object" not in types or tag == _OPEN_ITEM) else "object"
        found = _branch(_part(signature, name), kind)
        items = found.get("items", True)
        inner = _of_item(items, found) if kind == "array" else Signature(Tool("", parameters=found))
        yield from _elements(calls, inner, kind, depth - 1)
        yield from source.literal(close)


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
    return Signature(Tool("", parameters={"properties": {_ITEM: part}} | definitions(root)))


def _members_grammar(signature: Signature, depth: int) -> Node:
    """Return the grammar of the elements that are listed, in their order."""
    found = []
    for name in signature.listed():
        one = _element_grammar(name, signature, depth)
        found.append(one if name in signature.required else optional(one))
    return concatenated(*found)


def _element_grammar(name: str, signature: Signature, depth: int) -> Node:
    part, types = _part(signature, name), signature.types(name)
    opened, closed = f"{_OPEN}{name}>", f"{_CLOSE}{name}>"
    if may_be_text(types):
        text = TextValue(_MARK, part, tuple(sorted(types or UNTOLD)))
        return concatenated(opened, text, closed.removeprefix(_MARK))
    found = _branch(part, min(types, default=""))
    keys = found.keys() - _NOTES
    value: Node = JsonValue(part)
    if types == {"array"} and keys == {"type", "items"} and depth:
        value = Repetition(_element_grammar(_ITEM, _of_item(found["items"], found), depth - 1))
    elif types == {"object"} and found.get("properties") and keys <= _OBJECT and depth:
        value = _members_grammar(Signature(Tool("", parameters=found)), depth - 1)
    return concatenated(opened, value, closed)


MINIMAX_M3 = MiniMaxM3Calls(
    opens=(_SECTION, _CALL),
    each=_CALL,
    closes=_END_SECTION,
    prefix=f"{_SECTION}\n",
    suffix=_END_SECTION,
)
