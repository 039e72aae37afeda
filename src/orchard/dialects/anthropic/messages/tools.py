"""The tools of a Messages request: the caller's own, and those that Anthropic defines and callers run."""

import re
from collections.abc import Sequence
from typing import Any

from orchard.core.tasks.generate import Tool
from orchard.dialects.anthropic.messages import schema as wire
from orchard.dialects.common.json_body import FreeForm, invalid_field, require
from orchard.dialects.common.tools import Tools


def choose_tools(
    body: wire.Body, added: Sequence[tuple[wire.ToolEntry, str]], free_form: FreeForm
) -> tuple[tuple[Tool, ...], bool]:
    """Return the tools that the model sees, and whether it must call one. Raise OrchardError (invalid_request).

    `added` are tools that messages define, each with its path in the body.
    """
    tools = Tools(free_form)
    for i, entry in enumerate(body.tools or ()):
        _add_tool(tools, entry, f"tools[{i}]", replaces=False)
    for entry, where in added:
        _add_tool(tools, entry, where, replaces=True)
    choice = body.tool_choice or wire.ToolChoice("auto")
    must_call, chosen = choice.type in ("any", "tool"), tools.as_tuple()
    if must_call and not chosen:
        message = f"must not be of type '{choice.type}': the request has no tools that this server can serve."
        raise invalid_field("tool_choice", message)
    if choice.type == "tool":
        chosen = tools.pick([require(choice.name, "tool_choice.name")], "tool_choice.name")
    return () if choice.type == "none" else chosen, must_call


def unserved_types(entries: Sequence[wire.ToolEntry]) -> tuple[str, ...]:
    """Return the types of the tools that only Anthropic's servers can run, which are left out."""
    return tuple(entry.type for entry in entries if entry.type and _tool_definition(entry) is None)


def _tool_definition(entry: wire.ToolEntry) -> tuple[str | None, dict[str, Any] | None] | None:
    """Return the description and the schema of a tool; None if only Anthropic's servers can run it."""
    if entry.input_schema is not None or entry.type in (None, "custom"):
        return entry.description, entry.input_schema
    return next((known for pattern, known in _DEFINITIONS.items() if re.fullmatch(pattern, entry.type)), None)


def _add_tool(tools: Tools, entry: wire.ToolEntry, where: str, *, replaces: bool) -> None:
    """Add a tool, unless it is left out."""
    if (definition := _tool_definition(entry)) is None:
        return
    description, schema = definition
    name = require(entry.name, f"{where}.name")
    schema = require(schema, f"{where}.input_schema")
    schema = {key: value for key, value in schema.items() if key != "$schema"}  # useless to the model
    tools.add(where, name, description, schema, entry.strict, field="input_schema", replaces=replaces)


def _object_property(required: Sequence[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _string_property(description: str, *values: str) -> dict[str, Any]:
    return {"type": "string", "description": description} | ({"enum": list(values)} if values else {})


# The inputs are those of https://platform.claude.com/docs/en/agents-and-tools/tool-use (bash, text editor, memory).
_BASH = (
    "Runs a command in a bash shell that stays open between calls.",
    _object_property(
        (),
        command=_string_property("The command to run. Required unless the shell is restarted."),
        restart={"type": "boolean", "description": "Whether to restart the shell instead."},
    ),
)


_EDITS = {
    "command": _string_property("What to do.", "view", "create", "str_replace", "insert"),
    "path": _string_property("The path of the file, or of a folder to view."),
    "view_range": {
        "type": "array",
        "items": {"type": "integer"},
        "description": "For 'view': the first and the last line to show, from 1; -1 is the last line of the file.",
    },
    "file_text": _string_property("For 'create': the text of the new file."),
    "old_str": _string_property("For 'str_replace': the text to replace; it must occur exactly once."),
    "new_str": _string_property("For 'str_replace': the text in its place."),
    "insert_line": {
        "type": "integer",
        "description": "For 'insert': the line after which to insert; 0 is the beginning.",
    },
}


def _editor_tool(**inserted: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text editor tool; `inserted` is the field for the text to insert, which depends on the version."""
    return "Views, creates and edits text files.", _object_property(("command", "path"), **_EDITS | inserted)


_NOTES = _EDITS | {
    "command": _string_property("What to do.", "view", "create", "str_replace", "insert", "delete", "rename"),
    "path": _string_property("The path, under /memories; for all but 'rename'."),
    "file_text": _string_property("For 'create': the text of the file."),
    "insert_text": _string_property("For 'insert': the text to insert."),
    "old_path": _string_property("For 'rename': the path as it is."),
    "new_path": _string_property("For 'rename': the path as it is to be."),
}
_MEMORY = (
    "Keeps notes in files under /memories, which last beyond this conversation.",
    _object_property(("command",), **_NOTES),
)
_DEFINITIONS: dict[str, tuple[str, dict[str, Any]]] = {
    r"bash_\d+": _BASH,
    r"text_editor_(2024\d+|20250124|20250429)": _editor_tool(
        new_str=_string_property("For 'str_replace': the text in its place. For 'insert': the text.")
    ),
    r"text_editor_\d+": _editor_tool(insert_text=_string_property("For 'insert': the text.")),
    r"memory_\d+": _MEMORY,
}
