"""JSON schemas made ready for llguidance (https://github.com/guidance-ai/llguidance/blob/main/docs/json_schema.md)."""

import json
import math
import re
from collections.abc import Collection
from fractions import Fraction
from functools import lru_cache
from typing import Any

from llguidance import LLMatcher, regex_to_lark

from orchard.formats.call_grammar import json_body, literal, parts
from orchard.worker.grammar import text_schema
from orchard.worker.grammar.branches import exclusive
from orchard.worker.grammar.lark import fault, fault_within, text_up_to
from orchard.worker.grammar.patterns import MOMENTS

# Between the parts of JSON: a space, or a newline and an indentation.
_WHITE_SPACE = {"whitespace_pattern": r"\x20|\n[\x20\t]{0,16}"}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
_NAMED = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}  # names, then schemas
_VALUES = {"const", "enum", "default", "examples", "example"}
_ALTERNATIVES = {"anyOf", "oneOf", "$ref", "if", "then", "else", "not", "dependentSchemas"}
_JOINING = {"allOf", "unevaluatedProperties", "$dynamicRef"}
_OTHERS = {"additionalProperties", "patternProperties"}  # speak of properties that aren't listed
_MOST_DEEP = 48  # llguidance's own JSON reader ends at 128 levels; a schema in a schema is mostly two
_SAYS_NOTHING: tuple[Any, ...] = ({}, True, {"type": "string"})  # of the names of properties
_NEGATED = re.compile(r"(\\.)|\[\^([\]\-]?)", re.DOTALL)
_SMALL = Fraction(1, 10**6)
_MOST_MULTIPLES = 10_000  # a state of the lexer for each remainder


def prepared(schema: Any, *, lenient: bool = False) -> dict[str, Any]:
    """Give a schema whose JSON has bounded white space. Raises ValueError, with a sentence, where it can't be kept.

    A `format` that is not known says nothing (as the standard has it). `lenient`: so does every keyword and pattern
    that llguidance can't keep. An object that lists its properties and is silent on others gets no others: a small
    model would add some without end.
    """
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise ValueError("nothing keeps the schema 'false'" if schema is False else "a schema is an object")
    _Bounds().check(schema)
    options = _WHITE_SPACE | ({"lenient": True} if lenient else {})
    # Where parts have an "$id", references in them count from there: they are not followed then.
    within = json.dumps(schema).count('"$id"') > ("$id" in schema)
    known = _known(schema, {} if within else schema, lenient=lenient)
    if not _joins(known):
        _close(known)
    return {key: value for key, value in known.items() if key != "x-guidance"} | {"x-guidance": options}


@lru_cache(maxsize=64)
def prepared_body(lark: str, *, lenient: bool = False) -> str:
    """Do the same for every schema in the expression of a call's arguments (see `CallShape`).

    In `%text` there are then, in the place of its schema, `kept` and `alone`, the terminals of what may stand there:
    with its end and without.
    """
    found = []
    for kind, part in parts(lark):
        if kind == "json":
            found.append(json_body(prepared(part, lenient=lenient)))
        elif kind == "text":
            found.append(_prepared_text(part["end"], part["schema"], part["types"], lenient=lenient))
        else:
            found.append(part)
    return "".join(found)


def _prepared_text(end: str, schema: Any, types: Collection[str], *, lenient: bool) -> str:
    _Bounds().check(schema)
    kept = text_schema.kept(schema, types, end, lenient=lenient)
    if kept.text and (reason := fault(text_up_to(end, kept.text))):
        if not lenient:
            raise ValueError(reason)
        return f"%text {json.dumps({'end': end})}"
    # Where the end is a token, it is no part of the text.
    alone = text_schema.kept(schema, types, lenient=lenient)
    text = f"%text {json.dumps({'end': end, 'kept': kept.text, 'alone': alone.text})}" if kept.text else ""
    if kept.json is None:
        return text
    found = f"{json_body(prepared(kept.json, lenient=lenient))} {literal(end)}"
    return f"({text} | {found})" if text else found


def _known(schema: Any, root: dict[str, Any], *, lenient: bool) -> Any:
    """Say a schema, and those in it, in what llguidance keeps, without what says nothing.

    `lenient`: without patterns that it can't keep too.
    """
    if isinstance(schema, list):
        return [_known(one, root, lenient=lenient) for one in schema]
    if not isinstance(schema, dict):
        return schema
    known: dict[str, Any] = {}
    for key, value in _of_later_drafts(_alternative(schema, root)).items():
        if key == "format" and not (isinstance(value, str) and value in _FORMATS):
            continue
        if key == "pattern":
            if reason := _pattern_fault(value):
                if lenient:
                    continue
                raise ValueError(f"the pattern {value!r:.60}: {reason}")
            known[key] = _without_nul(value)
            continue
        if (key == "propertyNames" and value in _SAYS_NOTHING) or (key == "uniqueItems" and value is False):
            continue
        if key in _NAMED and isinstance(value, dict):
            rename = _without_nul if key == "patternProperties" else str
            known[key] = {rename(name): _known(one, root, lenient=lenient) for name, one in value.items()}
        else:
            known[key] = value if key in _VALUES else _known(value, root, lenient=lenient)
    if known.get("format") in MOMENTS and "pattern" not in known:  # llguidance's own have days that no calendar has
        known["pattern"] = f"^(?:{MOMENTS[known.pop('format')]})$"
    return _within(known)


def _alternative(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Say a `oneOf` whose branches shut each other out as an `anyOf`: llguidance doesn't see it behind references."""
    branches = schema.get("oneOf")
    if not isinstance(branches, list) or "anyOf" in schema or not exclusive(branches, root):
        return schema
    # What is left beside the branches is put into each of them, which fails where one refers to itself.
    kept = {key: value for key, value in schema.items() if key not in ("oneOf", "discriminator")}
    return kept | {"anyOf": branches}


def _of_later_drafts(schema: dict[str, Any]) -> dict[str, Any]:
    """Say draft 4's bounds, which are exclusive or not, as later drafts do."""
    for end in ("Minimum", "Maximum"):
        if isinstance(excluded := schema.get(f"exclusive{end}"), bool):
            schema = {key: value for key, value in schema.items() if key != f"exclusive{end}"}
            if excluded and end.lower() in schema:
                schema[f"exclusive{end}"] = schema.pop(end.lower())
    return schema


def _without_nul(pattern: str) -> str:
    """Keep the character NUL out of what negated classes match.

    To a class that has all control characters llguidance 1.9 adds the quote and the backslash, excluded or not.
    """

    def excluding(found: re.Match[str]) -> str:
        escape, first = found.groups()
        return escape or (f"[^\\x00\\{first}" if first else "[^\\x00")  # these would mean something else further on

    return _NEGATED.sub(excluding, pattern)


def _pattern_fault(value: Any) -> str:
    if not isinstance(value, str):
        return "it is no text"
    value = _without_nul(value)
    try:
        reason = fault(f"/{regex_to_lark(value, use_ascii='dw')}/")
    except ValueError as error:
        return str(error)
    return reason or fault_within(LLMatcher.grammar_from_json_schema({"type": "string", "pattern": value}))


def _within(schema: dict[str, Any]) -> dict[str, Any]:
    """Exclude a whole number by a bound just beyond it, where the other bound is less than 1 away.

    llguidance would allow the number itself there. Integers it bounds rightly.
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


def _joins(schema: Any) -> bool:
    """Whether an object's properties may be listed in several places that hold together."""
    if isinstance(schema, list):
        return any(map(_joins, schema))
    if not isinstance(schema, dict):
        return False
    both = "properties" in schema and not _ALTERNATIVES.isdisjoint(schema)
    return both or not _JOINING.isdisjoint(schema) or any(map(_joins, schema.values()))


def _close(schema: Any) -> None:
    """Forbid further properties, in a schema and those within it, where one lists some and is silent on others."""
    if isinstance(schema, list):
        for one in schema:
            _close(one)
    elif isinstance(schema, dict):
        listed, required = schema.get("properties"), schema.get("required")
        if isinstance(listed, dict) and _OTHERS.isdisjoint(schema):
            schema["additionalProperties"] = False
            if isinstance(required, list):  # one that is required without being listed may be anything
                listed |= {name: {} for name in required if isinstance(name, str) and name not in listed}
        for key, value in schema.items():
            if key in _NAMED and isinstance(value, dict):
                _close(list(value.values()))
            elif key not in _VALUES:
                _close(value)


class _Bounds:
    """Refuses what would take llguidance long, or too deep."""

    def __init__(self) -> None:
        self._multiples = 0

    def check(self, value: Any, depth: int = 0) -> None:
        if depth > 2 * _MOST_DEEP:
            raise ValueError(f"the schema is nested more than {_MOST_DEEP} levels deep")
        if isinstance(value, dict):
            self._multiple(value.get("multipleOf"))
            for one in value.values():
                self.check(one, depth + 1)
        elif isinstance(value, list):
            for one in value:
                self.check(one, depth + 1)

    def _multiple(self, of: Any) -> None:
        if not isinstance(of, int | float) or isinstance(of, bool):
            return
        # 0.25 is 25 hundredths: as many remainders.
        exact = Fraction(str(of)) if abs(of) < 1e30 else Fraction(0)
        scaled = abs(exact.numerator) * (10 ** len(str(of).partition(".")[2]) // exact.denominator or 1)
        self._multiples += scaled or _MOST_MULTIPLES
        if self._multiples > _MOST_MULTIPLES:
            raise ValueError(f"multipleOf {of} has too many remainders: together there may be {_MOST_MULTIPLES}")
