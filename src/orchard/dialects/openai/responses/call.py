"""A request to create a response: the request for the worker, and the fields of the body that the response repeats."""

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from orchard.core.media import MediaPart
from orchard.core.request import Request
from orchard.dialects.openai.output import Fields
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.responses.tools import ServedTool

_NULL = Raw(b"null")
# By type: the fields of tools and text formats that the API requires in a response, but callers may omit.
_REQUIRED_FIELDS: dict[str, Fields] = {
    "function": {"description": None, "parameters": None, "strict": False},
    "json_schema": {"description": None, "strict": False},
}


class RawText(Struct):
    """The format of the answer's text, unchanged from the body."""

    format: dict[str, Raw] | None = None


class RawBody(Struct):
    """The parts of a body that a response repeats unchanged."""

    input: str | list[Fields] | None = None
    tools: list[dict[str, Raw]] | None = None
    tool_choice: Raw = _NULL
    text: RawText | None = None


_tools_decoder = msgspec.json.Decoder(list[dict[str, Raw]])


class ResponseCall(Struct, frozen=True):
    """A request to create a response.

    `hex` is the part that the ids of the response and its items share. `fixed_fields` are the fields of the response
    that never change, `input` the items of the input, as they are stored. `fetched_media` are the media of the input
    that were fetched, by URL, and `stored_media` those of stored items, by digest. `unserved_tools`: the types of tools
    that are left out. `transcriber`: the model that has transcribed the audio of the input, if any.
    """

    request: Request
    body: wire.Body
    hex: str
    served_tools: Mapping[str, ServedTool]
    fixed_fields: Fields
    input: list[Fields]
    unserved_tools: tuple[str, ...] = ()
    transcriber: str = ""
    fetched_media: Mapping[str, MediaPart] = {}
    stored_media: Mapping[str, bytes] = {}

    @property
    def id(self) -> str:
        """The id of the response."""
        return f"resp_{self.hex}"

    @property
    def may_drop(self) -> bool:
        """Whether the oldest messages may be dropped if the input doesn't fit."""
        return self.body.truncation == "auto"


def fixed_fields(body: wire.Body, raw: RawBody, response_id: str) -> Fields:
    """Return the fields of a response that never change, most of which repeat its request."""
    reasoning = body.reasoning or wire.ReasoningConfig()
    form = raw.text and raw.text.format
    verbosity = body.text.verbosity if body.text else None
    return {
        "id": response_id,
        "object": "response",
        "created_at": int(time.time()),
        "model": body.model,
        "conversation": {"id": body.conversation_id} if body.conversation_id else None,
        "text": {
            "format": _add_required_fields(form) if form else {"type": "text"},
            "verbosity": verbosity or "medium",
        },
        "tool_choice": _single_line(raw.tool_choice, "auto"),
        "tools": [_complete_tool(tool) for tool in raw.tools or ()],
        "background": bool(body.background),
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": body.max_tool_calls,
        "metadata": body.metadata or {},
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {"effort": reasoning.effort, "summary": reasoning.summary or reasoning.generate_summary},
        "safety_identifier": body.safety_identifier,
        "service_tier": "default",
        "store": body.store is not False,
        "top_logprobs": body.top_logprobs or 0,
        "truncation": body.truncation or "disabled",
        "user": body.user,
    }


def _single_line(raw: Raw, otherwise: Any) -> Any:
    """Return a value on one line, because a line end would end a server-sent event."""
    return otherwise if bytes(raw) == b"null" else Raw(msgspec.json.format(bytes(raw), indent=-1))


def _add_required_fields(raw: Mapping[str, Raw]) -> Fields:
    """Return a tool or a text format with the fields that the API requires."""
    filled = _REQUIRED_FIELDS.get(msgspec.json.decode(raw.get("type", _NULL)), {})
    return filled | {name: _single_line(value, filled.get(name)) for name, value in raw.items()}


def _complete_tool(raw: Mapping[str, Raw]) -> Fields:
    """Return a tool, or a namespace with its tools."""
    told = _add_required_fields(raw)
    if told.get("tools"):
        told["tools"] = [_add_required_fields(tool) for tool in _tools_decoder.decode(raw["tools"])]
    return told
