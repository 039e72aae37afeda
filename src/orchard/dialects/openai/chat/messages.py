"""The messages of a Chat Completions body, as a `core.Request` has them."""

import itertools
from collections.abc import Sequence

from orchard.core.tasks import generate
from orchard.dialects.common.json_body import FreeForm, invalid, required
from orchard.dialects.openai.chat import schema as wire
from orchard.dialects.openai.fields import ImageUrl, image_part
from orchard.dialects.openai.tools import custom_arguments

MAX_ITEMS = 32_768
"""How many content parts and tool calls all messages may have together."""

_ROLES: dict[str, generate.Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_PART_TYPES = {"assistant": ("text", "refusal"), "user": ("text", "image_url"), "tool": ("text", "image_url")}
_OTHER_NAMES = {"input_text": "text", "output_text": "text", "input_image": "image_url"}  # those of Responses
_REFUSED_PARTS = {"input_audio": "audio can't be read here", "file": "files can't be read here"}


class MessageReader:
    """A reader of messages in order, which remembers the calls that later results refer to."""

    def __init__(self, free_form: FreeForm) -> None:
        self._free_form = free_form
        # A tool's result names its call by the id; a function's, which has none, by the function's name.
        self._calls: dict[str, dict[str | None, str]] = {"tool": {}, "function": {}}
        self._numbers = itertools.count()

    def read(self, messages: Sequence[wire.Message]) -> tuple[generate.Message, ...]:
        """Return the conversation. Raise OrchardError naming the field of a message that can't be read."""
        lists = [found for message in messages for found in (message.content, message.tool_calls)]
        items = sum(len(found) for found in lists if isinstance(found, list))
        if items > MAX_ITEMS:
            raise invalid("messages", f"hold {items} content parts and tool calls; at most {MAX_ITEMS} are allowed.")
        return tuple(self._message(message, f"messages[{i}]") for i, message in enumerate(messages))

    def _message(self, message: wire.Message, where: str) -> generate.Message:
        parts: tuple[generate.Part, ...]
        match message.role:
            case "assistant":
                parts = self._assistant(message, where)
            case "tool" | "function":
                parts = (self._result(message, where),)
            case _:
                parts = _content(message, where)
        return generate.Message(_ROLES[message.role], parts, message.name or None)

    def _assistant(self, message: wire.Message, where: str) -> tuple[generate.Part, ...]:
        if message.audio is not None:
            raise invalid(f"{where}.audio", "is not supported: audio can't be read here.")
        reasoning = message.reasoning_content or message.reasoning
        parts: list[generate.Part] = [generate.ReasoningPart(reasoning)] if reasoning else []
        parts += _content(message, where)
        if message.refusal:
            parts.append(generate.TextPart(message.refusal))
        for i, made in enumerate(message.tool_calls or ()):
            parts.append(self._tool_call(made, f"{where}.tool_calls[{i}]"))
        if call := message.function_call:
            call_id = self._calls["function"][call.name] = f"call_function_{next(self._numbers)}"
            arguments = self._free_form.arguments(call.arguments, f"{where}.function_call.arguments")
            parts.append(generate.ToolCallPart(call_id, call.name, arguments))
        return tuple(parts)

    def _tool_call(self, call: wire.ToolCall, where: str) -> generate.ToolCallPart:
        self._calls["tool"][call.id] = call.id
        if call.type == "custom":
            custom = required(call.custom, f"{where}.custom")
            self._free_form.check_text(custom.input, f"{where}.custom.input")
            return generate.ToolCallPart(call.id, custom.name, custom_arguments(custom.input))
        function = required(call.function, f"{where}.function")
        arguments = self._free_form.arguments(function.arguments, f"{where}.function.arguments")
        return generate.ToolCallPart(call.id, function.name, arguments)

    def _result(self, message: wire.Message, where: str) -> generate.ToolResultPart:
        field, key, what = "name", message.name, "name of a function call"
        if message.role == "tool":
            field, key, what = "tool_call_id", message.tool_call_id, "id of a tool call"
            if not key:
                raise invalid(f"{where}.{field}", "is required in a message of role 'tool'.")
        if key not in self._calls[message.role]:
            raise invalid(f"{where}.{field}", f"must be the {what} in an earlier assistant message.")
        return generate.ToolResultPart(self._calls[message.role][key], _content(message, where))


def _content(message: wire.Message, where: str) -> tuple[generate.TextPart | generate.ImagePart, ...]:
    """Return a message's content without its empty texts."""
    if isinstance(message.content, str):
        return (generate.TextPart(message.content),) if message.content else ()
    given = enumerate(message.content or ())
    parts = (_part(part, message.role, f"{where}.content[{i}]") for i, part in given)
    return tuple(part for part in parts if not isinstance(part, generate.TextPart) or part.text)


def _part(part: wire.ContentPart, role: str, where: str) -> generate.TextPart | generate.ImagePart:
    allowed = _PART_TYPES.get(role, ("text",))
    kind = _OTHER_NAMES.get(part.type, part.type)
    if kind not in allowed:
        names = " or ".join(repr(name) for name in allowed)
        reason = _REFUSED_PARTS.get(part.type, f"in a message of role '{role}'")
        separator = ": " if part.type in _REFUSED_PARTS else " "
        raise invalid(f"{where}.type", f"must be {names}{separator}{reason}.")
    if kind == "image_url":
        image, param = part.image_url, f"{where}.image_url"
        if isinstance(image, ImageUrl):
            image, param = image.url, f"{param}.url"
        return image_part(required(image, param), param)
    text = part.text if kind == "text" else part.refusal
    return generate.TextPart(required(text, f"{where}.{kind}"))
