"""Version 0 of LM Studio's REST API: https://lmstudio.ai/docs/developer/rest/endpoints.

Its answers are OpenAI's with further fields: statistics, the model and the runtime. So they are added to bodies that
are encoded already.
"""

import time
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from orchard import __version__
from orchard.core.events import Collected, Event, Finished
from orchard.core.tasks.generate import Generate

Fields = dict[str, Any]

_FORMAT = "mlx"
_RUNTIME: Fields = {"name": "orchard", "version": __version__, "supported_formats": [_FORMAT]}
_DONE = b"}\n\ndata: [DONE]\n\n"
_json = msgspec.json.Encoder().encode


class StreamEncoder(Protocol):
    """OpenAI's streaming form of one response."""

    def encode(self, events: Sequence[Event], /) -> bytes:
        """Return the server-sent events for these events."""
        ...


class LMStudioModel(Struct, frozen=True, kw_only=True):
    """What is known of a model; `kind` is "llm", "vlm" or "embeddings". `architecture` and `quantization` may be ""."""

    name: str
    kind: str
    publisher: str
    architecture: str
    quantization: str
    context_window: int | None
    is_loaded: bool
    capabilities: Collection[str]

    def list_entry(self) -> Fields:
        """Return the model as /api/v0/models lists it."""
        loaded = {"loaded_context_length": self.context_window} if self.is_loaded else {}
        return {
            "id": self.name,
            "object": "model",
            "type": self.kind,
            "publisher": self.publisher,
            "arch": self.architecture,
            "compatibility_type": _FORMAT,
            "quantization": self.quantization,
            "state": "loaded" if self.is_loaded else "not-loaded",
            "max_context_length": self.context_window,
            **loaded,
            "capabilities": ["tool_use"] if "tools" in self.capabilities else [],
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
                "format": _FORMAT,
                "context_length": self.model.context_window,
            },
            "runtime": _RUNTIME,
        }
        return opened + b"," + _json(fields)[1:-1]

    def _statistics(self, end: Finished) -> Fields:
        total = time.monotonic() - self.begun_at
        # Several prompts of one request run beside each other, so that they have no first token in common.
        generating = (
            end.later_seconds + end.first_token_seconds.get("decode", 0.0) if end.first_token_seconds else total
        )
        tokens = end.usage.completion_tokens
        return {
            "tokens_per_second": tokens / generating if generating > 0 else 0.0,
            "time_to_first_token": max(0.0, total - end.later_seconds) if end.first_token_seconds else None,
            "generation_time": generating,
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
