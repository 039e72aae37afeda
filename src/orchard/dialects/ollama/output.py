"""What the answers of Ollama's APIs share: times, statistics, log-probabilities and calls."""

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from orchard.core import events
from orchard.core.request import Request
from orchard.core.stopwatch import Part

Fields = dict[str, Any]
LINE_TYPE = "application/x-ndjson"

_MIN_LOGPROB = -9999.0  # JSON has no -Infinity
_NANOSECONDS = 1_000_000_000
# What happens to a prompt before its first token is generated.
_PROMPT_PARTS: tuple[Part, ...] = ("render", "tokenise", "restore", "lookup", "prefill")
_DONE_REASONS = {"stop": "stop", "length": "length", "tool_calls": "stop"}
_json = msgspec.json.Encoder().encode


class AnswerCall(Struct, frozen=True, kw_only=True):
    """What all calls have: the request, the name of the model as it was given, and when the request came.

    `begun_at` is the monotonic clock's time. `thinks`: whether the request turns thinking on, None if it doesn't say.
    `only_loads`: there is nothing to answer, so the model is only loaded or unloaded.
    """

    request: Request
    model: str
    begun_at: float
    stream: bool = False
    thinks: bool | None = None
    only_loads: bool = False

    def head(self) -> Fields:
        """Return the fields that each line begins with."""
        return {"model": self.model, "created_at": timestamp(time.time())}

    def statistics(self, end: events.Finished | None) -> Fields:
        """Return the counts, and the times in nanoseconds.

        The time that is neither for the prompt nor for the answer is what it waited for its model, mostly for a load.
        """
        total = time.monotonic() - self.begun_at
        seconds: Mapping[Part, float] = end.first_token_seconds if end else {}
        prompt = sum(seconds.get(part, 0.0) for part in _PROMPT_PARTS)
        later = end.later_seconds if end else 0.0
        answer = seconds.get("decode", 0.0) + later
        waited = max(0.0, total - sum(seconds.values()) - later)
        used = end.usage if end else events.Usage(0, 0)
        return {
            "total_duration": _nanoseconds(total),
            "load_duration": _nanoseconds(waited),
            "prompt_eval_count": used.prompt_tokens,
            "prompt_eval_duration": _nanoseconds(prompt),
            "eval_count": used.completion_tokens,
            "eval_duration": _nanoseconds(answer),
        }


def timestamp(seconds: float) -> str:
    """Return a time since the epoch as Ollama writes it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def done_reason(reason: str) -> str:
    """Return Ollama's word for why an answer ended."""
    return _DONE_REASONS[reason]


def line(fields: Fields) -> bytes:
    """Return a line of a stream."""
    return _json(fields) + b"\n"


def logprob_fields(sampled: Iterable[events.Logprob]) -> list[Fields]:
    """Return the log-probabilities of sampled tokens."""

    def entry(token: events.TokenLogprob) -> Fields:
        logprob = _MIN_LOGPROB if token.logprob is None else max(_MIN_LOGPROB, token.logprob)
        return {"token": token.text if token.bytes else "", "logprob": logprob, "bytes": list(token.bytes)}

    return [entry(one.token) | {"top_logprobs": [entry(token) for token in one.top]} for one in sampled]


def call_fields(index: int, call: events.ToolCall) -> Fields:
    """Return a call. Its arguments are an object; a text that is none is wrapped."""
    arguments = call.arguments.strip() or "{}"
    try:
        msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
        shown: Any = msgspec.Raw(msgspec.json.format(arguments.encode(), indent=-1))
    except (msgspec.DecodeError, RecursionError):
        shown = {"INVALID_JSON": call.arguments}
    return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": shown}}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * _NANOSECONDS)
