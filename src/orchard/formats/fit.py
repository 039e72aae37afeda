"""Whether arguments fit a tool's schema, as far as names, types and listed values go, at every level."""

import json
from typing import Any

from orchard.formats.schema import Signature, convert_text, enum_values, json_type, resolve_reference

_MOST_STEPS = 10_000  # a limit, because alternatives within each other multiply


def misfit(signature: Signature, arguments: dict[str, Any]) -> str | None:
    """Return why arguments don't fit; None if they do."""
    for name in signature.required:
        if name not in arguments:
            return f"the parameter '{name}' is missing"
    for name, value in arguments.items():
        if name not in signature.properties and not signature.is_open_ended:
            return "the tool has no such parameter"
        if not _fits_schema(signature, name, value):
            told = f"the value of '{name}'" if name in signature.properties else "a value"
            return f"{told} doesn't fit its schema"
    return None


def fits_parameter(signature: Signature, name: str, text: str) -> bool:
    """Return whether a text is a value of a parameter, as a string or as another type."""
    found = convert_text(text, signature.types(name))
    return _fits_schema(signature, name, text) or (
        found is not None and _fits_schema(signature, name, json.loads(found))
    )


def _fits_schema(signature: Signature, name: str, value: Any) -> bool:
    try:
        return _Fit(signature.schema).fits(value, signature.properties.get(name, signature.other_schema))
    except RecursionError:  # references that lead to each other
        return False


class _Fit:
    """One comparison of a value with a schema."""

    def __init__(self, root: dict[str, Any]) -> None:
        """`root`: the schema in which references are resolved."""
        self._root = root
        self._steps_left = _MOST_STEPS

    def fits(self, value: Any, schema: Any) -> bool:
        """Return whether a value fits a part of the schema; False if that takes too many steps."""
        if not isinstance(schema, dict):
            return schema is not False
        self._steps_left -= 1
        if self._steps_left < 0:
            return False
        if isinstance(reference := schema.get("$ref"), str):
            return self.fits(value, resolve_reference(reference, self._root))
        return (
            self._is_listed(value, schema) and self._fits_branches(value, schema) and self._fits_inside(value, schema)
        )

    def _is_listed(self, value: Any, schema: dict[str, Any]) -> bool:
        """Return whether a value has one of the types and is one of the values that a schema lists."""
        given, kind, listed = schema.get("type"), json_type(value), enum_values(schema)
        types = set(given if isinstance(given, list) else [given] if given else [])
        types |= {"integer"} if "number" in types else set()
        types |= {"null"} if types and schema.get("nullable") is True else set()
        return (not types or kind in types) and (not listed or value in listed)

    def _fits_branches(self, value: Any, schema: dict[str, Any]) -> bool:
        for key, enough in (("anyOf", any), ("oneOf", any), ("allOf", all)):
            options = schema.get(key)
            if isinstance(options, list) and not enough(self.fits(value, one) for one in options):
                return False
        return True

    def _fits_inside(self, value: Any, schema: dict[str, Any]) -> bool:
        """Return whether the items of a list, or the members of an object, fit a schema."""
        if isinstance(value, list):
            return all(self.fits(one, schema.get("items")) for one in value)
        if not isinstance(value, dict):
            return True
        properties, needed = schema.get("properties"), schema.get("required")
        known, others = properties if isinstance(properties, dict) else {}, schema.get("additionalProperties")
        if isinstance(needed, list) and not all(name in value for name in needed):
            return False
        return all(self.fits(one, known.get(name, others)) for name, one in value.items())
