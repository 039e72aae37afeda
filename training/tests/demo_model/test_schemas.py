"""Schemas that requests give: the answer follows them."""

import json
from random import Random
from typing import Any

from demo_model.skills import answers, schemas


def follows(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is what a schema, with the keys that the generator writes, says."""
    if schema["type"] == "object":
        inner = schema["properties"]
        return list(value) == list(inner) and all(follows(value[key], inner[key]) for key in inner)
    if schema["type"] == "array":
        least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
        return least <= len(value) <= most and all(follows(one, schema["items"]) for one in value)
    kinds: dict[str, type | tuple[type, ...]] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    fits = isinstance(value, kinds[schema["type"]]) and value in schema.get("enum", [value])
    return fits and schema.get("minimum", value) <= value <= schema.get("maximum", value)


def test_an_answer_follows_the_schema_that_was_given() -> None:
    rng = Random(5)
    seen = set()
    for _ in range(600):
        _, made = answers.invented(rng, "train")
        schema = json.loads(schemas.schema_of(rng, made))
        assert follows(made, schema), (made, schema)
        seen |= {key for one in schema["properties"].values() for key in one}
    assert seen >= {"type", "enum", "minimum", "maximum", "minItems", "maxItems", "items", "properties", "description"}
