"""Texts that are values of a JSON schema: strings as they are, all else as JSON; as terminals of llguidance's Lark.

https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md
"""

import json
from collections.abc import Collection, Iterable
from itertools import combinations
from typing import Any

from msgspec import Struct

from orchard.formats.schema import DEFINITIONS, definitions, resolved, type_of, values
from orchard.worker.grammar.lark import ANY, literal
from orchard.worker.grammar.patterns import FORMATS, searched

_MOST_CHOICES = 256
_MOST_SEEN = 4096
_DEEPEST = 16  # references and choices within each other
_CHOICES = ("$ref", "allOf", "anyOf", "oneOf")
_UNKNOWN = ("if", "$dynamicRef", "$recursiveRef")
_EVERY = frozenset({"string", "null", "boolean", "integer", "number", "array", "object"})
_CONTAINERS = frozenset({"array", "object"})
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
# What says something of values that are no strings.
_BINDING = {
    *("enum", "const", "not", *_UNKNOWN, *_BOUNDS),
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "minContains", "maxContains"),
    *("minItems", "maxItems", "uniqueItems", "properties", "patternProperties", "additionalProperties", "required"),
    *("minProperties", "maxProperties", "propertyNames", "unevaluatedProperties", "dependencies"),
    *("dependentRequired", "dependentSchemas"),
}
# How values are written that are no strings, and which texts are read as such.
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


class KeptTexts(Struct, frozen=True):
    """What keeps a schema: `text`, a terminal, "" where there is none; and JSON that keeps `json`, if any."""

    text: str
    json: dict[str, Any] | None = None


class _ValueKind(Struct, frozen=True):
    """One kind of value that keeps a schema: of any of these types, and keeping all of these parts of the schema."""

    parts: tuple[dict[str, Any], ...]
    types: frozenset[str]

    @property
    def listed(self) -> list[Any] | None:
        """The values that it may have; None: they are not listed."""
        lists = [values(part) for part in self.parts if "enum" in part or "const" in part]
        if not lists:
            return None
        return [value for value in lists[0] if all(_among(value, more) for more in lists[1:])]

    def having(self, types: frozenset[str]) -> "_ValueKind":
        """Return the part of it that has one of these types."""
        types &= self.types
        if (listed := self.listed) is not None:
            types &= {type_of(value) for value in listed}
        return _ValueKind(self.parts, types)


class Texts:
    """The texts that keep a schema, with `end` behind them, in texts that have it there and nowhere else.

    `types`: what is read in a text, if it may be that. A string is kept apart from what would be read as something else
    that the schema has no place for.
    """

    def __init__(self, schema: Any, types: Collection[str], end: str = "", *, lenient: bool) -> None:
        """Raise ValueError, with a sentence, where it can't be kept; `lenient`: such keywords of it say nothing."""
        self._root = schema if isinstance(schema, dict) else {}
        self._shared = definitions(self._root)
        self._end = end
        self._lenient = lenient
        self._seen = 0  # schemas, those that are referred to as often as they are
        self._types = _with_integers(types)
        self._choices = [one for choice in self._of(schema, _DEEPEST) if (one := choice.having(self._types)).types]

    def kept(self) -> KeptTexts:
        """Return what keeps the schema. Raise ValueError as above."""
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
            raise ValueError("nothing keeps it")
        within = self._shared | (containers[0] if len(containers) == 1 else {"anyOf": containers})
        return KeptTexts(_any_of(texts), within if containers else None)

    def _of(self, schema: Any, depth: int) -> list[_ValueKind]:
        """Return the choices that a schema leaves."""
        self._seen += 1
        if self._seen > _MOST_SEEN:
            raise ValueError("it has too many parts")
        if isinstance(schema, bool):
            return [_ValueKind((), _EVERY)] if schema else []
        if not isinstance(schema, dict):
            raise ValueError("a schema is an object")
        if not depth:
            raise ValueError("it refers to itself, or is nested too deep")
        self._refuse(next((f"`{key}` can't be kept" for key in _UNKNOWN if key in schema), ""))
        own = {key: value for key, value in schema.items() if key not in (*_CHOICES, *DEFINITIONS)}
        found = [_ValueKind((own,), _named(schema))]
        for options in self._combined(schema, depth - 1):
            _bounded(len(found) * len(options))
            found = [_ValueKind(a.parts + b.parts, a.types & b.types) for a in found for b in options]
        return found

    def _combined(self, schema: dict[str, Any], depth: int) -> list[list[_ValueKind]]:
        """Return the choices that each of the other schemas in a schema leaves."""
        found = []
        if isinstance(reference := schema.get("$ref"), str):
            if (target := resolved(reference, self._root)) is None:
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
        # Counted with what stands behind the text: where this is all that is asked, it costs next to nothing so.
        behind = len(self._end)
        bounds = f"{int(least) + behind if least else 0},{most if most == '' else int(most) + behind}"
        return [f"/(?s:.{{{bounds}}})/"]

    def _ended(self, terminal: str) -> str:
        return f"(({terminal}) {literal(self._end)})" if self._end else f"({terminal})"

    def _excluded(self, schema: Any) -> list[str]:
        """Return the strings that are none of a schema's."""
        try:
            alone = {**self._shared, **schema} if isinstance(schema, dict) else schema
            within = Texts(alone, {"string"}, self._end, lenient=False)
            if any(choice.listed is None for choice in within._choices):
                raise ValueError("it must list values")  # to negate a pattern may cost any time
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
                self._refuse(f"`{key}` of what may be a string as well can't be kept")
        if (listed := choice.listed) is not None:
            return self._ended(_any_of(literal(json.dumps(value)) for value in listed if type_of(value) == type_))
        return self._ended(_WRITTEN[type_])

    def _refuse(self, reason: str) -> None:
        if reason and not self._lenient:
            raise ValueError(reason)


def _named(schema: dict[str, Any]) -> frozenset[str]:
    """Return the types that a schema itself names; all of them where it names none."""
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
    """Return whether nothing can keep two of some schemas, as far as that is seen."""
    known = [[(one.types, one.listed) for choice in choices if (one := choice.having(_EVERY))] for choices in schemas]
    return all(
        not types & others or (listed is not None and more is not None and not any(_among(one, more) for one in listed))
        for first, second in combinations(known, 2)
        for types, listed in first
        for others, more in second
    )


def _among(value: Any, listed: list[Any]) -> bool:
    """Return whether a value is in a list, as JSON has it: 1 is not true."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in listed)


def _is_length(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value == int(value)


def _any_of(terminals: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(terminals))
