"""The types of a tool's parameters in its JSON schema, and values that are converted to them."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from orchard.core.tasks.generate import Tool

_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
CONSTANT_WORDS = {"true": "true", "false": "false", "null": "null", "none": "null"}
"""JSON's constants by the words that models write, in lower case."""
PARAMETER_NAME = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$"}
"""The schema of the names of parameters that aren't listed."""
DEFINITIONS = ("$defs", "definitions")
"""The keys of a schema for parts that it refers to."""
_MAX_DEPTH = 8  # references and alternatives within each other
_OBJECT_KEYWORDS = {"type", "properties", "required", "additionalProperties"}
_NOT_IN_NAMES = set("<>\"'\n")  # what tags and calls end with
# What an object's schema may ask for beyond its properties.
_OTHER_KEYWORDS = {
    *("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "enum", "const"),
    *("patternProperties", "propertyNames", "unevaluatedProperties", "minProperties", "maxProperties"),
    *("dependentRequired", "dependentSchemas", "dependencies"),
}


class Signature:
    """A tool's parameters, and the types that each may have; no types if the schema doesn't say."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The schema of the arguments; a reference at its top level is resolved."""
        found: dict[str, Any] = self.tool.parameters or {}
        for _ in range(_MAX_DEPTH):
            target = resolve_reference(found["$ref"], found) if isinstance(found.get("$ref"), str) else None
            if not isinstance(target, dict) or target.keys() & found.keys() & _OBJECT_KEYWORDS:
                break
            found = {key: value for key, value in found.items() if key != "$ref"} | target
        return found

    @cached_property
    def properties(self) -> dict[str, Any]:
        """The schemas of the parameters that are listed or required; {} if the schema has neither."""
        found, names = self.schema.get("properties"), self.schema.get("required")
        listed = found if isinstance(found, dict) else {}
        needed = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        return {**listed, **{name: self.other_schema for name in needed if name not in listed}}

    @cached_property
    def required(self) -> list[str]:
        """The parameters that every call has, in their order."""
        names = self.schema.get("required")
        return [name for name in self.properties if name in names] if isinstance(names, list) else []

    @property
    def other_schema(self) -> Any:
        """The schema of parameters that are not listed, whether or not there may be any."""
        return self.schema.get("additionalProperties") or True

    @property
    def is_open_ended(self) -> bool:
        """Whether a call may have parameters that are not listed; a schema that lists some must say so."""
        others = self.schema.get("additionalProperties")
        if others is None:
            return self.tool.parameters is not None and "properties" not in self.schema
        return others is not False

    def parameter_schemas(self) -> dict[str, Any]:
        """Return the schemas of the parameters that a call may have one by one, each with its name.

        Raise ValueError if a strict tool's schema requires more than that. For other tools, the rest is ignored.
        """
        strict, found = self.tool.strict, {}
        if strict and (more := sorted(_OTHER_KEYWORDS & self.schema.keys())):
            raise ValueError(f"in this model's tool-call format, the arguments can't be made to match `{more[0]}`")
        for name, schema in self.properties.items():
            if strict and schema is False and name in self.required:
                raise ValueError(f"nothing satisfies the schema of the parameter '{name}'")
            if _NOT_IN_NAMES.isdisjoint(name) and name == name.strip() != "":
                if schema is not False:
                    found[name] = schema
            elif strict:
                raise ValueError(f"this model's tool-call format can't write the name of the parameter {name!r}")
        return found

    @cached_property
    def _types_by_name(self) -> dict[str | None, frozenset[str]]:
        known = [(None, self.other_schema), *self.properties.items()]
        return {name: frozenset(_schema_types(schema, self.schema, _MAX_DEPTH)) for name, schema in known}

    def types(self, name: str) -> frozenset[str]:
        """Return the names of the JSON types that a parameter may have."""
        return self._types_by_name.get(name, self._types_by_name[None])


Signatures = Mapping[str, Signature]


def signatures(tools: Sequence[Tool]) -> Signatures:
    """Return the signatures of tools, by their names."""
    return {tool.name: Signature(tool) for tool in tools}


def _schema_types(schema: Any, root: dict[str, Any], depth: int) -> set[str]:
    if not isinstance(schema, dict) or not depth:
        return set()
    if isinstance(reference := schema.get("$ref"), str):
        return _schema_types(resolve_reference(reference, root), root, depth - 1)
    given = schema.get("type")
    if given:
        named = {name for name in (given if isinstance(given, list) else [given]) if isinstance(name, str)}
        return named | {"null"} if schema.get("nullable") is True else named  # OpenAPI 3.0
    for alternatives in (schema.get("anyOf"), schema.get("oneOf")):
        if isinstance(alternatives, list):
            found = [_schema_types(one, root, depth - 1) for one in alternatives]
            return set().union(*found) if all(found) else set()
    if isinstance(every := schema.get("allOf"), list):
        found = [types for one in every if (types := _schema_types(one, root, depth - 1))]
        return set.intersection(*found) if found else set()
    return {json_type(value) for value in enum_values(schema)}


def enum_values(schema: Any) -> list[Any]:
    """Return the values that a schema lists; [] if it lists none."""
    if not isinstance(schema, dict):
        return []
    found = [schema["const"]] if "const" in schema else schema.get("enum")
    return found if isinstance(found, list) else []


def definitions(root: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a schema that its other parts may refer to, under their keys."""
    return {key: root[key] for key in DEFINITIONS if key in root}


def standalone_schema(part: Any, root: dict[str, Any]) -> Any:
    """Return a part of a schema as a separate schema, with the definitions that it may refer to."""
    if not isinstance(part, dict) or '"$ref"' not in json.dumps(part):
        return part
    return definitions(root) | part


def resolve_reference(reference: str, root: dict[str, Any]) -> Any:
    """Return the part of a schema that a reference names by its place; None if there is none."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    found: Any = root
    for step in reference.split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def json_type(value: Any) -> str:
    """Return the name of the JSON type of a value."""
    return "null" if value is None else _TYPES[type(value)]


def convert_text(text: str, types: frozenset[str]) -> str | None:
    """Return the JSON text of the value that a text represents, if it has one of the types; else None.

    The type "string" doesn't count. Without types, only arrays, objects and null count.
    """
    text = text.strip()
    text = CONSTANT_WORDS.get(text.lower(), text)
    written = load_json(text)
    if written is None:
        return None
    value, text = written
    found = json_type(value)
    wanted = types or {"array", "object", "null"}
    if found in wanted and found != "string":
        return text
    if found == "integer" and "number" in wanted:
        return text
    if found == "number" and "integer" in wanted and value.is_integer():
        return str(int(value))
    return None


def load_json(text: str) -> tuple[Any, str] | None:
    """Read JSON as models write it, with newlines in strings. Return the value and its valid JSON text, or None."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_finite_float), text
    except (ValueError, RecursionError):
        pass
    try:
        value = json.loads(text, strict=False, parse_constant=_refuse_constant, parse_float=_parse_finite_float)
        written = json.dumps(value, ensure_ascii=False)
        return value, written if is_encodable(written) else json.dumps(value)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _parse_finite_float(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"{text} is beyond what a double holds")
    return value


def is_encodable(text: str) -> bool:
    """Return whether the text is UTF-8: JSON escapes can name half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
