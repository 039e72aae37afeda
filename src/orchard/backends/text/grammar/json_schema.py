"""Prepares JSON schemas for llguidance (https://github.com/guidance-ai/llguidance/blob/main/docs/json_schema.md)."""

import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from llguidance import LLMatcher

from orchard.backends.text.grammar.lark import ANY, fault, fault_within, regex, text_up_to
from orchard.backends.text.grammar.text_schema import MOMENTS, Texts
from orchard.formats.call_grammar import (
    JsonValue,
    Node,
    Terminal,
    TextValue,
    alternation,
    concatenation,
    replace_leaves,
)
from orchard.formats.schema import enum_values, json_type, resolve_reference

# Between the parts of JSON: a space, or a newline and an indentation.
_WHITE_SPACE = {"whitespace_pattern": r"\x20|\n[\x20\t]{0,16}"}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
_NAMED = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}  # names, then schemas
_VALUES = {"const", "enum", "default", "examples", "example"}
_ALTERNATIVES = {"anyOf", "oneOf", "$ref", "if", "then", "else", "not", "dependentSchemas"}
_JOINING = {"allOf", "unevaluatedProperties", "$dynamicRef"}
_OTHERS = {"additionalProperties", "patternProperties"}  # keywords for properties that aren't listed
_MOST_REFERENCES = 8  # in a row, each to the next one
_EVERY_TYPE = {"null", "boolean", "number", "string", "array", "object"}
_MOST_DEEP = 48  # llguidance's own JSON reader ends at 128 levels; a schema in a schema is usually two
_SAYS_NOTHING: tuple[Any, ...] = ({}, True, {"type": "string"})  # as `propertyNames`
_NEGATED = re.compile(r"(\\.)|\[\^([\]\-]?)", re.DOTALL)
_SMALL = Fraction(1, 10**6)
_MOST_MULTIPLES = 10_000  # a state of the lexer for each remainder


def prepared(schema: Any, *, lenient: bool = False) -> dict[str, Any]:
    """Return a schema whose JSON has bounded white space. Raise ValueError, with a sentence, if it can't be enforced.

    An unknown `format` is ignored, as the standard says. `lenient`: so is every keyword and pattern that llguidance
    can't enforce. An object that lists its properties and doesn't mention others gets no others, since a small model
    would add them without end.
    """
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise ValueError("nothing satisfies the schema 'false'" if schema is False else "a schema is an object")
    _check(schema)
    options = _WHITE_SPACE | ({"lenient": True} if lenient else {})
    # If parts have an "$id", references in them are relative to it: don't follow them.
    within = json.dumps(schema).count('"$id"') > ("$id" in schema)
    # If properties are listed in several schemas that apply together, none of these may exclude others.
    joins = any(
        not _JOINING.isdisjoint(one) or ("properties" in one and not _ALTERNATIVES.isdisjoint(one))
        for one in _objects(schema)
    )
    known = _SchemaRewriter({} if within else schema, lenient=lenient, closing=not joins).rewritten(schema)
    return {key: value for key, value in known.items() if key != "x-guidance"} | {"x-guidance": options}


def prepared_call(body: Node, tokens: Collection[str] = (), *, lenient: bool = False) -> Node:
    """Do the same for every value in a call's arguments; texts become terminals. Raise ValueError as `prepared` does.

    `tokens`: the texts that are special tokens of the model, which can't be part of a terminal.
    """

    def made(node: Node) -> Node:
        match node:
            case JsonValue(schema):
                return JsonValue(prepared(schema, lenient=lenient))
            case TextValue():
                return _prepared_text(node, tokens, lenient=lenient)
        return node

    return replace_leaves(body, made)


def _prepared_text(value: TextValue, tokens: Collection[str], *, lenient: bool) -> Node:
    end, schema, types = value.end, value.schema, value.types
    _check(schema)
    head, tail = cut_before_token(end, tokens)
    terminal = Texts(schema, types, head, lenient=lenient).kept()
    up_to = partial(text_up_to, head, within=tail != "")
    if terminal.text and (reason := fault(up_to(terminal.text))):
        if not lenient:
            raise ValueError(reason)
        return concatenation(Terminal(up_to(ANY)), tail)
    options = []
    if terminal.text:
        options.append(concatenation(Terminal(up_to(terminal.text)), tail))
    if terminal.json is not None:
        options.append(concatenation(JsonValue(prepared(terminal.json, lenient=lenient)), end))
    return alternation(options)


def cut_before_token(tag: str, tokens: Collection[str]) -> tuple[str, str]:
    """Cut a tag before the first token in it: that can't be part of a terminal."""
    place = min((tag.index(token) for token in tokens if token in tag), default=len(tag))
    return tag[:place], tag[place:]


class _SchemaRewriter:
    """Rewrites a schema into a form that llguidance can enforce, without keywords that have no effect."""

    def __init__(self, root: dict[str, Any], *, lenient: bool, closing: bool) -> None:
        """`lenient`: without patterns that can't be enforced. `closing`: objects that list properties get no others."""
        self._root = root
        self._lenient = lenient
        self._closing = closing

    def rewritten(self, schema: Any) -> Any:
        """Return a schema, or another value in one, with all schemas in it rewritten."""
        if isinstance(schema, list):
            return [self.rewritten(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        known: dict[str, Any] = {}
        for key, value in _of_later_drafts(_alternative(schema, self._root)).items():
            if self._says_nothing(key, value):
                continue
            if key == "pattern":
                known[key] = _without_nul(value)
            elif key in _NAMED and isinstance(value, dict):
                rename = _without_nul if key == "patternProperties" else str
                known[key] = {rename(name): self.rewritten(one) for name, one in value.items()}
            else:
                known[key] = value if key in _VALUES else self.rewritten(value)
        if known.get("format") in MOMENTS and "pattern" not in known:  # llguidance's own formats allow wrong days
            known["pattern"] = f"^(?:{MOMENTS[known.pop('format')]})$"
        known = _within(known)
        listed, required = known.get("properties"), known.get("required")
        if self._closing and isinstance(listed, dict) and _OTHERS.isdisjoint(known):
            known["additionalProperties"] = False
            if isinstance(required, list):  # a required property that isn't listed may be anything
                listed |= {name: {} for name in required if isinstance(name, str) and name not in listed}
        return known

    def _says_nothing(self, key: str, value: Any) -> bool:
        match key:
            case "format":
                return not (isinstance(value, str) and value in _FORMATS)
            case "pattern":
                reason = _pattern_fault(value)
                if reason and not self._lenient:
                    raise ValueError(f"the pattern {value!r:.60}: {reason}")
                return bool(reason)
            case "propertyNames":
                return value in _SAYS_NOTHING
            case "uniqueItems":
                return value is False
        return False


def _alternative(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Write a `oneOf` whose branches exclude each other as `anyOf`; llguidance doesn't see that through references."""
    branches = schema.get("oneOf")
    if not isinstance(branches, list) or "anyOf" in schema or not exclusive(branches, root):
        return schema
    # Merge the other keywords into each branch; that fails if a branch refers to itself.
    kept = {key: value for key, value in schema.items() if key not in ("oneOf", "discriminator")}
    return kept | {"anyOf": branches}


def exclusive(branches: Sequence[Any], root: dict[str, Any]) -> bool:
    """Return whether a quick look shows that no value can match two branches of a `oneOf`.

    They have different types, or list different values, or are objects with a required property for which that holds:
    the tag of a union.
    """
    known = [_target(branch, root) for branch in branches]
    objects = [schema for schema in known if _types(schema) == {"object"}]
    others = [schema for schema in known if _types(schema) != {"object"}]
    some_object = [{"type": "object"}] if objects else []
    needed = [_required(schema) for schema in objects]
    common = [name for name in needed[0] if all(name in names for names in needed)] if objects else []
    tagged = any(_apart([_target(properties[name], root) for properties in needed]) for name in common)
    return _apart([*others, *some_object]) and (len(objects) < 2 or tagged)


def _apart(schemas: Sequence[Any]) -> bool:
    types = [name for schema in schemas for name in _types(schema)]
    listed = [enum_values(schema) for schema in schemas]
    if len(types) == len(set(types)):
        return True
    if not all(listed) or any(isinstance(value, list | dict) for some in listed for value in some):
        return False
    return len(set().union(*listed)) == sum(len(set(some)) for some in listed)


def _target(schema: Any, root: dict[str, Any]) -> Any:
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            break
        schema = resolve_reference(schema["$ref"], root)
    return schema


def _types(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return _EVERY_TYPE
    given = schema.get("type") or [json_type(value) for value in enum_values(schema)] or sorted(_EVERY_TYPE)
    names = given if isinstance(given, list) else [given]
    return {"number" if name == "integer" else name for name in names if isinstance(name, str)}


def _required(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of the properties that are listed and required."""
    listed, names = schema.get("properties"), schema.get("required")
    if not isinstance(listed, dict) or not isinstance(names, list):
        return {}
    return {name: listed[name] for name in names if isinstance(name, str) and name in listed}


def _of_later_drafts(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with draft 4's boolean exclusive bounds written as in later drafts."""
    for end in ("Minimum", "Maximum"):
        if isinstance(excluded := schema.get(f"exclusive{end}"), bool):
            schema = {key: value for key, value in schema.items() if key != f"exclusive{end}"}
            if excluded and end.lower() in schema:
                schema[f"exclusive{end}"] = schema.pop(end.lower())
    return schema


def _without_nul(pattern: str) -> str:
    """Exclude the character NUL from negated classes in a pattern.

    llguidance 1.9 adds the quote and the backslash to a class that has all control characters, even if the class
    excludes them.
    """

    def excluding(found: re.Match[str]) -> str:
        escape, first = found.groups()
        return escape or (f"[^\\x00\\{first}" if first else "[^\\x00")  # `]` and `-` would mean something else later

    return _NEGATED.sub(excluding, pattern)


def _pattern_fault(value: Any) -> str:
    if not isinstance(value, str):
        return "it is not text"
    value = _without_nul(value)
    try:
        regex(value, use_ascii="dw")
    except ValueError as error:
        return str(error)
    return fault_within(LLMatcher.grammar_from_json_schema({"type": "string", "pattern": value}))


def _within(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace an exclusive bound that is a whole number by one just beyond it, if the other bound is less than 1 away.

    llguidance would allow the number itself. It bounds integers correctly.
    """
    if schema.get("type") == "integer":
        return schema
    bounds = {key: _number(schema.get(key)) for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")}
    for end, other, way in (("Minimum", "Maximum", 1), ("Maximum", "Minimum", -1)):
        at = bounds[f"exclusive{end}"]
        others = [bound for key in (other.lower(), f"exclusive{other}") if (bound := bounds[key]) is not None]
        if at is None or at.denominator != 1 or not others:
            continue
        room = min(way * (bound - at) for bound in others)
        if 0 < room < 1:
            beyond = at + way * min(_SMALL, room / 1000)
            own = bounds[end.lower()]
            inner = beyond if own is None else way * max(way * beyond, way * own)
            schema = {key: value for key, value in schema.items() if key != f"exclusive{end}"}
            schema[end.lower()] = float(inner)
    return schema


def _number(value: Any) -> Fraction | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return Fraction(str(value)) if known else None


def _objects(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the objects in a JSON value, including itself. Raise ValueError if it is nested too deep."""
    if depth > 2 * _MOST_DEEP:
        raise ValueError(f"the schema is nested more than {_MOST_DEEP} levels deep")
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from _objects(one, depth + 1)


def _check(schema: Any) -> None:
    """Raise ValueError if a part of the schema would take llguidance too long, or is nested too deep."""
    multiples = 0
    for one in _objects(schema):
        of = one.get("multipleOf")
        if not isinstance(of, int | float) or isinstance(of, bool):
            continue
        # 0.25 is 25 hundredths: as many remainders.
        exact = Fraction(str(of)) if abs(of) < 1e30 else Fraction(0)
        scaled = abs(exact.numerator) * (10 ** len(str(of).partition(".")[2]) // exact.denominator or 1)
        multiples += scaled or _MOST_MULTIPLES
        if multiples > _MOST_MULTIPLES:
            raise ValueError(f"multipleOf {of} has too many remainders: together there may be {_MOST_MULTIPLES}")
