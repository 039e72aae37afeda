"""Prepares JSON schemas for llguidance (https://github.com/guidance-ai/llguidance/blob/main/docs/json_schema.md)."""

import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from llguidance import LLMatcher

from orchard.backends.text.grammar.lark import ANY_TEXT, regex_terminal, repetition_fault, terminal_fault, text_up_to
from orchard.backends.text.grammar.text_schema import MOMENTS, TextSchema
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
_SCHEMA_MAPS = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}  # schemas by name
_VALUE_KEYWORDS = {"const", "enum", "default", "examples", "example"}
_BRANCH_KEYWORDS = {"anyOf", "oneOf", "$ref", "if", "then", "else", "not", "dependentSchemas"}
_JOINT_KEYWORDS = {"allOf", "unevaluatedProperties", "$dynamicRef"}
_OTHER_PROPERTIES = {"additionalProperties", "patternProperties"}  # keywords for properties that aren't listed
_MOST_REFERENCES = 8  # in a row, each to the next one
_ALL_TYPES = {"null", "boolean", "number", "string", "array", "object"}
_MOST_LEVELS = 48  # llguidance's own JSON reader ends at 128 levels; a schema in a schema is usually two
_ANY_NAMES: tuple[Any, ...] = ({}, True, {"type": "string"})  # as `propertyNames`
_NEGATED_CLASS = re.compile(r"(\\.)|\[\^([\]\-]?)", re.DOTALL)
_LARGEST_STEP = Fraction(1, 10**6)
_MOST_MULTIPLES = 10_000  # a state of the lexer for each remainder


def prepare_schema(schema: Any, *, lenient: bool = False) -> dict[str, Any]:
    """Return a schema whose JSON has bounded white space. Raise ValueError, with a sentence, if it can't be enforced.

    Ignore an unknown `format`, as the standard says; if `lenient`, also every keyword and pattern that llguidance can't
    enforce. If an object lists its properties and doesn't mention others, forbid others: a small model would add them
    without end.
    """
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise ValueError("nothing satisfies the schema 'false'" if schema is False else "a schema is an object")
    _check_limits(schema)
    options = _WHITE_SPACE | ({"lenient": True} if lenient else {})
    # If parts have an "$id", references in them are relative to it: don't follow them.
    has_inner_ids = json.dumps(schema).count('"$id"') > ("$id" in schema)
    # If properties are listed in several schemas that apply together, none of these may exclude others.
    joins = any(
        not _JOINT_KEYWORDS.isdisjoint(part) or ("properties" in part and not _BRANCH_KEYWORDS.isdisjoint(part))
        for part in _nested_objects(schema)
    )
    result = _SchemaRewriter({} if has_inner_ids else schema, lenient=lenient, closing=not joins).rewrite(schema)
    return {key: value for key, value in result.items() if key != "x-guidance"} | {"x-guidance": options}


def prepare_call(body: Node, tokens: Collection[str] = (), *, lenient: bool = False) -> Node:
    """Prepare every value in a call's arguments, as `prepare_schema` does; texts become terminals.

    `tokens`: the texts that are special tokens of the model, which can't be part of a terminal. Raise ValueError as
    `prepare_schema` does.
    """

    def prepare_node(node: Node) -> Node:
        match node:
            case JsonValue(schema):
                return JsonValue(prepare_schema(schema, lenient=lenient))
            case TextValue():
                return _prepare_text(node, tokens, lenient=lenient)
        return node

    return replace_leaves(body, prepare_node)


def _prepare_text(value: TextValue, tokens: Collection[str], *, lenient: bool) -> Node:
    end, schema, types = value.end, value.schema, value.types
    _check_limits(schema)
    head, tail = cut_before_token(end, tokens)
    terminal = TextSchema(schema, types, head, lenient=lenient).alternatives()
    up_to = partial(text_up_to, head, allow_earlier=tail != "")
    if terminal.text and (reason := terminal_fault(up_to(terminal.text))):
        if not lenient:
            raise ValueError(reason)
        return concatenation(Terminal(up_to(ANY_TEXT)), tail)
    options = []
    if terminal.text:
        options.append(concatenation(Terminal(up_to(terminal.text)), tail))
    if terminal.json is not None:
        options.append(concatenation(JsonValue(prepare_schema(terminal.json, lenient=lenient)), end))
    return alternation(options)


def cut_before_token(tag: str, tokens: Collection[str]) -> tuple[str, str]:
    """Cut a tag before its first special token, since a terminal can't contain one."""
    place = min((tag.index(token) for token in tokens if token in tag), default=len(tag))
    return tag[:place], tag[place:]


class _SchemaRewriter:
    """Rewrites a schema into a form that llguidance can enforce, without keywords that have no effect."""

    def __init__(self, root: dict[str, Any], *, lenient: bool, closing: bool) -> None:
        """`lenient`: drop patterns that can't be enforced. `closing`: forbid properties that an object doesn't list."""
        self._root = root
        self._lenient = lenient
        self._closing = closing

    def rewrite(self, schema: Any) -> Any:
        """Return a schema, or another value in one, with all schemas in it rewritten."""
        if isinstance(schema, list):
            return [self.rewrite(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        result: dict[str, Any] = {}
        for key, value in _upgrade_bounds(_one_of_as_any_of(schema, self._root)).items():
            if self._has_no_effect(key, value):
                continue
            if key == "pattern":
                result[key] = _exclude_nul(value)
            elif key in _SCHEMA_MAPS and isinstance(value, dict):
                rename = _exclude_nul if key == "patternProperties" else str
                result[key] = {rename(name): self.rewrite(item) for name, item in value.items()}
            else:
                result[key] = value if key in _VALUE_KEYWORDS else self.rewrite(value)
        if result.get("format") in MOMENTS and "pattern" not in result:  # llguidance's own formats allow wrong days
            result["pattern"] = f"^(?:{MOMENTS[result.pop('format')]})$"
        result = _replace_exclusive_bounds(result)
        properties, required = result.get("properties"), result.get("required")
        if self._closing and isinstance(properties, dict) and _OTHER_PROPERTIES.isdisjoint(result):
            result["additionalProperties"] = False
            if isinstance(required, list):  # a required property that isn't listed may be anything
                properties |= {name: {} for name in required if isinstance(name, str) and name not in properties}
        return result

    def _has_no_effect(self, key: str, value: Any) -> bool:
        match key:
            case "format":
                return not (isinstance(value, str) and value in _FORMATS)
            case "pattern":
                reason = _pattern_fault(value)
                if reason and not self._lenient:
                    raise ValueError(f"the pattern {value!r:.60}: {reason}")
                return bool(reason)
            case "propertyNames":
                return value in _ANY_NAMES
            case "uniqueItems":
                return value is False
        return False


def _one_of_as_any_of(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Write a `oneOf` as `anyOf` if its branches exclude each other; llguidance doesn't look at references."""
    branches = schema.get("oneOf")
    if not isinstance(branches, list) or "anyOf" in schema or not are_exclusive(branches, root):
        return schema
    # llguidance merges other keywords into each branch, which fails if a branch refers to itself.
    others = {key: value for key, value in schema.items() if key not in ("oneOf", "discriminator")}
    return others | {"anyOf": branches}


def are_exclusive(branches: Sequence[Any], root: dict[str, Any]) -> bool:
    """Return whether a quick look shows that no value can match two branches of a `oneOf`.

    The branches have different types, or list different values. Or they are objects, and that holds for a required
    property of all, such as the tag of a union.
    """
    schemas = [_follow_references(branch, root) for branch in branches]
    objects = [schema for schema in schemas if _schema_types(schema) == {"object"}]
    others = [schema for schema in schemas if _schema_types(schema) != {"object"}]
    some_object = [{"type": "object"}] if objects else []
    required = [_required_properties(schema) for schema in objects]
    common = [name for name in required[0] if all(name in names for names in required)] if objects else []
    has_tag = any(
        _are_disjoint([_follow_references(properties[name], root) for properties in required]) for name in common
    )
    return _are_disjoint([*others, *some_object]) and (len(objects) < 2 or has_tag)


def _are_disjoint(schemas: Sequence[Any]) -> bool:
    types = [name for schema in schemas for name in _schema_types(schema)]
    value_lists = [enum_values(schema) for schema in schemas]
    if len(types) == len(set(types)):
        return True
    if not all(value_lists) or any(isinstance(value, list | dict) for list_ in value_lists for value in list_):
        return False
    return len(set().union(*value_lists)) == sum(len(set(list_)) for list_ in value_lists)


def _follow_references(schema: Any, root: dict[str, Any]) -> Any:
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            break
        schema = resolve_reference(schema["$ref"], root)
    return schema


def _schema_types(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return _ALL_TYPES
    types = schema.get("type") or [json_type(value) for value in enum_values(schema)] or sorted(_ALL_TYPES)
    names = types if isinstance(types, list) else [types]
    return {"number" if name == "integer" else name for name in names if isinstance(name, str)}


def _required_properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of the properties that are listed and required."""
    properties, names = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not isinstance(names, list):
        return {}
    return {name: properties[name] for name in names if isinstance(name, str) and name in properties}


def _upgrade_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace draft 4's boolean exclusive bounds by the numbers of later drafts."""
    for end in ("Minimum", "Maximum"):
        if isinstance(is_exclusive := schema.get(f"exclusive{end}"), bool):
            schema = {key: value for key, value in schema.items() if key != f"exclusive{end}"}
            if is_exclusive and end.lower() in schema:
                schema[f"exclusive{end}"] = schema.pop(end.lower())
    return schema


def _exclude_nul(pattern: str) -> str:
    """Exclude the character NUL from negated classes in a pattern.

    llguidance 1.9 adds the quote and the backslash to a class that has all control characters, even if the class
    excludes them.
    """

    def exclude(match: re.Match[str]) -> str:
        escape, first = match.groups()
        return escape or (f"[^\\x00\\{first}" if first else "[^\\x00")  # elsewhere, `]` and `-` have a meaning

    return _NEGATED_CLASS.sub(exclude, pattern)


def _pattern_fault(value: Any) -> str:
    if not isinstance(value, str):
        return "it is not text"
    value = _exclude_nul(value)
    try:
        regex_terminal(value, use_ascii="dw")
    except ValueError as error:
        return str(error)
    return repetition_fault(LLMatcher.grammar_from_json_schema({"type": "string", "pattern": value}))


def _replace_exclusive_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace an exclusive whole number by an inclusive bound just beyond it, if the other bound is less than 1 away.

    llguidance would allow the number itself. It bounds integers correctly.
    """
    if schema.get("type") == "integer":
        return schema
    bounds = {
        key: _exact_number(schema.get(key)) for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    }
    for end, other, sign in (("Minimum", "Maximum", 1), ("Maximum", "Minimum", -1)):
        exclusive = bounds[f"exclusive{end}"]
        other_bounds = [bound for key in (other.lower(), f"exclusive{other}") if (bound := bounds[key]) is not None]
        if exclusive is None or exclusive.denominator != 1 or not other_bounds:
            continue
        room = min(sign * (bound - exclusive) for bound in other_bounds)
        if 0 < room < 1:
            shifted = exclusive + sign * min(_LARGEST_STEP, room / 1000)
            inclusive = bounds[end.lower()]
            inner = shifted if inclusive is None else sign * max(sign * shifted, sign * inclusive)
            schema = {key: value for key, value in schema.items() if key != f"exclusive{end}"}
            schema[end.lower()] = float(inner)
    return schema


def _exact_number(value: Any) -> Fraction | None:
    is_finite = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return Fraction(str(value)) if is_finite else None


def _nested_objects(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the objects in a JSON value, including itself. Raise ValueError if it is nested too deep."""
    if depth > 2 * _MOST_LEVELS:
        raise ValueError(f"the schema is nested more than {_MOST_LEVELS} levels deep")
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from _nested_objects(item, depth + 1)


def _check_limits(schema: Any) -> None:
    """Raise ValueError if a part of the schema would take llguidance too long, or is nested too deep."""
    multiples = 0
    for part in _nested_objects(schema):
        divisor = part.get("multipleOf")
        if not isinstance(divisor, int | float) or isinstance(divisor, bool):
            continue
        # 0.25 is 25 hundredths, so it has 25 remainders.
        exact = Fraction(str(divisor)) if abs(divisor) < 1e30 else Fraction(0)
        remainders = abs(exact.numerator) * (10 ** len(str(divisor).partition(".")[2]) // exact.denominator or 1)
        multiples += remainders or _MOST_MULTIPLES
        if multiples > _MOST_MULTIPLES:
            raise ValueError(f"multipleOf {divisor} has too many remainders: together there may be {_MOST_MULTIPLES}")
