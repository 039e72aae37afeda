"""A request that has not ended, as GET /v1/requests shows it."""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from orchard.core.request import Priority, Sender

_DIGEST_CHARS = 64

RequestState = Literal["queued", "prefill", "decode", "running"]


class LiveRequest(Struct, frozen=True, kw_only=True):
    """A request that has not ended; numbers are None while they are not known.

    `dialect`: the path of its route. `state`: "running" is that of a task without tokens. `created_at`: in seconds
    since the epoch. `read_tokens` of the prompt are prefilled or came from the cache.
    """

    id: str
    model: str
    dialect: str
    sender: Sender
    state: RequestState
    priority: Priority
    created_at: float
    prompt_tokens: int | None = None
    read_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int = 0
    tokens_per_second: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON. `caller` is the beginning of a digest of its key, or its address without keys."""
        fields = asdict(self)
        caller = fields.pop("sender").caller
        shown = f"key {caller[:8]}" if len(caller) == _DIGEST_CHARS else caller
        return {"object": "request", **fields, "caller": shown, "created_at": int(self.created_at)}
