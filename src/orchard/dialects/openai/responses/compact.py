"""Compaction: a conversation becomes its messages of the user, and one item that holds a summary of all of it.

https://platform.openai.com/docs/api-reference/responses/compact
"""

import time
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from orchard.core.events import Usage
from orchard.dialects.common.fields import ModelName, schema, with_model
from orchard.dialects.common.json_body import decode
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.responses.encode import Draft, ResponseCall, draft_of
from orchard.dialects.openai.responses.output import response_usage
from orchard.dialects.openai.responses.seal import seal

Fields = dict[str, Any]

# What the assistant did is in the summary; what others said stays as it is.
_KEPT_ROLES = ("user", "system", "developer")
_IGNORED = ("image", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "service_tier")
_json = msgspec.json.Encoder().encode


class CompactBody(Struct):
    """A request to compact a conversation."""

    model: ModelName | None = None
    input: str | Annotated[list[wire.Item], Meta(max_length=wire.MAX_ITEMS)] | None = None
    instructions: str | None = None
    previous_response_id: wire.Identifier | None = None


_decoder = msgspec.json.Decoder(CompactBody)


def read_compact(body: bytes, default: str | None = None) -> Draft:
    """Read the body of a request; `default` is its model where it names none. Raises OrchardError (invalid_request)."""
    given = with_model(decode(_decoder, body), default)
    asked = wire.Body(
        model=given.model,
        input=given.input,
        instructions=given.instructions,
        previous_response_id=given.previous_response_id,
        store=False,
    )
    return draft_of(asked, body)


def compacted(call: ResponseCall, past: Iterable[bytes], summary: str, used: Usage, key: bytes) -> bytes:
    """Return the answer; `past`: what came before the request's input, `used`: what the summary took."""
    items = [*map(msgspec.json.decode, past), *call.input]
    kept = [item for item in items if item["type"] == "message" and item["role"] in _KEPT_ROLES]
    compaction = {"id": f"cmp_{call.hex}00", "type": "compaction", "encrypted_content": seal(summary, key)}
    answer = {
        "id": call.id,
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": [*kept, compaction],
        "usage": response_usage(used),
    }
    return _json(answer)


def body_schema() -> Fields:
    """Return the JSON schema of a request to compact a conversation."""
    return schema(CompactBody, _IGNORED)
