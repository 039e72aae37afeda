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

from orchard.backends.text.grammar.lark import ANY, literal, regex
from orchard.formats.schema import DEFINITIONS, definitions, enum_values, json_type, resolve_reference

_MOST_CHOICES = 256
_MOST_SEEN = 4096
_DEEPEST = 16  # nested references and choices
_CHOICES = ("$ref", "allOf", "anyOf", "oneOf")
_UNKNOWN = ("if", "$dynamicRef", "$recursiveRef")
_EVERY = frozenset({"string", "null", "boolean", "integer", "number", "array", "object"})
_CONTAINERS = frozenset({"array", "object"})
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
# Keywords for values that are not strings.
_BINDING = {
    *("enum", "const", "not", *_UNKNOWN, *_BOUNDS),
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "minContains", "maxContains"),
    *("minItems", "maxItems", "uniqueItems", "properties", "patternProperties", "additionalProperties", "required"),
    *("minProperties", "maxProperties", "propertyNames", "unevaluatedProperties", "dependencies"),
    *("dependentRequired", "dependentSchemas"),
}
# How values other than strings are written, and which texts are read as such values.
_WRITTEN = {
    "null": '"null"',
    "boolean": '"true" | "false"',
    "integer": "/-?(0|[1-9][0-9]*)/",
    "number": r"/-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+\-]?[0-9]+)?/",
}
_SPACE = r"[\s\x1c-\x1f]*"
_NUMBER = rf"/{_SPACE}-?[0-9][0-9.eE+\-]*{_SPACE}/"
_READ = {
    "null": rf"/{_SPACE}(?i:null|none){_SPACE}/",
    "boolean": rf"/{_SPACE}(?i:true|false){_SPACE}/",
    "integer": _NUMBER,
    "number": _NUMBER,
    "array": rf"/{_SPACE}\[(?s:.*)/",
    "object": rf"/{_SPACE}\{{(?s:.*)/",
}

# The tokens of a `pattern`.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:P?<\w+>|:))?|.", re.DOTALL)
_MOST_TIMES = re.compile(r"([0-9]{1,9})\}")
_MOST_REPEATED = 100_000
_ANYTHING = "(?s:.*)"
_EDGES = {"\\A", "\\z", "\\Z", "\\G"}
# Expressions for the values of `format`.
_YEAR = "(?:[1-9][0-9]{3}|0(?:[1-9][0-9]{2}|0(?:[1-9][0-9]|0[1-9])))"
_FOURTH = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_YEAR = f"(?:[0-9]{{2}}{_FOURTH}|{_FOURTH}00)"
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
_LAST_TWO = f"(?:{_HEX}:{_HEX}|{_V4})"
_V6 = "|".join(
    (
        f"(?:{_HEX}:){{6}}{_LAST_TWO}",
        *(
            f"(?:{_HEX}(?::{_HEX}){{0,{before - 1}}})?::(?:{_HEX}:){{{5 - before}}}{_LAST_TWO}"
            for before in range(1, 6)
        ),
        f"::(?:{_HEX}:){{5}}{_LAST_TWO}",
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


class KeptTexts(Struct, frozen=True):
    """What matches a schema: `text`, a terminal ("" if no text does), and JSON that matches the schema `json`."""

    text: str
    json: dict[str, Any] | None = None


class _ValueKind(Struct, frozen=True):
    """One kind of value that matches a schema: it has one of these types and matches all of these parts."""

    parts: tuple[dict[str, Any], ...]
    types: frozenset[str]

    @property
    def listed(self) -> list[Any] | None:
        """The possible values, if they are listed; else None."""
        lists = [enum_values(part) for part in self.parts if "enum" in part or "const" in part]
        if not lists:
            return None
        return [value for value in lists[0] if all(_among(value, more) for more in lists[1:])]

    def having(self, types: frozenset[str]) -> "_ValueKind":
        """Return this kind of value, limited to these types."""
        types &= self.types
        if (listed := self.listed) is not None:
            types &= {json_type(value) for value in listed}
        return _ValueKind(self.parts, types)


class Texts:
    """The texts that match a schema, each followed by `end`, which it doesn't contain.

    `types`: the types that a text is read as, if it can be. A string must not look like a value of a type that the
    schema doesn't allow.
    """

    def __init__(self, schema: Any, types: Collection[str], end: str = "", *, lenient: bool) -> None:
        """Raise ValueError, with a sentence, if the schema can't be enforced; `lenient`: ignore such keywords."""
        self._root = schema if isinstance(schema, dict) else {}
        self._shared = definitions(self._root)
        self._end = end
        self._lenient = lenient
        self._seen = 0  # schemas so far; each reference counts
        self._types = _with_integers(types)
        self._choices = [one for choice in self._of(schema, _DEEPEST) if (one := choice.having(self._types)).types]

    def kept(self) -> KeptTexts:
        """Return what matches the schema. Raise ValueError, with a sentence, if it can't be enforced."""
        strings = [self._string(choice) for choice in self._choices if "string" in choice.types]
        unbound = (choice for choice in self._choices if not any(_BINDING & part.keys() for part in choice.parts))
        free = {type_ for choice in unbound for type_ in choice.types}
        others = self._types - {"string"}
        if ANY in strings and others <= free:
            return KeptTexts(ANY)
        apart = sorted({_READ[type_] for type_ in others if type_ not in free or type_ in _CONTAINERS})
        held = f" & ~{self._ended(_any_of(apart))}" if apart else ""
        texts = [f"({_any_of(strings)}){held}"] if strings else []
        containers = []
        for choice in self._choices:
            texts += [self._scalar(choice, type_) for type_ in sorted(choice.types - {"string"} - _CONTAINERS)]
            if types := sorted(choice.types & _CONTAINERS):
                parts = [*choice.parts, {"type": types}]
                containers.append({"allOf": parts} if len(parts) > 2 else parts[0] | parts[-1])
        if not texts and not containers:
            raise ValueError("nothing satisfies it")
        within = self._shared | (containers[0] if len(containers) == 1 else {"anyOf": containers})
        return KeptTexts(_any_of(texts), within if containers else None)

    def _of(self, schema: Any, depth: int) -> list[_ValueKind]:
        """Return the kinds of values that match a schema."""
        self._seen += 1
        if self._seen > _MOST_SEEN:
            raise ValueError("it has too many parts")
        if isinstance(schema, bool):
            return [_ValueKind((), _EVERY)] if schema else []
        if not isinstance(schema, dict):
            raise ValueError("a schema is an object")
        if not depth:
            raise ValueError("it refers to itself, or is nested too deep")
        self._refuse(next((f"`{key}` can't be enforced" for key in _UNKNOWN if key in schema), ""))
        own = {key: value for key, value in schema.items() if key not in (*_CHOICES, *DEFINITIONS)}
        found = [_ValueKind((own,), _named(schema))]
        for options in self._combined(schema, depth - 1):
            _bounded(len(found) * len(options))
            found = [_ValueKind(a.parts + b.parts, a.types & b.types) for a in found for b in options]
        return found

    def _combined(self, schema: dict[str, Any], depth: int) -> list[list[_ValueKind]]:
        """Return the kinds of values that match each of the schemas that are combined in a schema."""
        found = []
        if isinstance(reference := schema.get("$ref"), str):
            if (target := resolve_reference(reference, self._root)) is None:
                raise ValueError(f"{reference} is not in the schema")
            found.append(self._of(target, depth))
        for key in ("allOf", "anyOf", "oneOf"):
            if isinstance(within := schema.get(key), list):
                _bounded(len(within))
                several = []
                for one in within:
                    several.append(self._of(one, depth))
                    _bounded(sum(map(len, several)))
                if key == "oneOf" and not _exclusive(several):
                    self._refuse("the branches of a `oneOf` may overlap")
                found += several if key == "allOf" else [[choice for options in several for choice in options]]
        return found

    def _string(self, choice: _ValueKind) -> str:
        """Return the terminal for the strings of a choice."""
        found = []
        if (listed := choice.listed) is not None:
            found.append(self._ended(_any_of(literal(value) for value in listed if isinstance(value, str))))
        for part in choice.parts:
            found += self._lengths(part)
            if (pattern := part.get("pattern")) is not None:
                try:
                    found.append(self._ended(searched(pattern)))
                except ValueError as error:
                    self._refuse(str(error))
            if isinstance(name := part.get("format"), str) and name in FORMATS:
                found.append(self._ended(FORMATS[name]))
            if "not" in part:
                found += self._excluded(part["not"])
        return " & ".join(found) or ANY

    def _lengths(self, part: dict[str, Any]) -> list[str]:
        least, most = part.get("minLength", 0), part.get("maxLength", "")
        if not (_is_length(least) and (most == "" or _is_length(most))) or (most != "" and least > most):
            raise ValueError("`minLength` and `maxLength` are no lengths")
        if not least and most == "":
            return []
        # Count the end, too: if nothing else is required, this is nearly free.
        behind = len(self._end)
        bounds = f"{int(least) + behind if least else 0},{most if most == '' else int(most) + behind}"
        return [f"/(?s:.{{{bounds}}})/"]

    def _ended(self, terminal: str) -> str:
        return f"(({terminal}) {literal(self._end)})" if self._end else f"({terminal})"

    def _excluded(self, schema: Any) -> list[str]:
        """Return the strings that a `not` with this schema excludes."""
        try:
            alone = {**self._shared, **schema} if isinstance(schema, dict) else schema
            within = Texts(alone, {"string"}, self._end, lenient=False)
            if any(choice.listed is None for choice in within._choices):
                raise ValueError("it must list values")  # negating a pattern may take any time
            found = [within._string(choice) for choice in within._choices]
        except ValueError as error:
            self._refuse(f"`not`: {error}")
            return []
        return [f"~({_any_of(found)})"] if found else []

    def _scalar(self, choice: _ValueKind, type_: str) -> str:
        """Return the terminal for the values of a choice that are null, a boolean or a number."""
        bounds = _BOUNDS if type_ in ("integer", "number") else ()
        for key in (*bounds, "not"):
            if any(key in part for part in choice.parts):
                self._refuse(f"`{key}` of what may be a string as well can't be enforced")
        if (listed := choice.listed) is not None:
            return self._ended(_any_of(literal(json.dumps(value)) for value in listed if json_type(value) == type_))
        return self._ended(_WRITTEN[type_])

    def _refuse(self, reason: str) -> None:
        if reason and not self._lenient:
            raise ValueError(reason)


def _named(schema: dict[str, Any]) -> frozenset[str]:
    """Return the types that a schema itself names; all types if it names none."""
    given = schema.get("type", sorted(_EVERY))
    names = given if isinstance(given, list) else [given]
    if unknown := next((name for name in names if name not in _EVERY), None):
        raise ValueError(f"Invalid type: {unknown}")
    return _with_integers(names)


def _with_integers(types: Collection[str]) -> frozenset[str]:
    return frozenset(types) | (frozenset({"integer"}) if "number" in types else frozenset())


def _bounded(choices: int) -> None:
    if choices > _MOST_CHOICES:
        raise ValueError(f"it leaves more than {_MOST_CHOICES} choices")


def _exclusive(schemas: list[list[_ValueKind]]) -> bool:
    """Return whether a quick look shows that no value can match two of these schemas."""
    known = [[(one.types, one.listed) for choice in choices if (one := choice.having(_EVERY))] for choices in schemas]
    return all(
        not types & others or (listed is not None and more is not None and not any(_among(one, more) for one in listed))
        for first, second in combinations(known, 2)
        for types, listed in first
        for others, more in second
    )


def _among(value: Any, listed: list[Any]) -> bool:
    """Return whether a value is in a list, by JSON's rules: 1 is not true."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in listed)


def _is_length(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value == int(value)


def _any_of(terminals: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(terminals))


def searched(pattern: Any) -> str:
    """Return a terminal of llguidance's Lark for the texts in which a pattern is found.

    Raise ValueError, with a sentence, if it is not a pattern or can't be enforced.
    """
    if not isinstance(pattern, str):
        raise ValueError("a pattern is a string")
    tokens = _TOKEN.findall(pattern)
    if tokens[-1:] == ["\\"]:
        raise ValueError(f"the pattern {pattern!r} ends within an escape")
    if math.prod(max(int(most), 1) for most in _MOST_TIMES.findall(pattern)) > _MOST_REPEATED:
        raise ValueError(f"the pattern {pattern[:40]!r} repeats too much within repetitions")
    if not _EDGES.isdisjoint(tokens):
        raise ValueError(f"the pattern {pattern!r} has anchors other than ^ and $")
    try:
        return regex(_found(tokens, pattern), use_ascii="dw")
    except ValueError as error:
        raise ValueError(f"the pattern {pattern!r}: {error}") from error


def _found(tokens: Sequence[str], pattern: str, *, start: bool = False, end: bool = False) -> str:
    """Return the expression of whole texts in which these tokens match; `start`, `end`: anchored there."""
    bars = [place for place, depth in enumerate(_depths(tokens)) if tokens[place] == "|" and not depth]
    alternatives = [list(tokens[before + 1 : bar]) for before, bar in pairwise([-1, *bars, len(tokens)])]
    return "|".join(_one(one, pattern, start=start, end=end) for one in alternatives)


def _one(tokens: list[str], pattern: str, *, start: bool, end: bool) -> str:
    while tokens and tokens[0] == "^":
        start, tokens = True, tokens[1:]
    while tokens and tokens[-1] == "$":
        end, tokens = True, tokens[:-1]
    if not {"^", "$"}.isdisjoint(tokens):
        depths = _depths(tokens)
        if depths[-1] or depths.count(0) > 1:  # more than one group
            raise ValueError(f"the pattern {pattern!r} has an anchor within it")
        return f"(?:{_found(tokens[1:-1], pattern, start=start, end=end)})"
    return f"{'' if start else _ANYTHING}(?:{''.join(tokens)}){'' if end else _ANYTHING}"


def _depths(tokens: Sequence[str]) -> list[int]:
    """Return how many groups are open after each token."""
    return list(accumulate(part.startswith("(") - (part == ")") for part in tokens))
