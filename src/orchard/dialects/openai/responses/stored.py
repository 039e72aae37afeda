"""What is stored for Responses: conversations, and items in the form in which the API lists them."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.generate import ToolResultPart
from orchard.dialects.common.json_body import FreeForm, check_free_form, decode_body, invalid_field
from orchard.dialects.openai.output import Fields
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.responses.items import (
    ITEM_DEFAULTS,
    OUTPUT_TYPES,
    TEXT_TYPES,
    ItemReader,
    item_type,
    reference_ids,
)
from orchard.dialects.openai.responses.seal import Unseal, unseal_nothing
from orchard.dialects.openai.responses.tools import Toolbox

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "computer_call": "cu",
    "computer_call_output": "cuo",
    "compaction": "cmp",
}
# By type of part: the fields that the API requires in its answers, but callers may omit.
_PART_DEFAULTS: dict[str, Fields] = {
    "output_text": {"annotations": [], "logprobs": []},
    "input_image": {"detail": "auto"},
    "refusal": {"refusal": ""},
}


class _RawItems(msgspec.Struct):
    items: list[Fields] | None = None


_conversation_decoder = msgspec.json.Decoder(wire.ConversationBody)
_update_decoder = msgspec.json.Decoder(wire.ConversationUpdate)
_added_items_decoder = msgspec.json.Decoder(wire.ItemsBody)
_raw_items_decoder = msgspec.json.Decoder(_RawItems)


def normalise_items(
    given: str | Sequence[Fields] | None,
    hex_id: str,
    referenced: Mapping[str, bytes],
    past: Sequence[wire.Item] = (),
) -> list[Fields]:
    """Return an input's items as the API lists them: each with an id, a status, and its content in parts.

    `hex_id` makes the ids of items without one, and of items whose id an earlier item, also one of `past`, has. A
    reference is replaced by the item that it refers to.
    """
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    items = []
    taken = {item.id for item in past}
    for i, item in enumerate(given or ()):
        if _raw_item_type(item) != "item_reference":
            found = _normalise_item(item)
        elif item["id"] in referenced:
            found = msgspec.json.decode(referenced[item["id"]])
        else:  # the conversation already has the item
            continue
        if not found.get("id") or found["id"] in taken:
            found["id"] = f"{_PREFIXES.get(found['type'], 'item')}_{hex_id}i{i:02x}"
        taken.add(found["id"])
        items.append(found)
    return items


def _raw_item_type(item: Fields) -> str:
    return item_type(wire.Item(item.get("type"), item.get("id"), item.get("role")), "input")


def _normalise_item(given: Fields) -> Fields:
    check_free_form(given, "input")
    item = {name: value for name, value in given.items() if value is not None}
    kind = item["type"] = _raw_item_type(item)
    item = ITEM_DEFAULTS[kind] | item
    if kind == "message":
        content = item["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        item["content"] = [_normalise_part(part, item["role"]) for part in parts]
    elif kind == "function_call" and not isinstance(item["arguments"], str):
        item["arguments"] = msgspec.json.encode(item["arguments"]).decode()
    elif kind == "computer_call_output":
        item["output"] = _normalise_part(item["output"] | {"type": "computer_screenshot"}, "tool")
    elif kind in OUTPUT_TYPES and not isinstance(item["output"], str):
        item["output"] = [_normalise_part(part, "tool") for part in item["output"]]
    return item


def _normalise_part(given: Fields, role: str) -> Fields:
    """Return a part in the API's form; texts get the type of the role's texts."""
    part = {name: value for name, value in given.items() if value is not None}
    if part["type"] in TEXT_TYPES:
        part["type"] = "output_text" if role == "assistant" else "input_text"
    elif part["type"] == "image_url":
        part["type"] = "input_image"
    if isinstance(image := part.get("image_url"), dict):
        part |= {name: image[own] for name, own in (("image_url", "url"), ("detail", "detail")) if image.get(own)}
    return _PART_DEFAULTS.get(part["type"], {}) | part


class NewConversation(NamedTuple):
    """What a request to create a conversation says; the bytes of the media of its items are not checked."""

    metadata: Fields
    items: list[Fields]
    media: list[MediaPart]
    pinned: bool


def parse_conversation(body: bytes, hex_id: str, unseal: Unseal = unseal_nothing) -> NewConversation:
    """Return the conversation that a request creates. Raise OrchardError. `unseal` reads compaction items."""
    decoded = decode_body(_conversation_decoder, body or b"{}")
    items, media = check_items(decoded.items or [], body or b"{}", hex_id, unseal)
    return NewConversation(decoded.metadata or {}, items, media, bool(decoded.pinned))


def parse_conversation_update(body: bytes) -> tuple[Fields, bool | None]:
    """Return a conversation's new metadata, and whether to pin it; None: as before. Raise OrchardError."""
    decoded = decode_body(_update_decoder, body)
    return dict(decoded.metadata or {}), decoded.pinned


def parse_added_items(body: bytes) -> list[wire.Item]:
    """Return the items of a request to add them to a conversation. Raise OrchardError."""
    return decode_body(_added_items_decoder, body).items


def related_ids(items: Sequence[wire.Item]) -> tuple[list[str], list[str]]:
    """Return the ids of the items that have one, and the call ids of outputs among them.

    The conversation's items with one of these ids must be read together with the new items.
    """
    answered = [item.call_id for item in items if item.type in OUTPUT_TYPES and item.call_id]
    return [item.id for item in items if item.id], answered


def check_items(
    items: Sequence[wire.Item], body: bytes, hex_id: str, unseal: Unseal = unseal_nothing, past: Sequence[bytes] = ()
) -> tuple[list[Fields], list[MediaPart]]:
    """Return the items of a body as the API lists them, and their media, whose bytes are not checked.

    Raise OrchardError if they can't be read as a continuation of the `past` items. `hex_id` makes the ids of items
    without one, `unseal` reads compaction items.
    """
    if reference_ids(items, "items"):
        raise invalid_field("items", "must be items themselves, not references.")
    try:
        reader = ItemReader(Toolbox((), False, {}), FreeForm(), unseal)
        past_items = reader.read_stored(past)
        before = len(reader.messages())
        reader.read(items)
    except OrchardError as error:
        # The reader calls the items `input`, as in a request for a response.
        param = error.param and error.param.replace("input[", "items[", 1)
        message = error.message.replace("`input[", "`items[")
        raise OrchardError("invalid_request", message, param=param) from None
    parts = chain.from_iterable(message.parts for message in reader.messages()[before:])
    shown = chain.from_iterable(part.parts if isinstance(part, ToolResultPart) else (part,) for part in parts)
    media = [_rename_media_param(part) for part in shown if isinstance(part, MediaPart)]
    return normalise_items(decode_body(_raw_items_decoder, body).items, hex_id, {}, past_items), media


def _rename_media_param(part: MediaPart) -> MediaPart:
    return replace(part, param=part.param.replace("input[", "items[", 1))


def conversation_fields(
    conversation_id: str, created: float, changed: float, *, pinned: bool, metadata: Fields
) -> Fields:
    """Return a conversation in the API's form."""
    return {
        "id": conversation_id,
        "object": "conversation",
        "created_at": int(created),
        "updated_at": int(changed),
        "pinned": pinned,
        "metadata": metadata,
    }
