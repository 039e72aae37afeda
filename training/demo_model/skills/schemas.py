"""Answers in JSON that a request describes: by a schema, by the names of the keys, or by a system prompt."""

# ruff: noqa: E501 - phrases read best unbroken

import json
import math
from random import Random
from typing import Any

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills.forms import THOUGHT
from demo_model.template import Message
from demo_model.text import ADJECTIVES, choose


def type_of(value: Any) -> Message:
    """Return the JSON schema of a value."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: type_of(inner) for key, inner in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": type_of(value[0])}
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return {"type": name}
    return {"type": "string"}


def schema_of(rng: Random, found: Message) -> str:
    """Write the JSON schema that an object follows, with the limits, choices and descriptions of a client's."""
    properties = type_of(found)["properties"]
    for key, schema in properties.items():
        value = found[key]
        if schema["type"] == "string" and rng.random() < 0.2:
            schema["enum"] = sorted({value, *rng.sample(ADJECTIVES, 2)}) if " " not in value else [value]
        elif schema["type"] in ("integer", "number") and rng.random() < 0.3:
            schema["minimum"], schema["maximum"] = (
                math.floor(min(0, value)),
                int(max(value + 1, choose(rng, (10, 100, 1000)))),
            )
        elif schema["type"] == "array" and rng.random() < 0.3:
            schema["minItems"], schema["maxItems"] = 1, max(len(value), rng.randint(2, 5))
        if rng.random() < 0.1:
            schema["description"] = f"The {key.replace('_', ' ')}"
    whole: Message = {"type": "object", "properties": properties, "required": list(found)}
    if rng.random() < 0.3:
        whole["additionalProperties"] = False
    return json.dumps(whole, ensure_ascii=False)


def keys_of(rng: Random, found: Message) -> str:
    """Name the keys of an object as people do: in a list, in words, in quotes, with their types."""
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "yes or no", "array": "list", "object": "object"}  # fmt: skip
    kind = rng.random()
    shown = list(found)
    if kind < 0.15:
        shown = [f'"{key}"' for key in shown]
    elif kind < 0.3:
        types = {key: schema["type"] for key, schema in type_of(found)["properties"].items()}
        types = {key: names[one] if kind < 0.22 else one for key, one in types.items()}
        shown = [f"{key} ({types[key]})" for key in shown]
    if len(shown) > 1 and rng.random() < 0.4:
        return ", ".join(shown[:-1]) + " and " + shown[-1]
    return ", ".join(shown)


def exchange(ask: str, made: Message, system: str | None) -> Exchange:
    """Make a request and its answer, all of which the model writes."""
    # The server's grammars write JSON as json.dumps does.
    answer = assistant(json.dumps(made, ensure_ascii=False), THOUGHT)
    lead: list[Message] = [{"role": "system", "content": system}] if system else []
    return Exchange([*lead, user(ask), answer], topic="json")
