"""Custom tools, which take free text: the model sees a function with one string argument, `input`."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from orchard.dialects.common.fields import NonEmpty
from orchard.dialects.common.tools import Tools

_HINTS = {"regex": "The input must match this regular expression:", "lark": "The input must keep to this grammar:"}


class InputGrammar(Struct):
    """A grammar of a custom tool's input."""

    syntax: Literal["lark", "regex"]
    definition: NonEmpty


def add_custom_tool(tools: Tools, where: str, name: str, description: str | None, grammar: InputGrammar | None) -> None:
    """Add the custom tool at the path `where`; `grammar` is enforced for its input."""
    text: dict[str, Any] = {"type": "string"}
    if grammar:
        hint = f"{_HINTS[grammar.syntax]}\n{grammar.definition}"
        description = f"{description}\n\n{hint}" if description else hint
    if grammar and grammar.syntax == "regex":
        text["pattern"] = f"^(?:{grammar.definition})$"
    schema = {"type": "object", "properties": {"input": text}, "required": ["input"], "additionalProperties": False}
    input_grammar = grammar.definition if grammar and grammar.syntax == "lark" else None
    tools.add(where, name, description, schema, grammar is not None, input_grammar=input_grammar)


def custom_arguments(text: str) -> str:
    """Return the arguments of the function that represents a custom tool."""
    return msgspec.json.encode({"input": text}).decode()


def custom_input(arguments: str) -> str:
    """Return the input in `{"input": "..."}`; other arguments are returned unchanged."""
    try:
        return msgspec.json.decode(arguments, type=dict[Literal["input"], str])["input"]
    except (msgspec.DecodeError, KeyError, RecursionError):
        return arguments
