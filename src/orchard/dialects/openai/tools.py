"""Tools as OpenAI's dialects describe them, and which of them may be called.

A custom tool takes free text: the model sees a function of one string, `input`.
"""

import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from orchard.core.tasks.generate import Tool
from orchard.dialects.common.json_body import FreeForm, invalid, object_schema

MAX_SCHEMA_BYTES = 256 * 1024
_HINTS = {"regex": "The input must match this regular expression:", "lark": "The input must keep to this grammar:"}
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Tools:
    """The functions of one request, by name."""

    def __init__(self, free_form: FreeForm) -> None:
        self._free_form = free_form
        self._tools: dict[str, Tool] = {}

    def add(
        self, where: str, name: str, description: str | None, parameters: dict[str, Any] | None, strict: bool | None
    ) -> None:
        """Take the function that stands at `where`. Raises OrchardError where its name or schema can't be."""
        param = f"{where}.name"
        if not _NAME.fullmatch(name):
            raise invalid(param, f"`{param}` must be 1 to 128 characters long: letters, digits, '_', '.' and '-'.")
        if name in self._tools:
            raise invalid(param, f"`{param}` must be unique: another tool has the same name.")
        self._free_form.check(parameters, f"{where}.parameters", MAX_SCHEMA_BYTES)
        if parameters is not None:
            parameters = object_schema(parameters, f"{where}.parameters")
        self._tools[name] = Tool(name, description, parameters, bool(strict))

    def add_custom(
        self,
        where: str,
        name: str,
        description: str | None,
        *,
        syntax: Literal["lark", "regex"] | None = None,
        definition: str = "",
    ) -> None:
        """Take the custom tool that stands at `where`. Its input keeps to the regular expression, or to the grammar."""
        text: dict[str, Any] = {"type": "string"}
        if syntax:
            hint = f"{_HINTS[syntax]}\n{definition}"
            description = f"{description}\n\n{hint}" if description else hint
        if syntax == "regex":
            text["pattern"] = f"^(?:{definition})$"
        schema = {"type": "object", "properties": {"input": text}, "required": ["input"], "additionalProperties": False}
        self.add(where, name, description, schema, syntax is not None)
        if syntax == "lark":
            self._tools[name] = replace(self._tools[name], input_grammar=definition)

    def all(self) -> tuple[Tool, ...]:
        """Give every function."""
        return tuple(self._tools.values())

    def pick(self, names: Iterable[str], param: str) -> tuple[Tool, ...]:
        """Give those of the functions that `param` names. Raises OrchardError where one isn't there."""
        picked = dict.fromkeys(names)
        for name in picked:
            if name not in self._tools:
                raise invalid(param, f"`{param}` names a function that is not among the given tools.")
        return tuple(tool for name, tool in self._tools.items() if name in picked)


def custom_arguments(text: str) -> str:
    """Give the arguments of the function that stands for a custom tool."""
    return msgspec.json.encode({"input": text}).decode()


def custom_input(arguments: str) -> str:
    """Take the input out of `{"input": "..."}`; what is nothing like it is the input itself."""
    try:
        return msgspec.json.decode(arguments, type=dict[Literal["input"], str])["input"]
    except (msgspec.DecodeError, KeyError, RecursionError):
        return arguments
