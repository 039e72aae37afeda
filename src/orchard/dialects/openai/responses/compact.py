"""Compaction: a conversation becomes its user's messages, and one item that holds a summary of all of it.

https://platform.openai.com/docs/api-reference/responses/compact
"""

import time
from collections.abc import Iterable

import msgspec
from msgspec.structs import asdict

from orchard.core.events import Usage
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.responses.call import ResponseCall
from orchard.dialects.openai.responses.output import response_usage
from orchard.dialects.openai.responses.parse import Draft, draft_of
from orchard.dialects.openai.responses.seal import seal

# What the assistant did is in the summary; what others said stays as it is.
_KEPT_ROLES = ("user", "system", "developer")


def parse(body: bytes, default: str | None = None) -> Draft:
    """Read the body of a request; `default` is its model where it names none. Raise OrchardError (invalid_request)."""
    given = wire.COMPACT_BODY.decode(body, default=default)
    return draft_of(wire.Body(**asdict(given), store=False), body)


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
    return msgspec.json.encode(answer)
