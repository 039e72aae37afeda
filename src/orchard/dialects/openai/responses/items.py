"""Turn the items of a Responses conversation into the messages of a `core.request.Request`."""

from collections.abc import Sequence

import msgspec

from orchard.core.media import MediaOptions, MediaPart
from orchard.core.tasks import generate
from orchard.dialects.common.json_body import FreeForm, invalid, not_one_of, required
from orchard.dialects.common.media import audio_part, detailed, file_part, media_kind, media_part
from orchard.dialects.openai.fields import ImageUrl, VideoUrl
from orchard.dialects.openai.output import Fields
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.responses.seal import Unseal, unseal_reasoning
from orchard.dialects.openai.responses.tools import Toolbox

MAX_PARTS = 32_768
"""The most content parts of all items together."""

_ROLES: dict[str, generate.Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_IMAGES = ("input_image", "image_url", "computer_screenshot")
_VIDEOS = ("input_video", "video_url")
_MEDIA = ("input_image", "input_audio", "input_file", "input_video")
# By type of item: the fields that the API requires in its answers, but callers may omit.
_COMPLETED = {"status": "completed"}
_READ: dict[str, Fields] = {
    "message": {"content": ""} | _COMPLETED,
    "function_call": {"arguments": "{}"} | _COMPLETED,
    "function_call_output": {"output": ""} | _COMPLETED,
    "custom_tool_call": {"input": ""} | _COMPLETED,
    "custom_tool_call_output": {"output": ""} | _COMPLETED,
    "computer_call": {"pending_safety_checks": []} | _COMPLETED,
    "computer_call_output": _COMPLETED,
    "reasoning": {"summary": []},
    "compaction": {},
}
# Items of tools that only OpenAI can run, or that only OpenAI can read. The model does not see them.
_SKIPPED: dict[str, Fields] = {
    "additional_tools": {},
    "apply_patch_call": {},
    "apply_patch_call_output": {},
    "code_interpreter_call": {},
    "compaction_trigger": {},
    "configuration_update": {},
    "file_search_call": {},
    "image_generation_call": {},
    "local_shell_call": {},
    "local_shell_call_output": {},
    "mcp_approval_request": {},
    "mcp_approval_response": {},
    "mcp_call": {},
    "mcp_list_tools": {},
    "program": {},
    "program_output": {},
    "shell_call": _COMPLETED,
    "shell_call_output": _COMPLETED,
    "tool_search_call": {"execution": "client"} | _COMPLETED,
    "tool_search_output": {"execution": "client"} | _COMPLETED,
    "web_search_call": {},
}
ITEM_DEFAULTS = _READ | _SKIPPED
OUTPUTS = ("function_call_output", "custom_tool_call_output", "computer_call_output")
_CALLS = ("function_call", "custom_tool_call", "computer_call")
_COMPUTER = "computer"  # OpenAI's computer tool, whose calls have no name
_AS_THE_MODEL_DOES = MediaOptions()
_items_decoder = msgspec.json.Decoder(list[wire.Item])


def kind_of(item: wire.Item, where: str) -> str:
    """Return the type of an item, which messages and references may omit. Raise OrchardError if it is unknown."""
    if item.type is None:
        if item.role is not None:
            return "message"
        if item.id is not None:
            return "item_reference"
    if item.type in ITEM_DEFAULTS or item.type == "item_reference":
        return item.type
    raise not_one_of(f"{where}.type", (*_READ, "item_reference", *sorted(_SKIPPED)))


def references(items: Sequence[wire.Item], where: str = "input") -> list[str]:
    """Return the ids of the stored items that items refer to. Raise OrchardError if an item's type is unknown."""
    found = []
    for i, item in enumerate(items):
        if kind_of(item, f"{where}[{i}]") == "item_reference":
            found.append(required(item.id, f"{where}[{i}].id", empty=False))
    return found


class ItemReader:
    """Reads items in order. Remembers the calls that later outputs refer to."""

    def __init__(
        self, toolbox: Toolbox, free_form: FreeForm, unseal: Unseal, options: MediaOptions = _AS_THE_MODEL_DOES
    ) -> None:
        """`options` says how the model reads media."""
        self._toolbox = toolbox
        self._options = options
        self._free_form = free_form
        self._unseal = unseal
        self._calls: set[str] = set()
        self._parts = 0
        self._messages: list[generate.Message] = []
        self._turn: list[generate.Part] | None = None
        self._said = False  # the assistant's turn ends with a message; another message begins a new turn

    def read(self, items: Sequence[wire.Item]) -> None:
        """Read items. Raise OrchardError, whose `param` names the field that can't be read."""
        for i, item in enumerate(items):
            self._item(item, f"input[{i}]", stored=False)

    def read_stored(self, items: Sequence[bytes], where: str = "conversation") -> list[wire.Item]:
        """Read items that were stored, each as JSON, and return them.

        Errors name them as items of `where`, the field that refers to them. Skip what can no longer be read: an output
        whose call was deleted, and a compaction that another key signed.
        """
        found = _items_decoder.decode(b"[" + b",".join(items) + b"]")
        for i, item in enumerate(found):
            self._item(item, f"{where}.items[{i}]", stored=True)
        return found

    def messages(self) -> tuple[generate.Message, ...]:
        """Return all messages."""
        self._end_turn()
        return tuple(self._messages)

    def _item(self, item: wire.Item, where: str, stored: bool) -> None:
        match kind_of(item, where):
            case "message":
                if item.role not in _ROLES:
                    raise not_one_of(f"{where}.role", _ROLES)
                role = _ROLES[item.role]
                content = self._content(item.content, f"{where}.content", role)
                if role != "assistant":
                    self._say(generate.Message(role, content))
                    return
                if self._said:
                    self._end_turn()
                self._add(*content)
                self._said = True
            case "reasoning":
                # Take the reasoning from any form that can be read.
                contents = item.content if isinstance(item.content, list) else ()
                text = "".join(part.text or "" for part in contents) or unseal_reasoning(item.encrypted_content)
                if text := text or "\n\n".join(part.text or "" for part in item.summary or ()):
                    self._add(generate.ReasoningPart(text))
            case "compaction":
                self._compaction(item, where, stored)
            case kind if kind in _CALLS:
                self._add(self._call(item, kind, where))
            case kind if kind in OUTPUTS and not (stored and item.call_id not in self._calls):
                self._say(generate.Message("tool", (self._output(item, where),)))

    def _compaction(self, item: wire.Item, where: str, stored: bool) -> None:
        param = f"{where}.encrypted_content"
        sealed = item.encrypted_content or ""
        summary = self._unseal(sealed if stored else required(item.encrypted_content, param, empty=False))
        if summary is not None:
            self._say(generate.summary_message(summary))
        elif not stored:
            raise invalid(param, "was altered, or was not made by this server's /v1/responses/compact.")

    def _add(self, *parts: generate.Part) -> None:
        """Add parts to the assistant's turn."""
        if self._turn is None:
            self._turn = []
        self._turn += parts
        self._said = False

    def _say(self, message: generate.Message) -> None:
        self._end_turn()
        self._messages.append(message)

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._messages.append(generate.Message("assistant", tuple(self._turn)))
        self._turn, self._said = None, False

    def _call(self, item: wire.Item, kind: str, where: str) -> generate.ToolCallPart:
        call_id = required(item.call_id, f"{where}.call_id", empty=False)
        self._calls.add(call_id)
        if kind == "computer_call":
            did = "action" if item.actions is None else "actions"
            arguments = self._free_form.arguments({did: getattr(item, did)}, f"{where}.{did}")
            return generate.ToolCallPart(call_id, _COMPUTER, arguments)
        name = required(item.name, f"{where}.name", empty=False)
        if kind == "function_call":
            arguments = self._free_form.arguments(item.arguments, f"{where}.arguments")
        else:
            arguments = self._free_form.arguments({"input": item.input or ""}, f"{where}.input")
        return generate.ToolCallPart(call_id, self._toolbox.name_of(name, item.namespace), arguments)

    def _output(self, item: wire.Item, where: str) -> generate.ToolResultPart:
        param = f"{where}.call_id"
        call_id = required(item.call_id, param, empty=False)
        if call_id not in self._calls:
            raise invalid(param, f"must be the `call_id` of an earlier call; there is no call '{call_id}'.")
        if item.type == "computer_call_output":
            return generate.ToolResultPart(call_id, (self._screenshot(item.output, f"{where}.output"),))
        if isinstance(item.output, wire.Part):
            raise invalid(f"{where}.output", "must be a string or an array.")
        return generate.ToolResultPart(call_id, self._content(item.output, f"{where}.output", "tool"))

    def _screenshot(self, output: str | list[wire.Part] | wire.Part | None, where: str) -> MediaPart:
        """Return a computer's screenshot after a call. Raise OrchardError if there is none."""
        if not isinstance(output, wire.Part):
            raise invalid(where, "must be an object with a screenshot.")
        medium = self._medium(output, where) if output.type in _IMAGES else None
        if medium is None:
            raise not_one_of(f"{where}.type", ("computer_screenshot",))
        self._parts += 1
        return medium

    def _content(
        self, content: str | list[wire.Part] | None, where: str, role: generate.Role
    ) -> tuple[generate.TextPart | MediaPart, ...]:
        """Return the parts of a content, without empty texts."""
        if isinstance(content, str):
            return (generate.TextPart(content),) if content else ()
        self._parts += len(content or ())
        if self._parts > MAX_PARTS:
            raise invalid("input", f"holds too many content parts; its items may have at most {MAX_PARTS} together.")
        parts = [self._part(part, f"{where}[{i}]", role) for i, part in enumerate(content or ())]
        return tuple(part for part in parts if not isinstance(part, generate.TextPart) or part.text)

    def _part(self, part: wire.Part, where: str, role: generate.Role) -> generate.TextPart | MediaPart:
        if part.type == "refusal" and role == "assistant":
            return generate.TextPart(part.refusal or "")
        if part.type in TEXTS:
            return generate.TextPart(required(part.text, f"{where}.text"))
        if role != "assistant" and (medium := self._medium(part, where)):
            return medium
        allowed = ("output_text", "refusal") if role == "assistant" else ("input_text", *_MEDIA)
        raise not_one_of(f"{where}.type", allowed, f" in a message of role '{role}'")

    def _medium(self, part: wire.Part, where: str) -> MediaPart | None:
        """Return the medium of a part; None if the part is of another type. Raise OrchardError if a field is wrong."""
        if part.file_id and (part.image_url or part.video_url or part.input_audio or part.file_url or part.file_data):
            raise invalid(f"{where}.file_id", "must be left out: this server keeps no files.")
        if part.file_url and part.file_data:
            raise invalid(f"{where}.file_url", "must be left out where there is `file_data`.")
        match part.type:
            case kind if kind in _IMAGES:
                url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url
                own = part.image_url.detail if isinstance(part.image_url, ImageUrl) else None
                url, param = _given(url, part, f"{where}.image_url"), f"{where}.image_url"
                return media_part("image", url, param, detailed(self._options, own or part.detail, param))
            case kind if kind in _VIDEOS:
                url = part.video_url.url if isinstance(part.video_url, VideoUrl) else part.video_url
                param = f"{where}.video_url"
                return media_part("video", _given(url, part, param), param, self._options)
            case "input_audio":
                audio = required(part.input_audio, f"{where}.input_audio")
                return audio_part(audio.data, audio.format, f"{where}.input_audio", self._options)
            case "input_file" if part.file_url:
                name = part.filename or part.file_url.partition("?")[0].rpartition("/")[2]
                kind = media_kind("", name)
                return media_part(kind, part.file_url, f"{where}.file_url", self._options, part.filename or "")
            case "input_file":
                param = f"{where}.file_data"
                return file_part(_given(part.file_data, part, param), part.filename or "", param, self._options)
        return None


def _given(value: str | None, part: wire.Part, param: str) -> str:
    """Return a field's value. Raise OrchardError if it is empty, also if the part has a file id instead."""
    if not value:
        reason = ": this server keeps no files" if part.file_id else ""
        raise invalid(param, f"is required{reason}.")
    return value
