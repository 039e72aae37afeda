"""The tools of a Responses request: which are served, under which names, and which may be called."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.dialects.common.json_body import FreeForm, invalid_choice, invalid_field
from orchard.dialects.common.tools import Tools
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.tools import InputGrammar, add_custom_tool

# OpenAI runs these tools itself, or only OpenAI's models can use them.
_HOSTED = {
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "programmatic_tool_calling",
    "shell",
    "tool_search",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
}
_IMAGES = "image_generation"
_NO_IMAGES = "can't be served here: images are made at /v1/images/generations and /v1/images/edits, by image models"


class ServedTool(Struct, frozen=True):
    """The caller's name for a function that the model sees, and the kind of its calls."""

    kind: Literal["function", "custom"]
    name: str
    namespace: str | None = None


class Toolbox(Struct, frozen=True):
    """The tools that the model sees. `served_tools` maps the name that the model sees to the caller's name.

    `unserved_tools`: the types of the tools that are left out.
    """

    tools: tuple[Tool, ...]
    must_call: bool
    served_tools: Mapping[str, ServedTool]
    unserved_tools: tuple[str, ...] = ()

    def model_name(self, name: str, namespace: str | None) -> str:
        """Return the model's name for the tool of an earlier call, which may no longer be given."""
        known = (seen for seen, tool in self.served_tools.items() if (tool.name, tool.namespace) == (name, namespace))
        return next(known, name)


def make_toolbox(
    entries: Sequence[wire.ToolEntry],
    added: Sequence[tuple[str, wire.ToolEntry]],
    choice: str | wire.ToolChoice | None,
    free_form: FreeForm,
) -> Toolbox:
    """Read the tools of a body, those that items of its input add (with their paths), and `tool_choice`.

    Tools that only OpenAI can run are left out. Raise OrchardError (invalid_request), also if image generation is the
    only tool.
    """
    flat: list[tuple[str, str | None, wire.NamedTool]] = []
    for where, entry in (*((f"tools[{i}]", entry) for i, entry in enumerate(entries)), *added):
        if entry.type == "namespace":
            flat += [(f"{where}.tools[{i}]", entry.name, tool) for i, tool in enumerate(entry.tools or ())]
        else:
            flat.append((where, None, entry))
    # Ignore it beside other tools, because Codex may send it with every request.
    if flat and all(tool.type == _IMAGES for _, _, tool in flat):
        raise invalid_field(f"{flat[0][0]}.type", f"'{_IMAGES}' {_NO_IMAGES}.")
    names = Counter(tool.name for _, _, tool in flat)
    tools = Tools(free_form)
    served: dict[str, ServedTool] = {}
    for where, namespace, tool in flat:
        if tool.type in _HOSTED:
            continue
        if tool.type not in ("function", "custom"):
            raise invalid_choice(f"{where}.type", ("function", "custom", "namespace", *sorted(_HOSTED)))
        if not tool.name:
            raise invalid_field(f"{where}.name", "is required: a tool has its name beside its type.")
        # Add the namespace if another tool has the same name.
        seen = f"{namespace}__{tool.name}" if namespace and names[tool.name] > 1 else tool.name
        if tool.type == "function":
            served.setdefault(seen, ServedTool("function", tool.name, namespace))
            tools.add(where, seen, tool.description, tool.parameters, tool.strict)
        else:
            served.setdefault(seen, ServedTool("custom", tool.name, namespace))
            _add_responses_custom_tool(tools, tool, where, seen)
    unserved = tuple(tool.type for _, _, tool in flat if tool.type in _HOSTED)
    return Toolbox(*_choose_tools(choice, tools, served), served, unserved)


def _add_responses_custom_tool(tools: Tools, tool: wire.NamedTool, where: str, seen: str) -> None:
    grammar = None
    if tool.format and tool.format.type == "grammar":
        if not (tool.format.syntax and tool.format.definition):
            raise invalid_field(f"{where}.format", "must have `syntax` ('lark' or 'regex') and `definition`.")
        grammar = InputGrammar(tool.format.syntax, tool.format.definition)
    add_custom_tool(tools, where, seen, tool.description, grammar)


def _choose_tools(
    choice: str | wire.ToolChoice | None, tools: Tools, served: Mapping[str, ServedTool]
) -> tuple[tuple[Tool, ...], bool]:
    """Return the tools that may be called, and whether one must be called."""
    match choice:
        case "none":
            return (), False
        case "required" if not served:
            raise invalid_field("tool_choice", "may only be 'required' when there are tools to call.")
        case None | str():
            return tools.as_tuple(), choice == "required"
    if choice.type == "allowed_tools":
        names: list[str] = []
        for i, tool in enumerate(choice.tools or ()):
            if tool.type not in _HOSTED:
                names += _find_served_names(served, tool.type, tool.name, f"tool_choice.tools[{i}]")
        if choice.mode == "required" and not names:
            raise invalid_field("tool_choice", "requires a call, and allows no tool that this server has.")
        return tools.pick(names, "tool_choice.tools"), choice.mode == "required"
    if choice.type == _IMAGES:
        raise invalid_field("tool_choice.type", f"'{_IMAGES}' {_NO_IMAGES}.")
    if choice.type not in ("function", "custom"):
        raise invalid_choice(
            "tool_choice.type", ("function", "custom", "allowed_tools"), ": other tools can't run here"
        )
    return tools.pick(_find_served_names(served, choice.type, choice.name, "tool_choice"), "tool_choice"), True


def _find_served_names(served: Mapping[str, ServedTool], kind: str | None, name: str | None, where: str) -> list[str]:
    found = [seen for seen, tool in served.items() if (tool.kind, tool.name) == (kind, name)]
    if not found:
        raise invalid_field(f"{where}.name", "names a tool that is not among the given tools.")
    return found
