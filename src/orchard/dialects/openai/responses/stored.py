"""What is stored of Responses: items in the form in which the API lists them, conversations, pages of a list."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from orchard.core.errors import OrchardError
from orchard.dialects.common.fields import schema
from orchard.dialects.common.json_body import FreeForm, check_free_form, decode, invalid
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.responses.items import OUTPUTS, TEXTS, ItemReader, kind_of
from orchard.dialects.openai.responses.parse import references
from orchard.dialects.openai.responses.seal import Unseal, unknown
from orchard.dialects.openai.responses.tools import Toolbox

MAX_PAGE = 100
DEFAULT_PAGE = 20

Fields = dict[str, Any]

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "compaction": "cmp",
}
# What the API has in each item and part of a type, and callers may leave out.
_ITEM_DEFAULTS: dict[str, Fields] = {
    "message": {"content": ""},
    "reasoning": {"summary": []},
    "function_call": {"arguments": "{}"},
    "function_call_output": {"output": ""},
    "custom_tool_call": {"input": ""},
    "custom_tool_call_output": {"output": ""},
    "tool_search_call": {"execution": "client"},
    "tool_search_output": {"execution": "client"},
}
_PART_DEFAULTS: dict[str, Fields] = {
    "output_text": {"annotations": [], "logprobs": []},
    "input_image": {"detail": "auto"},
    "refusal": {"refusal": ""},
}
_WITH_STATUS = (
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "computer_call_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
)
_json = msgspec.json.Encoder().encode


class _RawItems(msgspec.Struct):
    items: list[Fields] | None = None


_new = msgspec.json.Decoder(wire.ConversationBody)
_update = msgspec.json.Decoder(wire.ConversationUpdate)
_added = msgspec.json.Decoder(wire.ItemsBody)
_raw_items = msgspec.json.Decoder(_RawItems)
_past_items = msgspec.json.Decoder(list[wire.Item])


def normalised(
    given: str | Sequence[Fields] | None,
    hex_id: str,
    referenced: Mapping[str, bytes],
    past: Sequence[wire.Item] = (),
) -> list[Fields]:
    """Give an input's items as they are listed: each with its id, its status, and its content in parts.

    `hex_id` makes the ids of those without one, or with that of an item before them, be it in the `past` conversation.
    A reference becomes what it refers to.
    """
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    items = []
    taken = {item.id for item in past}
    for i, item in enumerate(given or ()):
        if _kind(item) != "item_reference":
            found = _normalised(item)
        elif item["id"] in referenced:
            found = msgspec.json.decode(referenced[item["id"]])
        else:  # it is in the conversation already
            continue
        if not found.get("id") or found["id"] in taken:
            found["id"] = f"{_PREFIXES.get(found['type'], 'item')}_{hex_id}i{i:02x}"
        taken.add(found["id"])
        items.append(found)
    return items


def _kind(item: Fields) -> str:
    return kind_of(wire.Item(item.get("type"), item.get("id"), item.get("role")), "input")


def _normalised(given: Fields) -> Fields:
    check_free_form(given, "input")
    item = {name: value for name, value in given.items() if value is not None}
    kind = item["type"] = _kind(item)
    item = _ITEM_DEFAULTS.get(kind, {}) | item
    if kind in _WITH_STATUS:
        item.setdefault("status", "completed")
    if kind == "message":
        content = item["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        item["content"] = [_part(part, item["role"]) for part in parts]
    elif kind == "function_call" and not isinstance(item["arguments"], str):
        item["arguments"] = _json(item["arguments"]).decode()
    elif kind in OUTPUTS and not isinstance(item["output"], str):
        item["output"] = [_part(part, "tool") for part in item["output"]]
    return item


def _part(given: Fields, role: str) -> Fields:
    """Give a part as the API has it; a text is of the type that the role's texts have."""
    part = {name: value for name, value in given.items() if value is not None}
    if part["type"] in TEXTS:
        part["type"] = "output_text" if role == "assistant" else "input_text"
    elif part["type"] == "image_url":
        part["type"] = "input_image"
    if isinstance(url := part.get("image_url"), dict):
        part["image_url"] = url["url"]
    return _PART_DEFAULTS.get(part["type"], {}) | part


def new_conversation(body: bytes, hex_id: str, unseal: Unseal = unknown) -> tuple[Fields, list[Fields]]:
    """Read a request to create a conversation; give its metadata and its items. Raises OrchardError.

    `unseal` reads compaction items.
    """
    decoded = decode(_new, body or b"{}")
    return decoded.metadata or {}, _checked(decoded.items or [], body or b"{}", hex_id, unseal)


def new_metadata(body: bytes) -> Fields:
    """Read a request to replace a conversation's metadata. Raises OrchardError."""
    return dict(decode(_update, body).metadata or {})


class AddedItems(msgspec.Struct, frozen=True):
    """A request to add items to a conversation.

    `ids` are those that they claim, `answered` those of the calls that they answer: the conversation's own items of
    these ids say what can be made of them.
    """

    body: bytes
    items: list[wire.Item]

    @property
    def ids(self) -> list[str]:
        """The ids of the items that have one."""
        return [item.id for item in self.items if item.id]

    @property
    def answered(self) -> list[str]:
        """The ids of the calls whose outputs are among the items."""
        return [item.call_id for item in self.items if item.type in OUTPUTS and item.call_id]

    def normalised(self, hex_id: str, related: Sequence[bytes], unseal: Unseal = unknown) -> list[Fields]:
        """Return the items as they are listed; `related`: those of the conversation that matter. Raises OrchardError.

        `hex_id` makes the ids of those without one, `unseal` reads compaction items.
        """
        return _checked(self.items, self.body, hex_id, unseal, related)


def read_items(body: bytes) -> AddedItems:
    """Read a request to add items to a conversation. Raises OrchardError."""
    return AddedItems(body, decode(_added, body).items)


def conversation_schema() -> Fields:
    """Give the JSON schema of a request to create a conversation."""
    return schema(wire.ConversationBody)


def update_schema() -> Fields:
    """Give the JSON schema of a request to replace a conversation's metadata."""
    return schema(wire.ConversationUpdate)


def items_schema() -> Fields:
    """Give the JSON schema of a request to add items to a conversation."""
    return schema(wire.ItemsBody)


def _checked(
    items: Sequence[wire.Item], body: bytes, hex_id: str, unseal: Unseal, past: Sequence[bytes] = ()
) -> list[Fields]:
    """Make sure that a conversation of the past items and these can be read."""
    if references(items, "items"):
        raise invalid("items", "`items` must be items themselves, not references.")
    try:
        past_items = _past_items.decode(b"[" + b",".join(past) + b"]")
        reader = ItemReader(Toolbox((), False, {}), FreeForm(), unseal)
        reader.read(past_items, stored=True)
        reader.read(items)
    except OrchardError as error:
        raise _renamed(error) from None
    return normalised(decode(_raw_items, body).items, hex_id, {}, past_items)


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


def page(items: Sequence[tuple[str, bytes]], more: bool = False) -> bytes:
    """Give one page of items, each with its id; `more`: others follow."""
    return _json(
        {
            "object": "list",
            "data": [Raw(item) for _, item in items],
            "first_id": items[0][0] if items else "",
            "last_id": items[-1][0] if items else "",
            "has_more": more,
        }
    )


def encoded(found: Fields) -> bytes:
    """Give something that is stored as JSON."""
    return _json(found)


def deleted(id_: str, kind: str) -> bytes:
    """Give the body that says that something is gone."""
    return _json({"id": id_, "object": kind, "deleted": True})
