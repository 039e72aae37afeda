"""The items of a Responses conversation become the messages of a `core.Request`."""

import base64
import binascii
from collections.abc import Sequence

from orchard.core.tasks.generate import (
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    summary_message,
)
from orchard.dialects.common.json_body import FreeForm, invalid
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.responses.seal import Unseal
from orchard.dialects.openai.responses.tools import Toolbox

MAX_ARGUMENTS_BYTES = 1024 * 1024
MAX_PARTS = 32_768
"""How many content parts all items may have together."""

_SEAL = "orchard-reasoning-1:"
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_IMAGES = ("input_image", "image_url", "computer_screenshot")
_PICTURES = ("data:", "http://", "https://")
# What tools did that only OpenAI can run, and what only OpenAI can read. The model here knows nothing of them.
_SKIPPED = {
    "additional_tools",
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "compaction_trigger",
    "computer_call",
    "computer_call_output",
    "configuration_update",
    "file_search_call",
    "image_generation_call",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "program",
    "program_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
}
_READ = (
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "reasoning",
    "compaction",
)
OUTPUTS = ("function_call_output", "custom_tool_call_output")
_CALLS = ("function_call", "custom_tool_call")


def kind_of(item: wire.Item, where: str) -> str:
    """Give the type of an item, which a message and a reference may leave out. Raises OrchardError."""
    if item.type is None:
        if item.role is not None:
            return "message"
        if item.id is not None:
            return "item_reference"
    if item.type in _READ or item.type in _SKIPPED or item.type == "item_reference":
        return item.type
    names = ", ".join(map(repr, (*_READ, "item_reference", *sorted(_SKIPPED))))
    raise invalid(f"{where}.type", f"`{where}.type` must be one of {names}.")


def seal(reasoning: str) -> str:
    """Give the `encrypted_content` that brings a reasoning back. It is encoded, not encrypted: it is the caller's."""
    return _SEAL + base64.b64encode(reasoning.encode()).decode()


def _unseal(sealed: str | None) -> str:
    """Give the reasoning; nothing where another server sealed it."""
    if not sealed or not sealed.startswith(_SEAL):
        return ""
    try:
        return base64.b64decode(sealed.removeprefix(_SEAL), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


class ItemReader:
    """Reads items in order and remembers the calls that later outputs refer to."""

    def __init__(self, toolbox: Toolbox, free_form: FreeForm, unseal: Unseal) -> None:
        self._toolbox = toolbox
        self._free_form = free_form
        self._unseal = unseal
        self._calls: set[str] = set()
        self._parts = 0
        self._messages: list[Message] = []
        self._turn: list[Part] | None = None
        self._said = False  # the assistant's turn ends with a message, so another message begins another turn

    def read(self, items: Sequence[wire.Item], *, stored: bool = False) -> None:
        """Take items. Raises OrchardError naming the field that can't be read.

        `stored`: they were read before; what can't be read any more is left out: an output whose call was deleted, and
        a compaction of another key.
        """
        for i, item in enumerate(items):
            self._item(item, f"input[{i}]", stored)

    def messages(self) -> tuple[Message, ...]:
        """Give all messages."""
        self._end_turn()
        return tuple(self._messages)

    def _item(self, item: wire.Item, where: str, stored: bool) -> None:
        match kind_of(item, where):
            case "message" if _role(item, where) == "assistant":
                if self._said:
                    self._end_turn()
                self._add(*self._content(item.content, f"{where}.content", "assistant"))
                self._said = True
            case "message":
                role = _role(item, where)
                self._say(Message(role, self._content(item.content, f"{where}.content", role)))
            case "reasoning":
                if text := _reasoning(item):
                    self._add(ReasoningPart(text))
            case "compaction":
                self._compaction(item, where, stored)
            case kind if kind in _CALLS:
                self._add(self._call(item, kind, where))
            case kind if kind in OUTPUTS and not (stored and item.call_id not in self._calls):
                self._say(Message("tool", (self._output(item, where),)))

    def _compaction(self, item: wire.Item, where: str, stored: bool) -> None:
        param = f"{where}.encrypted_content"
        sealed = item.encrypted_content or ""
        summary = self._unseal(sealed if stored else _required(sealed, param))
        if summary is not None:
            self._say(summary_message(summary))
        elif not stored:
            raise invalid(param, f"`{param}` was altered, or was not made by this server's /v1/responses/compact.")

    def _add(self, *parts: Part) -> None:
        """Go on with the assistant's turn."""
        if self._turn is None:
            self._turn = []
        self._turn += parts
        self._said = False

    def _say(self, message: Message) -> None:
        self._end_turn()
        self._messages.append(message)

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._messages.append(Message("assistant", tuple(self._turn)))
        self._turn, self._said = None, False

    def _call(self, item: wire.Item, kind: str, where: str) -> ToolCallPart:
        call_id, name = _required(item.call_id, f"{where}.call_id"), _required(item.name, f"{where}.name")
        self._calls.add(call_id)
        if kind == "function_call":
            arguments, param = item.arguments, f"{where}.arguments"
        else:
            arguments, param = {"input": item.input or ""}, f"{where}.input"
        name = self._toolbox.name_of(name, item.namespace)
        if isinstance(arguments, dict):
            return ToolCallPart(call_id, name, self._free_form.check(arguments, param, MAX_ARGUMENTS_BYTES).decode())
        self._free_form.check_text(arguments or "{}", param, MAX_ARGUMENTS_BYTES)
        return ToolCallPart(call_id, name, arguments or "{}")

    def _output(self, item: wire.Item, where: str) -> ToolResultPart:
        param = f"{where}.call_id"
        call_id = _required(item.call_id, param)
        if call_id not in self._calls:
            raise invalid(param, f"`{param}` must be the `call_id` of an earlier call; there is no call '{call_id}'.")
        if isinstance(item.output, dict):
            raise invalid(f"{where}.output", f"`{where}.output` must be a string or an array.")
        return ToolResultPart(call_id, self._content(item.output, f"{where}.output", "tool"))

    def _content(
        self, content: str | list[wire.Part] | None, where: str, role: Role
    ) -> tuple[TextPart | ImagePart, ...]:
        """Give a content without its empty texts."""
        if isinstance(content, str):
            return (TextPart(content),) if content else ()
        self._parts += len(content or ())
        if self._parts > MAX_PARTS:
            raise invalid("input", f"The items hold too many content parts; at most {MAX_PARTS} are allowed in all.")
        parts = [_part(part, f"{where}[{i}]", role) for i, part in enumerate(content or ())]
        return tuple(part for part in parts if not isinstance(part, TextPart) or part.text)


def _reasoning(item: wire.Item) -> str:
    """Give what was thought, if it is there in any form that can be read."""
    contents = item.content if isinstance(item.content, list) else ()
    text = "".join(part.text or "" for part in contents) or _unseal(item.encrypted_content)
    return text or "\n\n".join(part.text or "" for part in item.summary or ())


def _role(item: wire.Item, where: str) -> Role:
    if item.role in _ROLES:
        return _ROLES[item.role]
    names = ", ".join(map(repr, _ROLES))
    raise invalid(f"{where}.role", f"`{where}.role` must be one of {names}.")


def _required(value: str | None, param: str) -> str:
    if not value:
        raise invalid(param, f"`{param}` is required.")
    return value


def _part(part: wire.Part, where: str, role: Role) -> TextPart | ImagePart:
    match part.type:
        case "refusal" if role == "assistant":
            return TextPart(part.refusal or "")
        case kind if kind in TEXTS:
            if part.text is None:
                raise invalid(f"{where}.text", f"`{where}.text` is required.")
            return TextPart(part.text)
        case kind if kind in _IMAGES and role != "assistant":
            return _picture(part, where)
        case "input_file" if role != "assistant":
            return _file(part, where)
    allowed = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
    names = ", ".join(map(repr, allowed))
    raise invalid(f"{where}.type", f"`{where}.type` must be one of {names} in what a {role} says.")


def _picture(part: wire.Part, where: str) -> ImagePart:
    if part.image_url is None:
        reason = ": this server keeps no files" if part.file_id else ""
        raise invalid(f"{where}.image_url", f"`{where}.image_url` is required{reason}.")
    url = part.image_url if isinstance(part.image_url, str) else part.image_url.url
    if not url.startswith(_PICTURES):
        raise invalid(f"{where}.image_url", f"`{where}.image_url` must be a data: URL, or an http(s) one.")
    return ImagePart(url)


def _file(part: wire.Part, where: str) -> TextPart:
    """Give the text of a file; only files that are text, and come with the request, can be read."""
    param = f"{where}.file_data"
    if part.file_data is None:
        reason = "this server keeps no files" if part.file_id else "this server fetches no files"
        raise invalid(param, f"`{param}` is required: {reason}.")
    data = part.file_data.partition(",")[2] if part.file_data.startswith("data:") else part.file_data
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        text = "\0"
    if "\0" in text:
        raise invalid(param, f"`{param}` must be a text in UTF-8, as base64: other files can't be read here.")
    return TextPart(f"{part.filename}:\n{text}" if part.filename else text)
