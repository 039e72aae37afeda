"""Grammars for arguments in notations that are not JSON. What a notation has no words for is written as JSON."""

from collections.abc import Callable
from functools import partial
from typing import Any

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import JsonValue, Literal, Node, Repetition, TextValue, concatenated, one_of, optional
from orchard.formats.schema import DEFINITIONS, PARAMETER_NAME, Signature, values, within

_DEEPEST = 5  # objects and arrays within each other that are written in the notation
_NOTES = {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
_STRING = {"type", "enum", "const", "pattern", "minLength", "maxLength", "format"}
_OBJECT = {"type", "properties", "required", "additionalProperties"}

ValueGrammar = Callable[[dict[str, Any]], Node]
"""Returns the grammar of a value that keeps a schema."""


def keywords(tool: Tool, assign: str, separator: str, value: ValueGrammar) -> Node:
    """Return the grammar of a tool's arguments, `name` `assign` value, in the order of its schema."""
    signature = Signature(tool)
    if signature.open_ended and not signature.properties:
        others = value(_schema(signature.others, signature.schema))
        one = concatenated(TextValue("", PARAMETER_NAME), assign, others)
        return optional(concatenated(one, Repetition(concatenated(separator, one))))
    return _keywords({**signature.schema, "properties": signature.listed()}, assign, separator, value)


def _keywords(schema: dict[str, Any], assign: str, separator: str, value: ValueGrammar) -> Node:
    properties, required = schema.get("properties"), schema.get("required")
    properties = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    entries = [
        (concatenated(name + assign, value(_schema(one, schema))), name in needed)
        for name, one in properties.items()
        if one is not False
    ]
    return _listed(entries, separator)


def _listed(entries: list[tuple[Node, bool]], separator: str) -> Node:
    """Return the grammar of a list of those that are needed (True) and some of the others, in this order.

    Where none is needed, the order is free: what begins the list isn't known, and each way in would repeat the rest.
    """
    first = next((place for place, (_, needed) in enumerate(entries) if needed), None)
    if first is None:
        if not entries:
            return Literal("")
        one = one_of([entry for entry, _ in entries])
        more = [Repetition(concatenated(separator, one), len(entries) - 1)] if len(entries) > 1 else []
        return optional(concatenated(one, *more))
    before = (optional(concatenated(entry, separator)) for entry, _ in entries[:first])
    after = (
        concatenated(separator, entry) if needed else optional(concatenated(separator, entry))
        for entry, needed in entries[first + 1 :]
    )
    return concatenated(*before, entries[first][0], *after)


def python_value(schema: dict[str, Any]) -> Node:
    """Return the grammar of an argument in Python: JSON, but for the constants."""
    if not schema.keys() - _NOTES - {"type", *DEFINITIONS}:
        if schema.get("type") == "boolean":
            return one_of([Literal("True"), Literal("False")])
        if schema.get("type") == "null":
            return Literal("None")
    return JsonValue(schema)


def quoted_value(quote: str) -> ValueGrammar:
    """Return what makes grammars in Gemma's notation: strings between two tags, names without quotes."""
    return partial(_quoted_value, quote, _DEEPEST)


def _quoted_value(quote: str, depth: int, schema: dict[str, Any]) -> Node:
    keys = schema.keys() - _NOTES - {*DEFINITIONS}
    kind = schema.get("type")
    inner = partial(_quoted_value, quote, depth - 1)
    listed_values = values(schema)
    strings = kind == "string" or (not kind and listed_values and all(isinstance(one, str) for one in listed_values))
    if strings and keys <= _STRING:
        return concatenated(quote, TextValue(quote, schema))
    if kind == "array" and keys == {"type", "items"} and depth:
        item = inner(_schema(schema["items"], schema))
        return concatenated("[", optional(concatenated(item, Repetition(concatenated(",", item)))), "]")
    if kind == "object" and schema.get("properties") and keys <= _OBJECT and depth:
        return concatenated("{", _keywords(schema, ":", ",", inner), "}")
    return JsonValue(schema)


def _schema(part: Any, root: dict[str, Any]) -> dict[str, Any]:
    return within(part, root) if isinstance(part, dict) else {}
