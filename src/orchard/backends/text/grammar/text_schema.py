"""Terminals of llguidance's Lark for texts that are values of a JSON schema: strings as they are, other values as JSON.

https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md

`pattern` and `format` become regular expressions. llguidance matches an expression against the whole text and supports
no anchors in it, so `^` and `$` are expressed in other ways.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, combinations, pairwise
from typing import Any

from llguidance import regex_to_lark
from msgspec import Struct

from orchard.backends.text.grammar.lark import ANY_TEXT, regex_terminal, text_literal
from orchard.formats.schema import DEFINITIONS, definitions, enum_values, json_type, resolve_reference

_MOST_CHOICES = 256
_MOST_SCHEMAS = 4096
_MOST_LEVELS = 16  # nested references and choices
_COMBINATORS = ("$ref", "allOf", "anyOf", "oneOf")
_UNSUPPORTED_KEYWORDS = ("if", "$dynamicRef", "$recursiveRef")
_ALL_TYPES = frozenset({"string", "null", "boolean", "integer", "number", "array", "object"})
_CONTAINERS = frozenset({"array", "object"})
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
# Keywords for values that are not strings.
_VALUE_KEYWORDS = {
    *("enum", "const", "not", *_UNSUPPORTED_KEYWORDS, *_BOUNDS),
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "minContains", "maxContains"),
    *("minItems", "maxItems", "uniqueItems", "properties", "patternProperties", "additionalProperties", "required"),
    *("minProperties", "maxProperties", "propertyNames", "unevaluatedProperties", "dependencies"),
    *("dependentRequired", "dependentSchemas"),
}
# How values other than strings are written, and which texts are read as such values.
_SCALAR_TERMINALS = {
    "null": '"null"',
    "boolean": '"true" | "false"',
    "integer": "/-?(0|[1-9][0-9]*)/",
    "number": r"/-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+\-]?[0-9]+)?/",
}
_SPACE = r"[\s\x1c-\x1f]*"
_NUMBER = rf"/{_SPACE}-?[0-9][0-9.eE+\-]*{_SPACE}/"
_LOOKALIKES = {
    "null": rf"/{_SPACE}(?i:null|none){_SPACE}/",
    "boolean": rf"/{_SPACE}(?i:true|false){_SPACE}/",
    "integer": _NUMBER,
    "number": _NUMBER,
    "array": rf"/{_SPACE}\[(?s:.*)/",
    "object": rf"/{_SPACE}\{{(?s:.*)/",
}

# The tokens of a `pattern`.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:P?<\w+>|:))?|.", re.DOTALL)
_REPETITION_LIMIT = re.compile(r"([0-9]{1,9})\}")
_MOST_REPEATED = 100_000
_ANYTHING = "(?s:.*)"
_ANCHORS = {"\\A", "\\z", "\\Z", "\\G"}
# Expressions for the values of `format`.
_YEAR = "(?:[1-9][0-9]{3}|0(?:[1-9][0-9]{2}|0(?:[1-9][0-9]|0[1-9])))"
_MULTIPLE_OF_FOUR = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_YEAR = f"(?:[0-9]{{2}}{_MULTIPLE_OF_FOUR}|{_MULTIPLE_OF_FOUR}00)"
_UP_TO_28 = "(?:0[1-9]|1[0-9]|2[0-8])"
_UP_TO_30 = "(?:0[1-9]|[12][0-9]|30)"
_DAY = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:{_UP_TO_30}|31)|(?:0[469]|11)-{_UP_TO_30}|02-{_UP_TO_28})|{_LEAP_YEAR}-02-29)"
)
# No leap seconds: most parsers reject them.
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:[zZ]|[+\-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_V4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_HEX = "[0-9A-Fa-f]{1,4}"
_LAST_GROUPS = f"(?:{_HEX}:{_HEX}|{_V4})"
_V6 = "|".join(
    (
        f"(?:{_HEX}:){{6}}{_LAST_GROUPS}",
        *(
            f"(?:{_HEX}(?::{_HEX}){{0,{before - 1}}})?::(?:{_HEX}:){{{5 - before}}}{_LAST_GROUPS}"
            for before in range(1, 6)
        ),
        f"::(?:{_HEX}:){{5}}{_LAST_GROUPS}",
        f"(?:{_HEX}(?::{_HEX}){{0,5}})?::{_HEX}",
        f"(?:{_HEX}(?::{_HEX}){{0,6}})?::",
    )
)
_ATOM = r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+"
_TIME_PARTS = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DAYS = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_CHAR = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
_AUTHORITY = (
    rf"(?:(?:[A-Za-z0-9\-._~!$&'()*+,;=:]|%[0-9A-Fa-f]{{2}})*@)?(?:\[(?:{_V6})\]|"
    rf"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{{2}})*)(?::[0-9]*)?"
)
_PATHS = rf"(?://{_AUTHORITY}(?:/{_CHAR}*)*|/(?:{_CHAR}+(?:/{_CHAR}*)*)?|{_CHAR}+(?:/{_CHAR}*)*)?"
MOMENTS = {"date": _DAY, "time": _CLOCK, "date-time": f"{_DAY}[tT]{_CLOCK}"}  # RFC 3339
"""Regular expressions for the formats of days and times, as for `pattern` but without anchors."""
_FORMATS = MOMENTS | {
    "duration": f"P(?:{_DAYS}(?:{_TIME_PARTS})?|{_TIME_PARTS}|[0-9]+W)",  # RFC 3339, appendix A
    "email": rf"{_ATOM}(?:\.{_ATOM})*@(?:{_HOST}|\[{_V4}\])",  # RFC 5321
    "hostname": _HOST,  # RFC 1123
    "ipv4": _V4,
    "ipv6": _V6,  # RFC 4291
    "uuid": "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",  # RFC 4122
    "uri": rf"[A-Za-z][A-Za-z0-9+\-.]*:{_PATHS}(?:\?(?:{_CHAR}|[/?])*)?(?:#(?:{_CHAR}|[/?])*)?",  # RFC 3986
}
FORMATS = {name: f"/{regex_to_lark(regex)}/" for name, regex in _FORMATS.items()}
"""Terminals for the formats that are enforced."""


class TextAlternatives(Struct, frozen=True):
    """What matches a schema: `text`, a terminal ("" if no text does), and JSON that matches the schema `json`."""

    text: str
    json: dict[str, Any] | None = None


class _ValueKind(Struct, frozen=True):
    """One kind of value that matches a schema: it has one of these types and matches all of these parts."""

    parts: tuple[dict[str, Any], ...]
    types: frozenset[str]

    @property
    def listed_values(self) -> list[Any] | None:
        """The possible values, if they are listed; else None."""
        lists = [enum_values(part) for part in self.parts if "enum" in part or "const" in part]
        if not lists:
            return None
        return [value for value in lists[0] if all(_is_listed(value, more) for more in lists[1:])]

    def limit_types(self, types: frozenset[str]) -> "_ValueKind":
        """Return this kind of value, limited to these types."""
        types &= self.types
        if (listed_values := self.listed_values) is not None:
            types &= {json_type(value) for value in listed_values}
        return _ValueKind(self.parts, types)


class TextSchema:
    """The texts that match a schema, each followed by `end`, which it doesn't contain.

    `types`: a text that looks like a value of one of these types is read as one. So a string must not look like a value
    of a type that the schema doesn't allow.
    """

    def __init__(self, schema: Any, types: Collection[str], end: str = "", *, lenient: bool) -> None:
        """Raise ValueError, with a sentence, if the schema can't be enforced; `lenient`: ignore such keywords."""
        self._root = schema if isinstance(schema, dict) else {}
        self._definitions = definitions(self._root)
        self._end = end
        self._lenient = lenient
        self._schema_count = 0  # schemas so far; each reference counts
        self._types = _add_integers(types)
        self._choices = [
            kind
            for choice in self._value_kinds(schema, _MOST_LEVELS)
            if (kind := choice.limit_types(self._types)).types
        ]

    def alternatives(self) -> TextAlternatives:
        """Return what matches the schema. Raise ValueError, with a sentence, if it can't be enforced."""
        strings = [self._string_terminal(choice) for choice in self._choices if "string" in choice.types]
        unbound_choices = (
            choice for choice in self._choices if not any(_VALUE_KEYWORDS & part.keys() for part in choice.parts)
        )
        free_types = {type_ for choice in unbound_choices for type_ in choice.types}
        others = self._types - {"string"}
        if ANY_TEXT in strings and others <= free_types:
            return TextAlternatives(ANY_TEXT)
        lookalikes = sorted({_LOOKALIKES[type_] for type_ in others if type_ not in free_types or type_ in _CONTAINERS})
        exclusion = f" & ~{self._append_end(_alternation(lookalikes))}" if lookalikes else ""
        texts = [f"({_alternation(strings)}){exclusion}"] if strings else []
        containers = []
        for choice in self._choices:
            texts += [self._scalar_terminal(choice, type_) for type_ in sorted(choice.types - {"string"} - _CONTAINERS)]
            if types := sorted(choice.types & _CONTAINERS):
                parts = [*choice.parts, {"type": types}]
                containers.append({"allOf": parts} if len(parts) > 2 else parts[0] | parts[-1])
        if not texts and not containers:
            raise ValueError("nothing satisfies it")
        schema = self._definitions | (containers[0] if len(containers) == 1 else {"anyOf": containers})
        return TextAlternatives(_alternation(texts), schema if containers else None)

    def _value_kinds(self, schema: Any, depth: int) -> list[_ValueKind]:
        """Return the kinds of values that match a schema."""
        self._schema_count += 1
        if self._schema_count > _MOST_SCHEMAS:
            raise ValueError("it has too many parts")
        if isinstance(schema, bool):
            return [_ValueKind((), _ALL_TYPES)] if schema else []
        if not isinstance(schema, dict):
            raise ValueError("a schema is an object")
        if not depth:
            raise ValueError("it refers to itself, or is nested too deep")
        self._refuse(next((f"`{key}` can't be enforced" for key in _UNSUPPORTED_KEYWORDS if key in schema), ""))
        keywords = {key: value for key, value in schema.items() if key not in (*_COMBINATORS, *DEFINITIONS)}
        kinds = [_ValueKind((keywords,), _declared_types(schema))]
        for options in self._combined_kinds(schema, depth - 1):
            _check_choice_count(len(kinds) * len(options))
            kinds = [_ValueKind(a.parts + b.parts, a.types & b.types) for a in kinds for b in options]
        return kinds

    def _combined_kinds(self, schema: dict[str, Any], depth: int) -> list[list[_ValueKind]]:
        """Return the kinds of values that match each of the schemas that are combined in a schema."""
        combined = []
        if isinstance(reference := schema.get("$ref"), str):
            if (target := resolve_reference(reference, self._root)) is None:
                raise ValueError(f"{reference} is not in the schema")
            combined.append(self._value_kinds(target, depth))
        for key in ("allOf", "anyOf", "oneOf"):
            if isinstance(branches := schema.get(key), list):
                _check_choice_count(len(branches))
                kinds = []
                for branch in branches:
                    kinds.append(self._value_kinds(branch, depth))
                    _check_choice_count(sum(map(len, kinds)))
                if key == "oneOf" and not _are_exclusive(kinds):
                    self._refuse("the branches of a `oneOf` may overlap")
                combined += kinds if key == "allOf" else [[choice for options in kinds for choice in options]]
        return combined

    def _string_terminal(self, choice: _ValueKind) -> str:
        """Return the terminal for the strings of a choice."""
        terminals = []
        if (listed_values := choice.listed_values) is not None:
            terminals.append(
                self._append_end(_alternation(text_literal(value) for value in listed_values if isinstance(value, str)))
            )
        for part in choice.parts:
            terminals += self._length_terminals(part)
            if (pattern := part.get("pattern")) is not None:
                try:
                    terminals.append(self._append_end(search_terminal(pattern)))
                except ValueError as error:
                    self._refuse(str(error))
            if isinstance(name := part.get("format"), str) and name in FORMATS:
                terminals.append(self._append_end(FORMATS[name]))
            if "not" in part:
                terminals += self._exclusion_terminals(part["not"])
        return " & ".join(terminals) or ANY_TEXT

    def _length_terminals(self, part: dict[str, Any]) -> list[str]:
        least, most = part.get("minLength", 0), part.get("maxLength", "")
        if not (_is_length(least) and (most == "" or _is_length(most))) or (most != "" and least > most):
            raise ValueError("`minLength` and `maxLength` are no lengths")
        if not least and most == "":
            return []
        # Count the end, too: if nothing else is required, this is nearly free.
        end_length = len(self._end)
        bounds = f"{int(least) + end_length if least else 0},{most if most == '' else int(most) + end_length}"
        return [f"/(?s:.{{{bounds}}})/"]

    def _append_end(self, terminal: str) -> str:
        return f"(({terminal}) {text_literal(self._end)})" if self._end else f"({terminal})"

    def _exclusion_terminals(self, schema: Any) -> list[str]:
        """Return the terminals that a `not` with this schema adds."""
        try:
            schema_alone = {**self._definitions, **schema} if isinstance(schema, dict) else schema
            schema_texts = TextSchema(schema_alone, {"string"}, self._end, lenient=False)
            if any(choice.listed_values is None for choice in schema_texts._choices):
                raise ValueError("it must list values")  # negating a pattern may take any time
            terminals = [schema_texts._string_terminal(choice) for choice in schema_texts._choices]
        except ValueError as error:
            self._refuse(f"`not`: {error}")
            return []
        return [f"~({_alternation(terminals)})"] if terminals else []

    def _scalar_terminal(self, choice: _ValueKind, type_: str) -> str:
        """Return the terminal for the values of a choice that are null, a boolean or a number."""
        bounds = _BOUNDS if type_ in ("integer", "number") else ()
        for key in (*bounds, "not"):
            if any(key in part for part in choice.parts):
                self._refuse(f"`{key}` can't be enforced on a value that may be a string")
        if (listed_values := choice.listed_values) is not None:
            return self._append_end(
                _alternation(text_literal(json.dumps(value)) for value in listed_values if json_type(value) == type_)
            )
        return self._append_end(_SCALAR_TERMINALS[type_])

    def _refuse(self, reason: str) -> None:
        if reason and not self._lenient:
            raise ValueError(reason)


def _declared_types(schema: dict[str, Any]) -> frozenset[str]:
    """Return the types that a schema itself names; all types if it names none."""
    types = schema.get("type", sorted(_ALL_TYPES))
    names = types if isinstance(types, list) else [types]
    if wrong := next((name for name in names if name not in _ALL_TYPES), None):
        raise ValueError(f"Invalid type: {wrong}")
    return _add_integers(names)


def _add_integers(types: Collection[str]) -> frozenset[str]:
    return frozenset(types) | (frozenset({"integer"}) if "number" in types else frozenset())


def _check_choice_count(choices: int) -> None:
    if choices > _MOST_CHOICES:
        raise ValueError(f"it leaves more than {_MOST_CHOICES} choices")


def _are_exclusive(schemas: list[list[_ValueKind]]) -> bool:
    """Return whether a quick look shows that no value can match two of these schemas."""
    schema_kinds = [
        [(kind.types, kind.listed_values) for choice in choices if (kind := choice.limit_types(_ALL_TYPES))]
        for choices in schemas
    ]
    return all(
        not types & others
        or (
            listed_values is not None
            and other_values is not None
            and not any(_is_listed(value, other_values) for value in listed_values)
        )
        for first, second in combinations(schema_kinds, 2)
        for types, listed_values in first
        for others, other_values in second
    )


def _is_listed(value: Any, items: list[Any]) -> bool:
    """Return whether a value is in a list, by JSON's rules: 1 is not true."""
    return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in items)


def _is_length(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value == int(value)


def _alternation(terminals: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(terminals))


def search_terminal(pattern: Any) -> str:
    """Return a terminal of llguidance's Lark for the texts in which a pattern is found.

    Raise ValueError, with a sentence, if it is not a pattern or can't be enforced.
    """
    if not isinstance(pattern, str):
        raise ValueError("a pattern is a string")
    tokens = _TOKEN.findall(pattern)
    if tokens[-1:] == ["\\"]:
        raise ValueError(f"the pattern {pattern!r} ends within an escape")
    if math.prod(max(int(most), 1) for most in _REPETITION_LIMIT.findall(pattern)) > _MOST_REPEATED:
        raise ValueError(f"the pattern {pattern[:40]!r} repeats too much within repetitions")
    if not _ANCHORS.isdisjoint(tokens):
        raise ValueError(f"the pattern {pattern!r} has anchors other than ^ and $")
    try:
        return regex_terminal(_search_expression(tokens, pattern), use_ascii="dw")
    except ValueError as error:
        raise ValueError(f"the pattern {pattern!r}: {error}") from error


def _search_expression(tokens: Sequence[str], pattern: str, *, start: bool = False, end: bool = False) -> str:
    """Return the expression of whole texts in which these tokens match; `start`, `end`: anchored there."""
    bars = [place for place, depth in enumerate(_group_depths(tokens)) if tokens[place] == "|" and not depth]
    alternatives = [list(tokens[before + 1 : bar]) for before, bar in pairwise([-1, *bars, len(tokens)])]
    return "|".join(_branch_expression(branch, pattern, start=start, end=end) for branch in alternatives)


def _branch_expression(tokens: list[str], pattern: str, *, start: bool, end: bool) -> str:
    while tokens and tokens[0] == "^":
        start, tokens = True, tokens[1:]
    while tokens and tokens[-1] == "$":
        end, tokens = True, tokens[:-1]
    if not {"^", "$"}.isdisjoint(tokens):
        depths = _group_depths(tokens)
        if depths[-1] or depths.count(0) > 1:  # more than one group
            raise ValueError(f"the pattern {pattern!r} has an anchor within it")
        return f"(?:{_search_expression(tokens[1:-1], pattern, start=start, end=end)})"
    return f"{'' if start else _ANYTHING}(?:{''.join(tokens)}){'' if end else _ANYTHING}"


def _group_depths(tokens: Sequence[str]) -> list[int]:
    """Return how many groups are open after each token."""
    return list(accumulate(part.startswith("(") - (part == ")") for part in tokens))
