"""Version 0 of LM Studio's REST API: https://lmstudio.ai/docs/developer/rest/endpoints.

Its answers are OpenAI's with further fields: statistics, the model and the runtime. So they are added to bodies that
are encoded already.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from orchard import __version__
from orchard.core.events import Collected, Event, Finished
from orchard.core.tasks.generate import Generate
from orchard.dialects.lmstudio.models import FORMAT, Fields, LMStudioModel
from orchard.dialects.lmstudio.speed import measure_speed

_RUNTIME: Fields = {"name": "orchard", "version": __version__, "supported_formats": [FORMAT]}
_DONE = b"}\n\ndata: [DONE]\n\n"
_json = msgspec.json.Encoder().encode


class StreamEncoder(Protocol):
    """OpenAI's streaming form of one response."""

    def encode(self, events: Sequence[Event], /) -> bytes:
        """Return the server-sent events for these events."""
        ...


def list_entry_v0(model: LMStudioModel) -> Fields:
    """Return a model as /api/v0/models lists it."""
    loaded = {"loaded_context_length": model.context_window} if model.instance else {}
    return {
        "id": model.name,
        "object": "model",
        "type": model.kind,
        "publisher": model.publisher,
        "arch": model.architecture,
        "compatibility_type": FORMAT,
        "quantization": model.quantization,
        "state": "loaded" if model.instance else "not-loaded",
        "max_context_length": model.context_window,
        **loaded,
        "capabilities": ["tool_use"] if "tools" in model.capabilities else [],
    }


class AddedFields(Struct, frozen=True):
    """The fields to add to the answer to a task; `begun_at` is the monotonic clock's time when the request came."""

    model: LMStudioModel
    task: Generate
    begun_at: float

    def complete(self, body: bytes, result: Collected) -> bytes:
        """Return the body of a non-streamed response."""
        return self._add(body[:-1], result.end) + b"}"

    def finish(self, stream_end: bytes, end: Finished) -> bytes:
        """Return the end of a stream; its last chunk gets the fields."""
        before, done, after = stream_end.rpartition(_DONE)
        return self._add(before, end) + done + after if done else stream_end

    def _add(self, opened: bytes, end: Finished | None) -> bytes:
        fields: Fields = {
            "stats": self._statistics(end) if end else {},
            "model_info": {
                "arch": self.model.architecture,
                "quant": self.model.quantization,
                "format": FORMAT,
                "context_length": self.model.context_window,
            },
            "runtime": _RUNTIME,
        }
        return opened + b"," + _json(fields)[1:-1]

    def _statistics(self, end: Finished) -> Fields:
        speed = measure_speed(end, self.begun_at)
        return {
            "tokens_per_second": speed.tokens_per_second,
            "time_to_first_token": speed.first_token,
            "generation_time": speed.generation,
            "stop_reason": self._stop_reason(end),
        }

    def _stop_reason(self, end: Finished) -> str:
        """Return why the first answer ended."""
        if end.stops and end.stops[0] is not None:
            return "stopStringFound"
        if end.reasons and end.reasons[0] == "length":
            limit = self.task.max_tokens
            is_window = limit is None or end.usage.completion_tokens < limit
            return "contextLengthReached" if is_window else "maxPredictedTokensReached"
        return "toolCalls" if end.reasons and end.reasons[0] == "tool_calls" else "eosFound"


class AddingEncoder:
    """Encodes one stream of events as another encoder does, and adds the fields to its last chunk."""

    def __init__(self, inner: StreamEncoder, added: AddedFields) -> None:
        self._inner = inner
        self._added = added

    def encode(self, new: Sequence[Event]) -> bytes:
        """Return the server-sent events for the next events; empty if there are none."""
        written = self._inner.encode(new)
        end = new[-1] if new else None
        return self._added.finish(written, end) if isinstance(end, Finished) else written
