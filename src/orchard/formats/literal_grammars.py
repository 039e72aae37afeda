"""Grammars for arguments in notations that are not JSON. What a notation has no words for is written as JSON."""

from collections.abc import Callable
from functools import partial
from typing import Any

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import DEFINITIONS, json_body, literal, text_up_to, within
from orchard.formats.listed import NAME, listed, open_ended
from orchard.formats.schema import Signature, values

_DEEPEST = 5  # objects and arrays within each other that are written in the notation
_NOTES = {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
_STRING = {"type", "enum", "const", "pattern", "minLength", "maxLength", "format"}
_OBJECT = {"type", "properties", "required", "additionalProperties"}

Expression = Callable[[dict[str, Any]], str]
"""Gives the expression for a value that keeps a schema."""


def keywords(tool: Tool, assign: str, separator: str, value: Expression) -> str:
    """Give the expression for a tool's arguments, `name` `assign` value, in the order of its schema."""
    signature = Signature(tool)
    if open_ended(signature) and not signature.properties:
        one = f"{text_up_to('', NAME)} {literal(assign)} {value(_schema(signature.others, signature.schema))}"
        return f"({one} ({literal(separator)} {one})*)?"
    return _keywords({**signature.schema, "properties": listed(signature)}, assign, separator, value)


def _keywords(schema: dict[str, Any], assign: str, separator: str, value: Expression) -> str:
    properties, required = schema.get("properties"), schema.get("required")
    properties = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    entries = [
        (f"{literal(name + assign)} {value(_schema(one, schema))}", name in needed)
        for name, one in properties.items()
        if one is not False
    ]
    return _listed(entries, literal(separator))


def _listed(entries: list[tuple[str, bool]], separator: str) -> str:
    """Give the expression for a list of those that are needed (True) and some of the others, in this order.

    Where none is needed, the order is free: what begins the list isn't known, and each way in would repeat the rest.
    """
    first = next((place for place, (_, needed) in enumerate(entries) if needed), None)
    if first is None:
        one = f"({' | '.join(entry for entry, _ in entries)})" if entries else literal("")
        more = f" ({separator} {one}){{0,{len(entries) - 1}}}" if len(entries) > 1 else ""
        return f"({one}{more})?"
    before = "".join(f"({entry} {separator})? " for entry, _ in entries[:first])
    after = "".join(f" ({separator} {entry}){'' if needed else '?'}" for entry, needed in entries[first + 1 :])
    return f"{before}{entries[first][0]}{after}"


def python_value(schema: dict[str, Any]) -> str:
    """Give the expression for an argument in Python: JSON, but for the constants."""
    if not schema.keys() - _NOTES - {"type", *DEFINITIONS}:
        if schema.get("type") == "boolean":
            return '("True" | "False")'
        if schema.get("type") == "null":
            return '"None"'
    return json_body(schema)


def quoted_value(quote: str) -> Expression:
    """Give what makes expressions for Gemma's notation: strings between two tags, names without quotes."""
    return partial(_quoted_value, quote, _DEEPEST)


def _quoted_value(quote: str, depth: int, schema: dict[str, Any]) -> str:
    keys = schema.keys() - _NOTES - {*DEFINITIONS}
    kind = schema.get("type")

    def inner(part: dict[str, Any]) -> str:
        return _quoted_value(quote, depth - 1, part)

    listed_values = values(schema)
    strings = kind == "string" or (not kind and listed_values and all(isinstance(one, str) for one in listed_values))
    if strings and keys <= _STRING:
        return f"{literal(quote)} {text_up_to(quote, schema)}"
    if kind == "array" and keys == {"type", "items"} and depth:
        item = inner(_schema(schema["items"], schema))
        return f'"[" ({item} ("," {item})*)? "]"'
    if kind == "object" and schema.get("properties") and keys <= _OBJECT and depth:
        return f'"{{" {_keywords(schema, ":", ",", inner)} "}}"'
    return json_body(schema)


def _schema(part: Any, root: dict[str, Any]) -> dict[str, Any]:
    return within(part, root) if isinstance(part, dict) else {}
