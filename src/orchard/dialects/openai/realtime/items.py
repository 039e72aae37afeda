"""The items of a session's conversation, and the messages that a model gets."""

import sys
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from orchard.core.media import MediaOptions, is_data_url
from orchard.core.tasks.generate import Message, Part, TextPart, ToolCallPart, ToolResultPart
from orchard.dialects.common.json_body import FreeForm, invalid_choice, invalid_field, require
from orchard.dialects.common.media import media_part, with_detail
from orchard.dialects.openai.output import Fields
from orchard.dialects.openai.realtime.schema import ContentPart, ItemFields

_PARTS = {
    "system": ("input_text",),
    "user": ("input_text", "input_audio", "input_image"),
    "assistant": ("output_text", "output_audio"),
}
_FIELDS = {
    "input_text": ("text",),
    "input_audio": ("audio",),
    "input_image": ("image_url", "detail"),
    "output_text": ("text",),
    "output_audio": ("transcript",),
}
# About what an item and a part of it take beside their texts.
_ITEM_BYTES, _PART_BYTES = 400, 100
_TYPES = ("message", "function_call", "function_call_output")
Status = Literal["completed", "incomplete", "in_progress"]


class RealtimeItem(Struct, kw_only=True):
    """An item; which fields make sense depends on its type. An `input_audio` part has no audio, but a transcript.

    `nbytes` is about how much memory it took when it was measured last.
    `heard`: of an answer's audio, where each clause ends in the transcript, and after how many milliseconds.
    """

    id: str
    type: str = "message"
    status: Status = "completed"
    role: str | None = None
    content: list[ContentPart] = field(default_factory=list)
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str = ""
    heard: list[tuple[int, float]] = field(default_factory=list)
    nbytes: int = 0

    def fields(self) -> Fields:
        """Return the item as events show it."""
        shown: Fields = {"id": self.id, "object": "realtime.item", "type": self.type, "status": self.status}
        if self.type == "message":
            return shown | {"role": self.role, "content": [_part_fields(part) for part in self.content]}
        if self.type == "function_call":
            return shown | {"call_id": self.call_id, "name": self.name, "arguments": self.arguments}
        return shown | {"call_id": self.call_id, "output": self.output}

    def measure(self) -> None:
        """Set `nbytes`."""
        texts = [self.id, self.call_id, self.name, self.arguments, self.output]
        for part in self.content:
            texts += filter(None, (part.text, part.transcript, part.image_url))
        self.nbytes = sum(map(sys.getsizeof, texts)) + _ITEM_BYTES + _PART_BYTES * len(self.content)

    @property
    def text(self) -> str:
        """What is said in a message."""
        return "".join(part.text or part.transcript or "" for part in self.content)


def _part_fields(part: ContentPart) -> Fields:
    names = ("type", "text", "transcript", "image_url", "detail")
    found = {name: getattr(part, name) for name in names if getattr(part, name) is not None}
    return found | ({"transcript": part.transcript} if part.type == "input_audio" else {})


def read_item(fields: ItemFields, new_id: str, calls: Iterable[str], where: str = "item") -> RealtimeItem:
    """Return an item of a client.

    `new_id` is its id if it has none; `calls` are the ids of the calls of which it may be the output. Raise
    OrchardError (invalid_request).
    """
    if fields.type not in _TYPES:
        raise invalid_choice(f"{where}.type", _TYPES)
    id_, free_form = fields.id or new_id, FreeForm()
    if fields.type == "message":
        role = require(fields.role, f"{where}.role")
        parts = require(fields.content, f"{where}.content")
        for at, part in enumerate(parts):
            _check_part(part, role, f"{where}.content[{at}]")
        return RealtimeItem(id=id_, role=role, content=[_keep_fields(part) for part in parts])
    call_id = require(fields.call_id, f"{where}.call_id")
    if fields.type == "function_call":
        name = require(fields.name, f"{where}.name")
        arguments = free_form.arguments_json(fields.arguments, f"{where}.arguments")
        return RealtimeItem(id=id_, type="function_call", call_id=call_id, name=name, arguments=arguments)
    if call_id not in calls:
        raise invalid_field(f"{where}.call_id", "must be that of a function call of the conversation.")
    return RealtimeItem(
        id=id_, type="function_call_output", call_id=call_id, output=require(fields.output, f"{where}.output")
    )


def _keep_fields(part: ContentPart) -> ContentPart:
    """Return a part without the fields that its type doesn't have."""
    return ContentPart(part.type, **{name: getattr(part, name) for name in _FIELDS[part.type]})


def _check_part(part: ContentPart, role: str, where: str) -> None:
    if part.type not in _PARTS[role]:
        raise invalid_choice(f"{where}.type", _PARTS[role], f" in a message of role '{role}'")
    match part.type:
        case "input_text" | "output_text":
            require(part.text, f"{where}.text")
        case "output_audio":
            require(part.transcript, f"{where}.transcript")
        case "input_audio":
            require(part.audio, f"{where}.audio", empty=False)
        case "input_image":
            if not is_data_url(require(part.image_url, f"{where}.image_url")):
                raise invalid_field(f"{where}.image_url", "must be a data: URL.")


def conversation_messages(items: Iterable[RealtimeItem]) -> tuple[Message, ...]:
    """Return the messages of items, in order, without empty ones and outputs of calls that are not among them."""
    calls: set[str] = set()
    messages: list[Message] = []
    for at, item in enumerate(items):
        if item.type == "function_call":
            calls.add(item.call_id)
        parts = tuple(_message_parts(item, calls, f"item[{at}]"))
        role = {"function_call": "assistant", "function_call_output": "tool"}.get(item.type, item.role or "user")
        if parts and messages and messages[-1].role == role == "assistant":
            messages[-1] = replace(messages[-1], parts=messages[-1].parts + parts)
        elif parts:
            messages.append(Message(_ROLES[role], parts))
    return tuple(messages)


_ROLES: dict[str, Literal["system", "user", "assistant", "tool"]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def _message_parts(item: RealtimeItem, calls: set[str], where: str) -> Iterator[Part]:
    if item.type == "function_call":
        yield ToolCallPart(item.call_id, item.name, item.arguments or "{}")
    elif item.type == "function_call_output":
        if item.call_id in calls:
            yield ToolResultPart(item.call_id, (TextPart(item.output),) if item.output else ())
    else:
        for at, part in enumerate(item.content):
            if part.type == "input_image":
                param = f"{where}.content[{at}].image_url"
                options = with_detail(MediaOptions(), part.detail, param)
                yield media_part("image", part.image_url or "", param, options)
            elif text := part.text or part.transcript:
                yield TextPart(text)
