"""What a client offers: a tool's definition, and a request that it serves."""

# ruff: noqa: PLR0912 - many keys that a client may send or not

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from demo_model.template import Message, Tool


@dataclass(slots=True)
class Offer:
    """A tool as the client defines it, with one request for it and the arguments that the request gives."""

    key: str
    tool: Tool
    ask: str
    arguments: dict[str, Any]
    single: bool = False
    topic: str = ""
    everyday: bool = False  # the request is one that people make of anybody
    beside: list[Tool] = field(default_factory=list)  # tools for other things, offered with this one

    @property
    def name(self) -> str:
        """The tool's name as the model must write it."""
        return str(self.tool["function"]["name"])


def styled(rng: Random, name: str) -> str:
    """Write a snake_case name as it is, in camelCase, or in PascalCase."""
    style = rng.random()
    if style < 0.75 or name != name.lower():
        return name
    joined = "".join([part.capitalize() for part in name.split("_")])
    return joined[0].lower() + joined[1:] if style < 0.93 else joined


def definition(rng: Random, name: str, about: str, fields: list[tuple[str, Message, bool]]) -> Tool:
    """Write a tool in the OpenAI API's shape, with the extra keys and key orders that clients really send."""
    pydantic = rng.random() < 0.15
    properties: Message = {}
    for name_of, schema, needed in fields:
        shown = dict(schema)
        if pydantic:
            shown["title"] = name_of.replace("_", " ").title()
        if not needed and rng.random() < 0.3:
            shown["default"] = None
        if not needed and pydantic and "enum" not in shown:
            shown["anyOf"] = [{"type": shown.pop("type")}, {"type": "null"}]
        if rng.random() < 0.3:
            shown = dict(rng.sample(sorted(shown.items()), len(shown)))
        properties[name_of] = shown
    parameters: Message = {"type": "object", "properties": properties}
    required = [name_of for name_of, _, is_needed in fields if is_needed]
    if required or rng.random() < 0.5:
        parameters["required"] = required
    for key, value in (
        ("additionalProperties", False),
        ("$schema", "http://json-schema.org/draft-07/schema#"),
        ("title", name),
    ):
        if rng.random() < 0.08:
            parameters[key] = value
    function: Message = {"name": name}
    if about and rng.random() < 0.85:
        function["description"] = about
    if fields or rng.random() < 0.6:
        function["parameters"] = parameters
    if rng.random() < 0.1:
        function["strict"] = rng.random() < 0.7
    tool: Tool = {"type": "function", "function": function}
    style = rng.random()
    # Some template engines sort keys, some clients write them in another order.
    if style < 0.15:
        return dict(json.loads(json.dumps(tool, sort_keys=True)))
    if style < 0.22:
        function = dict(rng.sample(sorted(function.items()), len(function)))
        return {"function": function, "type": "function"}
    return tool
