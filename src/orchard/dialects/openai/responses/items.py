"""Turn the items of a Responses conversation into the messages of a `core.request.Request`."""

from collections.abc import Sequence

import msgspec

from orchard.core.media import MediaOptions, MediaPart
from orchard.core.tasks import generate
from orchard.dialects.common.json_body import FreeForm, invalid_choice, invalid_field, require
from orchard.dialects.common.media import audio_part, file_part, media_kind, media_part, with_detail
from orchard.dialects.openai.fields import ImageUrl, VideoUrl
from orchard.dialects.openai.output import Fields
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.responses.seal import Unseal, unseal_reasoning
from orchard.dialects.openai.responses.tools import Toolbox

MAX_PARTS = 32_768
"""The most content parts of all items together."""

_ROLES: dict[str, generate.Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
TEXT_TYPES = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_IMAGES = ("input_image", "image_url", "computer_screenshot")
_VIDEOS = ("input_video", "video_url")
_MEDIA = ("input_image", "input_audio", "input_file", "input_video")
# By type of item: the fields that the API requires in its answers, but callers may omit.
_COMPLETED_STATUS = {"status": "completed"}
_READABLE_ITEMS: dict[str, Fields] = {
    "message": {"content": ""} | _COMPLETED_STATUS,
    "function_call": {"arguments": "{}"} | _COMPLETED_STATUS,
    "function_call_output": {"output": ""} | _COMPLETED_STATUS,
    "custom_tool_call": {"input": ""} | _COMPLETED_STATUS,
    "custom_tool_call_output": {"output": ""} | _COMPLETED_STATUS,
    "computer_call": {"pending_safety_checks": []} | _COMPLETED_STATUS,
    "computer_call_output": _COMPLETED_STATUS,
    "reasoning": {"summary": []},
    "compaction": {},
}
# Items of tools that only OpenAI can run, or that only OpenAI can read. The model does not see them.
_SKIPPED_ITEMS: dict[str, Fields] = {
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
    "shell_call": _COMPLETED_STATUS,
    "shell_call_output": _COMPLETED_STATUS,
    "tool_search_call": {"execution": "client"} | _COMPLETED_STATUS,
    "tool_search_output": {"execution": "client"} | _COMPLETED_STATUS,
    "web_search_call": {},
}
ITEM_DEFAULTS = _READABLE_ITEMS | _SKIPPED_ITEMS
OUTPUT_TYPES = ("function_call_output", "custom_tool_call_output", "computer_call_output")
_CALLS = ("function_call", "custom_tool_call", "computer_call")
_COMPUTER = "computer"  # OpenAI's computer tool, whose calls have no name
_DEFAULT_OPTIONS = MediaOptions()
_items_decoder = msgspec.json.Decoder(list[wire.Item])


def item_type(item: wire.Item, where: str) -> str:
    """Return the type of an item, which messages and references may omit. Raise OrchardError if it is unknown."""
    if item.type is None:
        if item.role is not None:
            return "message"
        if item.id is not None:
            return "item_reference"
    if item.type in ITEM_DEFAULTS or item.type == "item_reference":
        return item.type
    raise invalid_choice(f"{where}.type", (*_READABLE_ITEMS, "item_reference", *sorted(_SKIPPED_ITEMS)))


def reference_ids(items: Sequence[wire.Item], where: str = "input") -> list[str]:
    """Return the ids of the stored items that items refer to. Raise OrchardError if an item's type is unknown."""
    found = []
    for i, item in enumerate(items):
        if item_type(item, f"{where}[{i}]") == "item_reference":
            found.append(require(item.id, f"{where}[{i}].id", empty=False))
    return found


class ItemReader:
    """Reads items in order. Remembers the calls that later outputs refer to."""

    def __init__(
        self, toolbox: Toolbox, free_form: FreeForm, unseal: Unseal, options: MediaOptions = _DEFAULT_OPTIONS
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
        self._ends_with_message = False  # the assistant's turn ends with a message; another message begins a new turn

    def read(self, items: Sequence[wire.Item]) -> None:
        """Read items. Raise OrchardError, whose `param` names the field that can't be read."""
        for i, item in enumerate(items):
            self._read_item(item, f"input[{i}]", stored=False)

    def read_stored(self, items: Sequence[bytes], where: str = "conversation") -> list[wire.Item]:
        """Read items that were stored, each as JSON, and return them.

        Errors name them as items of `where`, the field that refers to them. Skip what can no longer be read: an output
        whose call was deleted, and a compaction that another key signed.
        """
        found = _items_decoder.decode(b"[" + b",".join(items) + b"]")
        for i, item in enumerate(found):
            self._read_item(item, f"{where}.items[{i}]", stored=True)
        return found

    def messages(self) -> tuple[generate.Message, ...]:
        """Return all messages."""
        self._end_turn()
        return tuple(self._messages)

    def _read_item(self, item: wire.Item, where: str, stored: bool) -> None:
        match item_type(item, where):
            case "message":
                if item.role not in _ROLES:
                    raise invalid_choice(f"{where}.role", _ROLES)
                role = _ROLES[item.role]
                content = self._read_content(item.content, f"{where}.content", role)
                if role != "assistant":
                    self._add_message(generate.Message(role, content))
                    return
                if self._ends_with_message:
                    self._end_turn()
                self._add_parts(*content)
                self._ends_with_message = True
            case "reasoning":
                # Take the reasoning from any form that can be read.
                contents = item.content if isinstance(item.content, list) else ()
                text = "".join(part.text or "" for part in contents) or unseal_reasoning(item.encrypted_content)
                if text := text or "\n\n".join(part.text or "" for part in item.summary or ()):
                    self._add_parts(generate.ReasoningPart(text))
            case "compaction":
                self._read_compaction(item, where, stored)
            case kind if kind in _CALLS:
                self._add_parts(self._read_call(item, kind, where))
            case kind if kind in OUTPUT_TYPES and not (stored and item.call_id not in self._calls):
                self._add_message(generate.Message("tool", (self._read_output(item, where),)))

    def _read_compaction(self, item: wire.Item, where: str, stored: bool) -> None:
        param = f"{where}.encrypted_content"
        sealed = item.encrypted_content or ""
        summary = self._unseal(sealed if stored else require(item.encrypted_content, param, empty=False))
        if summary is not None:
            self._add_message(generate.summary_message(summary))
        elif not stored:
            raise invalid_field(param, "was altered, or was not made by this server's /v1/responses/compact.")

    def _add_parts(self, *parts: generate.Part) -> None:
        """Add parts to the assistant's turn."""
        if self._turn is None:
            self._turn = []
        self._turn += parts
        self._ends_with_message = False

    def _add_message(self, message: generate.Message) -> None:
        self._end_turn()
        self._messages.append(message)

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._messages.append(generate.Message("assistant", tuple(self._turn)))
        self._turn, self._ends_with_message = None, False

    def _read_call(self, item: wire.Item, kind: str, where: str) -> generate.ToolCallPart:
        call_id = require(item.call_id, f"{where}.call_id", empty=False)
        self._calls.add(call_id)
        if kind == "computer_call":
            did = "action" if item.actions is None else "actions"
            arguments = self._free_form.arguments_json({did: getattr(item, did)}, f"{where}.{did}")
            return generate.ToolCallPart(call_id, _COMPUTER, arguments)
        name = require(item.name, f"{where}.name", empty=False)
        if kind == "function_call":
            arguments = self._free_form.arguments_json(item.arguments, f"{where}.arguments")
        else:
            arguments = self._free_form.arguments_json({"input": item.input or ""}, f"{where}.input")
        return generate.ToolCallPart(call_id, self._toolbox.model_name(name, item.namespace), arguments)

    def _read_output(self, item: wire.Item, where: str) -> generate.ToolResultPart:
        param = f"{where}.call_id"
        call_id = require(item.call_id, param, empty=False)
        if call_id not in self._calls:
            raise invalid_field(param, f"must be the `call_id` of an earlier call; there is no call '{call_id}'.")
        if item.type == "computer_call_output":
            return generate.ToolResultPart(call_id, (self._read_screenshot(item.output, f"{where}.output"),))
        if isinstance(item.output, wire.Part):
            raise invalid_field(f"{where}.output", "must be a string or an array.")
        return generate.ToolResultPart(call_id, self._read_content(item.output, f"{where}.output", "tool"))

    def _read_screenshot(self, output: str | list[wire.Part] | wire.Part | None, where: str) -> MediaPart:
        """Return a computer's screenshot after a call. Raise OrchardError if there is none."""
        if not isinstance(output, wire.Part):
            raise invalid_field(where, "must be an object with a screenshot.")
        medium = self._read_medium(output, where) if output.type in _IMAGES else None
        if medium is None:
            raise invalid_choice(f"{where}.type", ("computer_screenshot",))
        self._parts += 1
        return medium

    def _read_content(
        self, content: str | list[wire.Part] | None, where: str, role: generate.Role
    ) -> tuple[generate.TextPart | MediaPart, ...]:
        """Return the parts of a content, without empty texts."""
        if isinstance(content, str):
            return (generate.TextPart(content),) if content else ()
        self._parts += len(content or ())
        if self._parts > MAX_PARTS:
            raise invalid_field(
                "input", f"holds too many content parts; its items may have at most {MAX_PARTS} together."
            )
        parts = [self._read_part(part, f"{where}[{i}]", role) for i, part in enumerate(content or ())]
        return tuple(part for part in parts if not isinstance(part, generate.TextPart) or part.text)

    def _read_part(self, part: wire.Part, where: str, role: generate.Role) -> generate.TextPart | MediaPart:
        if part.type == "refusal" and role == "assistant":
            return generate.TextPart(part.refusal or "")
        if part.type in TEXT_TYPES:
            return generate.TextPart(require(part.text, f"{where}.text"))
        if role != "assistant" and (medium := self._read_medium(part, where)):
            return medium
        allowed = ("output_text", "refusal") if role == "assistant" else ("input_text", *_MEDIA)
        raise invalid_choice(f"{where}.type", allowed, f" in a message of role '{role}'")

    def _read_medium(self, part: wire.Part, where: str) -> MediaPart | None:
        """Return the medium of a part; None if the part is of another type. Raise OrchardError if a field is wrong."""
        if part.file_id and (part.image_url or part.video_url or part.input_audio or part.file_url or part.file_data):
            raise invalid_field(f"{where}.file_id", "must be left out: this server keeps no files.")
        if part.file_url and part.file_data:
            raise invalid_field(f"{where}.file_url", "must be left out where there is `file_data`.")
        match part.type:
            case kind if kind in _IMAGES:
                url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url
                own = part.image_url.detail if isinstance(part.image_url, ImageUrl) else None
                url, param = _require_medium(url, part, f"{where}.image_url"), f"{where}.image_url"
                return media_part("image", url, param, with_detail(self._options, own or part.detail, param))
            case kind if kind in _VIDEOS:
                url = part.video_url.url if isinstance(part.video_url, VideoUrl) else part.video_url
                param = f"{where}.video_url"
                return media_part("video", _require_medium(url, part, param), param, self._options)
            case "input_audio":
                audio = require(part.input_audio, f"{where}.input_audio")
                return audio_part(audio.data, audio.format, f"{where}.input_audio", self._options)
            case "input_file" if part.file_url:
                name = part.filename or part.file_url.partition("?")[0].rpartition("/")[2]
                kind = media_kind("", name)
                return media_part(kind, part.file_url, f"{where}.file_url", self._options, part.filename or "")
            case "input_file":
                param = f"{where}.file_data"
                return file_part(
                    _require_medium(part.file_data, part, param), part.filename or "", param, self._options
                )
        return None


def _require_medium(value: str | None, part: wire.Part, param: str) -> str:
    """Return a field's value. Raise OrchardError if it is empty, also if the part has a file id instead."""
    if not value:
        reason = ": this server keeps no files" if part.file_id else ""
        raise invalid_field(param, f"is required{reason}.")
    return value
