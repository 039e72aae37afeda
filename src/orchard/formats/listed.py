"""What formats keep of a tool's schema that write its arguments one after the other, each with its name."""

from typing import Any

from orchard.formats.schema import Signature

# What an object's schema may ask for beyond its properties.
_MORE = {
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "enum",
    "const",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "minProperties",
    "maxProperties",
}
NAME = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$"}
"""The schema of the names of parameters that aren't listed."""
_NO_NAME = set("<>\"'\n")  # what tags and calls end with


def listed(signature: Signature) -> dict[str, Any]:
    """Give the schemas of the parameters that a call may have, by their names.

    Raises ValueError where the schema of a strict tool asks for more than that. Of others the rest is left out.
    """
    strict, needed = signature.tool.strict, signature.required
    if strict and (more := sorted(_MORE & signature.schema.keys())):
        raise ValueError(f"in this model's format of calls the arguments can't keep `{more[0]}`")
    found = {}
    for name, schema in signature.properties.items():
        if strict and schema is False and name in needed:
            raise ValueError(f"nothing keeps the parameter '{name}'")
        if _NO_NAME.isdisjoint(name) and name == name.strip() != "":
            if schema is not False:
                found[name] = schema
        elif strict:
            raise ValueError(f"this model's format of calls can't write the name of the parameter {name!r}")
    return found


def open_ended(signature: Signature) -> bool:
    """Whether a call may have other parameters than those listed; a schema that lists some must say so."""
    others = signature.schema.get("additionalProperties")
    if others is None:
        return signature.tool.parameters is not None and "properties" not in signature.schema
    return others is not False
