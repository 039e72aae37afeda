"""Turn the messages of a Chat Completions body into those of a `core.request.Request`."""

import itertools
from collections.abc import Callable, Sequence

from orchard.core.media import MediaOptions, MediaPart
from orchard.core.tasks import generate
from orchard.dialects.common.json_body import FreeForm, invalid_field, require
from orchard.dialects.common.media import audio_part, encoded_part, file_part, media_part
from orchard.dialects.openai.chat import schema as wire
from orchard.dialects.openai.fields import image_part, url_and_param
from orchard.dialects.openai.tools import custom_arguments

MAX_ITEMS = 32_768
"""The most content parts, images and tool calls of all messages together."""

_ROLES: dict[str, generate.Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_VISIBLE_TYPES = ("text", "image_url", "input_audio", "video_url", "file")
_PART_TYPES = {
    "assistant": ("text", "refusal"),
    "user": _VISIBLE_TYPES,
    "tool": _VISIBLE_TYPES,
    "function": _VISIBLE_TYPES,
}
# The names that Responses and mlx-vlm use.
_OTHER_NAMES = {
    "input_text": "text",
    "output_text": "text",
    "input_image": "image_url",
    "input_video": "video_url",
}


FindTranscript = Callable[[str], str | None]


def find_no_transcript(id_: str) -> None:
    """Find no transcript of a spoken answer."""


class MessageReader:
    """Reads messages in order. Remembers the calls that later results refer to."""

    def __init__(
        self, free_form: FreeForm, options: MediaOptions, find_transcript: FindTranscript = find_no_transcript
    ) -> None:
        """`options` says how the model reads media; `find_transcript` returns what a spoken answer said, by its id."""
        self._free_form = free_form
        self._options = options
        self._find_transcript = find_transcript
        self._spoken: set[str] = set()
        # A tool's result names its call by id; the result of a legacy function names it by the function's name.
        self._calls: dict[str, dict[str | None, str]] = {"tool": {}, "function": {}}
        self._numbers = itertools.count()

    def read(self, messages: Sequence[wire.Message]) -> tuple[generate.Message, ...]:
        """Return the conversation. Raise OrchardError, whose `param` names the field that can't be read."""
        lists = [found for message in messages for found in (message.content, message.tool_calls, message.images)]
        items = sum(len(found) for found in lists if isinstance(found, list))
        if items > MAX_ITEMS:
            what = "content parts, images and tool calls"
            raise invalid_field("messages", f"hold {items} {what}; at most {MAX_ITEMS} are allowed.")
        return tuple(self._read_message(message, f"messages[{i}]") for i, message in enumerate(messages))

    def _read_message(self, message: wire.Message, where: str) -> generate.Message:
        parts: tuple[generate.Part, ...]
        if message.audio and message.role != "assistant":
            raise invalid_field(f"{where}.audio", "is only allowed in a message of role 'assistant'.")
        match message.role:
            case "assistant":
                parts = self._read_assistant_parts(message, where)
            case "tool" | "function":
                parts = (self._read_result(message, where),)
            case _:
                parts = self._read_content(message, where)
        return generate.Message(_ROLES[message.role], parts, message.name or None)

    def _read_assistant_parts(self, message: wire.Message, where: str) -> tuple[generate.Part, ...]:
        reasoning = message.reasoning_content or message.reasoning
        parts: list[generate.Part] = [generate.ReasoningPart(reasoning)] if reasoning else []
        parts += self._read_content(message, where)
        if message.audio and (said := self._read_spoken(message.audio.id, f"{where}.audio.id")):
            parts.append(generate.TextPart(said))
        if message.refusal:
            parts.append(generate.TextPart(message.refusal))
        for i, made in enumerate(message.tool_calls or ()):
            parts.append(self._read_tool_call(made, f"{where}.tool_calls[{i}]"))
        if call := message.function_call:
            call_id = self._calls["function"][call.name] = f"call_function_{next(self._numbers)}"
            arguments = self._free_form.arguments_json(call.arguments, f"{where}.function_call.arguments")
            parts.append(generate.ToolCallPart(call_id, call.name, arguments))
        return tuple(parts)

    def _read_spoken(self, id_: str, where: str) -> str:
        """Return the transcript of an earlier answer, each only once, so that a small body can't become a large one."""
        if id_ in self._spoken:
            raise invalid_field(where, "must be that of another answer than those of the messages before.")
        self._spoken.add(id_)
        said = self._find_transcript(id_)
        if said is None:
            why = "must be that of an answer that was spoken to the same API key in the last hour, of which this server"
            raise invalid_field(where, f"{why} keeps the transcript. Send the transcript as `content` instead.")
        return said

    def _read_tool_call(self, call: wire.ToolCall, where: str) -> generate.ToolCallPart:
        self._calls["tool"][call.id] = call.id
        if call.type == "custom":
            custom = require(call.custom, f"{where}.custom")
            self._free_form.check_text(custom.input, f"{where}.custom.input")
            return generate.ToolCallPart(call.id, custom.name, custom_arguments(custom.input))
        function = require(call.function, f"{where}.function")
        arguments = self._free_form.arguments_json(function.arguments, f"{where}.function.arguments")
        return generate.ToolCallPart(call.id, function.name, arguments)

    def _read_result(self, message: wire.Message, where: str) -> generate.ToolResultPart:
        field, key, what = "name", message.name, "name of a function call"
        if message.role == "tool":
            field, key, what = "tool_call_id", message.tool_call_id, "id of a tool call"
            if not key:
                raise invalid_field(f"{where}.{field}", "is required in a message of role 'tool'.")
        if key not in self._calls[message.role]:
            raise invalid_field(f"{where}.{field}", f"must be the {what} in an earlier assistant message.")
        return generate.ToolResultPart(self._calls[message.role][key], self._read_content(message, where))

    def _read_content(self, message: wire.Message, where: str) -> tuple[generate.TextPart | MediaPart, ...]:
        """Return a message's images and content without its empty texts."""
        images = self._read_images(message, where)
        if isinstance(message.content, str):
            return (*images, generate.TextPart(message.content)) if message.content else images
        given = enumerate(message.content or ())
        parts = (self._read_part(part, message.role, f"{where}.content[{i}]") for i, part in given)
        return (*images, *(part for part in parts if not isinstance(part, generate.TextPart) or part.text))

    def _read_images(self, message: wire.Message, where: str) -> tuple[MediaPart, ...]:
        """Return Ollama's images, which are in base64."""
        if message.images and "image_url" not in _PART_TYPES.get(message.role, ()):
            raise invalid_field(f"{where}.images", f"must be left out in a message of role '{message.role}'.")
        given = enumerate(message.images or ())
        return tuple(encoded_part("image", data, "", f"{where}.images[{i}]", self._options) for i, data in given)

    def _read_part(self, part: wire.ContentPart, role: str, where: str) -> generate.TextPart | MediaPart:
        allowed = _PART_TYPES.get(role, ("text",))
        kind = _OTHER_NAMES.get(part.type, part.type)
        if kind not in allowed:
            names = ", ".join(map(repr, allowed[:-1])) + " or " if allowed[1:] else ""
            raise invalid_field(f"{where}.type", f"must be {names}{allowed[-1]!r} in a message of role '{role}'.")
        if part.file_id is not None:
            raise invalid_field(f"{where}.file_id", "must be left out: this server keeps no files.")
        match kind:
            case "image_url":
                return image_part(part.image_url, part.detail, f"{where}.image_url", self._options)
            case "video_url":
                return media_part("video", *url_and_param(part.video_url, f"{where}.video_url"), self._options)
            case "input_audio":
                audio = require(part.input_audio, f"{where}.input_audio")
                return audio_part(audio.data, audio.format, f"{where}.input_audio", self._options)
            case "file":
                return self._read_file(require(part.file, f"{where}.file"), f"{where}.file")
        text = part.text if kind == "text" else part.refusal
        return generate.TextPart(require(text, f"{where}.{kind}"))

    def _read_file(self, file: wire.File, where: str) -> MediaPart:
        if file.file_data is None:
            reason = ": this server keeps no files" if file.file_id else ""
            raise invalid_field(f"{where}.file_data", f"is required{reason}.")
        if file.file_id:
            raise invalid_field(f"{where}.file_id", "must be left out: this server keeps no files.")
        return file_part(file.file_data, file.filename or "", f"{where}.file_data", self._options)
