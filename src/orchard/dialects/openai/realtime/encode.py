"""Write the events of the Realtime API, and the parts of them that aren't those of a session or an item."""

from typing import Any

import msgspec

from orchard.core.errors import OrchardError
from orchard.core.events import Usage
from orchard.dialects.openai.errors import openai_error_body
from orchard.dialects.openai.output import Fields

_json = msgspec.json.Encoder().encode


class RealtimeError(OrchardError):
    """A failure that has a code of its own in the API."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__("invalid_request", message, param=param)
        self.code = code


class EventWriter:
    """Writes the events of one session, each with an id."""

    def __init__(self, hex_: str) -> None:
        self._hex = hex_
        self._count = 0

    def write(self, kind: str, **fields: Any) -> str:
        """Return an event as JSON."""
        self._count += 1
        return _json({"type": kind, "event_id": f"event_{self._hex[:20]}{self._count}", **fields}).decode()

    def write_error(self, error: OrchardError, event_id: str | None = None) -> str:
        """Return the event that reports an error. `event_id` is that of the client's event."""
        told = openai_error_body(error)["error"] | {"event_id": event_id}
        if isinstance(error, RealtimeError):
            told["code"] = error.code
        return self.write("error", error=told)


def failure_details(error: OrchardError) -> Fields:
    """Return the `status_details` of a response that failed."""
    told = openai_error_body(error)["error"]
    # The SDK's type has no message, but OpenAI's server sends one.
    return {"type": "failed", "error": {name: told[name] for name in ("type", "code", "message")}}


def response_usage_fields(used: Usage, audio_tokens: int) -> Fields:
    """Return the usage of a response. `audio_tokens`: those of its speech, which no other number includes."""
    output = used.completion_tokens + audio_tokens
    return {
        "total_tokens": used.prompt_tokens + output,
        "input_tokens": used.prompt_tokens,
        "output_tokens": output,
        "input_token_details": {
            "text_tokens": used.prompt_tokens,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": used.cached_tokens,
            "cached_tokens_details": {"text_tokens": used.cached_tokens, "audio_tokens": 0, "image_tokens": 0},
        },
        "output_token_details": {"text_tokens": used.completion_tokens, "audio_tokens": audio_tokens},
    }
