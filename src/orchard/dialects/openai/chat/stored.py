"""Stored Chat Completions: https://platform.openai.com/docs/api-reference/chat/list."""

import msgspec
from msgspec import Struct

from orchard.dialects.common.json_body import check_free_form, decode_body
from orchard.dialects.openai.output import Fields
from orchard.dialects.openai.stored import Metadata

# The fields of a request that a stored completion repeats.
_REPEATED_FIELDS = (
    "tools",
    "tool_choice",
    "response_format",
    "seed",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
)


class _Metadata(Struct):
    metadata: Metadata | None = None


_metadata_decoder = msgspec.json.Decoder(_Metadata)
_fields_decoder = msgspec.json.Decoder(Fields)


class StoredRequest(Struct, frozen=True):
    """The parts of a request that are stored with its answer."""

    messages: list[Fields]
    metadata: dict[str, str]
    repeated: Fields

    def stored_completion(self, answer: Fields, request_id: str) -> Fields:
        """Return a completion as it is stored."""
        return {**answer, "request_id": request_id, "metadata": self.metadata, **self.repeated}

    def message_list(self, completion_id: str) -> list[Fields]:
        """Return the messages as the API lists them, with ids; content of several parts is in `content_parts`."""
        listed = []
        for i, message in enumerate(self.messages):
            content = message.get("content")
            text, parts = (None, content) if isinstance(content, list) else (content, None)
            own = {"id": f"{completion_id}-{i}", "name": message.get("name"), "content": text, "content_parts": parts}
            listed.append(message | own)
        return listed


def parse_stored_request(body: bytes) -> StoredRequest:
    """Return the parts to store of a request that `parse` accepts. Raise OrchardError (invalid_request)."""
    metadata = decode_body(_metadata_decoder, body).metadata or {}
    given = decode_body(_fields_decoder, body)
    repeated = {name: given.get(name) for name in _REPEATED_FIELDS} | {"input_user": given.get("user")}
    for name, value in repeated.items():
        check_free_form(value, name)
    for i, message in enumerate(given["messages"]):
        check_free_form(message, f"messages[{i}]")
    return StoredRequest(given["messages"], dict(metadata), repeated)
