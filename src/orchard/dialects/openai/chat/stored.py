"""What is stored of Chat Completions, as the API gives it: https://platform.openai.com/docs/api-reference/chat/list."""

from typing import Any

import msgspec
from msgspec import Struct

from orchard.dialects.common.fields import Metadata, schema
from orchard.dialects.common.json_body import check_free_form, decode

Fields = dict[str, Any]
# What a stored completion repeats of its request, and the name that it has there.
_REPEATED = {
    "tools": "tools",
    "tool_choice": "tool_choice",
    "response_format": "response_format",
    "seed": "seed",
    "temperature": "temperature",
    "top_p": "top_p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "user": "input_user",
}
_json = msgspec.json.Encoder().encode


class _Metadata(Struct):
    metadata: Metadata | None = None


class MetadataUpdate(Struct):
    """A request to replace the metadata of a stored completion."""

    metadata: Metadata | None


_metadata = msgspec.json.Decoder(_Metadata)
_update = msgspec.json.Decoder(MetadataUpdate)
_whole = msgspec.json.Decoder(Fields)


class AskedChat(Struct, frozen=True):
    """What is stored of a request whose answer is to be stored."""

    messages: list[Fields]
    metadata: dict[str, str]
    repeated: Fields

    def completion(self, answer: Fields, request_id: str) -> Fields:
        """Return an answer as it is stored."""
        return {**answer, "request_id": request_id, "metadata": self.metadata, **self.repeated}

    def listed(self, completion_id: str) -> list[Fields]:
        """Return the messages as they are listed, each with an id: content of several parts is in `content_parts`."""
        return [_listed(message, f"{completion_id}-{i}") for i, message in enumerate(self.messages)]


def read(body: bytes) -> AskedChat:
    """Read a request, which can be served, once more as what is stored of it. Raises OrchardError (invalid_request)."""
    metadata = decode(_metadata, body).metadata or {}
    given = decode(_whole, body)
    repeated = {theirs: given.get(ours) for ours, theirs in _REPEATED.items()}
    for name, value in repeated.items():
        check_free_form(value, name)
    for i, message in enumerate(given["messages"]):
        check_free_form(message, f"messages[{i}]")
    return AskedChat(given["messages"], dict(metadata), repeated)


def new_metadata(body: bytes) -> dict[str, str]:
    """Read a request to replace a stored completion's metadata. Raises OrchardError."""
    return dict(decode(_update, body).metadata or {})


def update_schema() -> Fields:
    """Return the JSON schema of a request to replace a stored completion's metadata."""
    return schema(MetadataUpdate)


def deleted(completion_id: str) -> bytes:
    """Return the body that says that a completion is gone."""
    return _json({"id": completion_id, "object": "chat.completion.deleted", "deleted": True})


def _listed(message: Fields, id_: str) -> Fields:
    content = message.get("content")
    parts = content if isinstance(content, list) else None
    text = None if parts is not None else content
    return {**message, "id": id_, "name": message.get("name"), "content": text, "content_parts": parts}
