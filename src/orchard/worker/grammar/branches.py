"""Whether the branches of a JSON schema's `oneOf` shut each other out."""

from collections.abc import Sequence
from typing import Any

from orchard.formats.schema import resolved, type_of, values

_DEEPEST = 8  # references that lead to references
_EVERY = {"null", "boolean", "number", "string", "array", "object"}


def exclusive(branches: Sequence[Any], root: dict[str, Any]) -> bool:
    """Return whether nothing can keep two of them, as far as is seen at a glance.

    They have different types, or list different values, or are objects with a property of which that is true: the tag
    of a union.
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
    listed = [values(schema) for schema in schemas]
    if len(types) == len(set(types)):
        return True
    if not all(listed) or any(isinstance(value, list | dict) for some in listed for value in some):
        return False
    return len(set().union(*listed)) == sum(len(set(some)) for some in listed)


def _target(schema: Any, root: dict[str, Any]) -> Any:
    for _ in range(_DEEPEST):
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            break
        schema = resolved(schema["$ref"], root)
    return schema


def _types(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return _EVERY
    given = schema.get("type") or [type_of(value) for value in values(schema)] or sorted(_EVERY)
    names = given if isinstance(given, list) else [given]
    return {"number" if name == "integer" else name for name in names if isinstance(name, str)}


def _required(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the properties that are listed and required, with their schemas."""
    listed, names = schema.get("properties"), schema.get("required")
    if not isinstance(listed, dict) or not isinstance(names, list):
        return {}
    return {name: listed[name] for name in names if isinstance(name, str) and name in listed}
