"""What is stored of Responses: items in the form in which the API lists them, conversations, pages of a list."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from orchard.core.errors import OrchardError
from orchard.dialects import openai_responses_body as wire
from orchard.dialects.decoding import FreeForm, check_free_form, decode, invalid
from orchard.dialects.openai_fields import schema
from orchard.dialects.openai_responses_items import Reader, kind_of
from orchard.dialects.openai_responses_request import references
from orchard.dialects.openai_responses_tools import Toolbox

MAX_PAGE = 100
DEFAULT_PAGE = 20

Fields = dict[str, Any]
Order = Literal["asc", "desc"]

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}
_WITH_STATUS = ("message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")
_json = msgspec.json.Encoder().encode


class _RawItems(msgspec.Struct):
    items: list[Fields] | None = None


_new = msgspec.json.Decoder(wire.ConversationBody)
_update = msgspec.json.Decoder(wire.ConversationUpdate)
_added = msgspec.json.Decoder(wire.ItemsBody)
_raw_items = msgspec.json.Decoder(_RawItems)


def normalised(given: str | Sequence[Fields] | None, hex_id: str, referenced: Mapping[str, bytes]) -> list[Fields]:
    """Give an input's items as they are listed: each with its id, its status, and its content in parts.

    `hex_id` makes the ids of those without one. A reference becomes what it refers to.
    """
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    items = []
    for i, item in enumerate(given or ()):
        if _kind(item) != "item_reference":
            items.append(_normalised(item, f"{hex_id}i{i:02x}"))
        elif item["id"] in referenced:  # else it is in the conversation already
            items.append(msgspec.json.decode(referenced[item["id"]]))
    return items


def _kind(item: Fields) -> str:
    return kind_of(wire.Item(item.get("type"), item.get("id"), item.get("role")), "input")


def _normalised(given: Fields, hex_id: str) -> Fields:
    check_free_form(given, "input")
    item = {name: value for name, value in given.items() if value is not None}
    kind = item["type"] = _kind(item)
    item.setdefault("id", f"{_PREFIXES.get(kind, 'item')}_{hex_id}")
    if kind in _WITH_STATUS:
        item.setdefault("status", "completed")
    if kind == "message":
        content = item.get("content", "")
        item["content"] = [_text(content, item["role"])] if isinstance(content, str) else [*map(_part, content)]
    if kind == "reasoning":
        item.setdefault("summary", [])
    return item


def _text(text: str, role: str) -> Fields:
    if role == "assistant":
        return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    return {"type": "input_text", "text": text}


def _part(part: Fields) -> Fields:
    defaults: Fields = {"detail": "auto"} if part.get("type") == "input_image" else {}
    return defaults | {name: value for name, value in part.items() if value is not None}


def new_conversation(body: bytes, hex_id: str) -> tuple[Fields, list[Fields]]:
    """Read a request to create a conversation; give its metadata and its items. Raises OrchardError."""
    decoded = decode(_new, body or b"{}")
    return decoded.metadata or {}, _checked(decoded.items or [], body or b"{}", hex_id)


def new_metadata(body: bytes) -> Fields:
    """Read a request to replace a conversation's metadata. Raises OrchardError."""
    return dict(decode(_update, body).metadata or {})


def new_items(body: bytes, hex_id: str) -> list[Fields]:
    """Read a request to add items to a conversation. Raises OrchardError."""
    return _checked(decode(_added, body).items, body, hex_id)


def conversation_schema() -> Fields:
    """Give the JSON schema of a request to create a conversation."""
    return schema(wire.ConversationBody)


def update_schema() -> Fields:
    """Give the JSON schema of a request to replace a conversation's metadata."""
    return schema(wire.ConversationUpdate)


def items_schema() -> Fields:
    """Give the JSON schema of a request to add items to a conversation."""
    return schema(wire.ItemsBody)


def _checked(items: Sequence[wire.Item], body: bytes, hex_id: str) -> list[Fields]:
    """Make sure that a conversation with these items can be read."""
    if references(items, "items"):
        raise invalid("items", "`items` must be items themselves, not references.")
    try:
        Reader(Toolbox((), False, {}), FreeForm()).read(items, stored=True)
    except OrchardError as error:
        raise _renamed(error) from None
    return normalised(decode(_raw_items, body).items, hex_id, {})


def _renamed(error: OrchardError) -> OrchardError:
    """The reader knows items as the `input` of a response."""
    param = error.param and error.param.replace("input[", "items[", 1)
    return invalid(param, error.message.replace("`input[", "`items["))


def conversation(conversation_id: str, created: float, metadata: Fields) -> Fields:
    """Give a conversation as the API has it."""
    return {
        "id": conversation_id,
        "object": "conversation",
        "created_at": int(created),
        "metadata": metadata,
    }


def page(items: Sequence[tuple[str, bytes]], after: str | None, limit: int, order: Order) -> bytes:
    """Give one page of items, which come oldest first, each with its id. Raises OrchardError (item_not_found)."""
    listed = list(items) if order == "asc" else list(reversed(items))
    if after is not None:
        places = [place for place, (id_, _) in enumerate(listed) if id_ == after]
        if not places:
            raise OrchardError("item_not_found", f"no item '{after}' in this list", param="after")
        listed = listed[places[-1] + 1 :]
    shown = listed[:limit]
    return _json(
        {
            "object": "list",
            "data": [Raw(item) for _, item in shown],
            "first_id": shown[0][0] if shown else None,
            "last_id": shown[-1][0] if shown else None,
            "has_more": len(listed) > limit,
        }
    )


def encoded(found: Fields) -> bytes:
    """Give something that is stored as JSON."""
    return _json(found)


def deleted(id_: str, kind: str) -> bytes:
    """Give the body that says that something is gone."""
    return _json({"id": id_, "object": kind, "deleted": True})
