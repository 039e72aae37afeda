"""The tools of one request, by name."""

import re
from collections.abc import Iterable
from typing import Any

from orchard.core.tasks.generate import Tool
from orchard.dialects.common.json_body import FreeForm, invalid_field

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Tools:
    """The given tools, in order. `add` checks them."""

    def __init__(self, free_form: FreeForm) -> None:
        self._free_form = free_form
        self._tools: dict[str, Tool] = {}

    def add(
        self,
        where: str,
        name: str,
        description: str | None,
        schema: dict[str, Any] | None,
        strict: bool | None,
        *,
        field: str = "parameters",
        input_grammar: str | None = None,
        replaces: bool = False,
    ) -> None:
        """Add the tool at the path `where` of the body, whose schema is in `field`.

        `replaces`: it may replace an earlier tool. Raise OrchardError if its name or schema is not valid.
        """
        if not _NAME.fullmatch(name):
            raise invalid_field(f"{where}.name", "must be 1 to 128 characters long: letters, digits, '_', '.' and '-'.")
        if name in self._tools and not replaces:
            raise invalid_field(f"{where}.name", "must be unique: another tool has the same name.")
        self._free_form.check(schema, f"{where}.{field}")
        kind = schema.get("type") if schema else None
        if schema and isinstance(kind, list) and "object" in kind:
            schema = schema | {"type": "object"}  # the arguments of a call are always an object
        elif kind not in (None, "object"):
            raise invalid_field(f"{where}.{field}.type", "must be 'object': the arguments of a call are an object.")
        self._tools[name] = Tool(name, description, schema, bool(strict), input_grammar)

    def as_tuple(self) -> tuple[Tool, ...]:
        """Return every tool."""
        return tuple(self._tools.values())

    def pick(self, names: Iterable[str], param: str) -> tuple[Tool, ...]:
        """Return the tools with these names, which the field `param` has. Raise OrchardError if one doesn't exist."""
        picked = set(names)
        if picked - set(self._tools):
            raise invalid_field(param, "names a tool that is not among the given tools that this server can serve.")
        return tuple(tool for name, tool in self._tools.items() if name in picked)
