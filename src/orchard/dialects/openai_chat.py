"""OpenAI's Chat Completions: a body becomes a `Request`, events become chunks or one whole completion."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from orchard.core.events import (
    Choice,
    Collected,
    Event,
    Failed,
    Finished,
    Logprob,
    Reasoning,
    Text,
    TokenLogprob,
    ToolArgs,
    ToolStart,
    Usage,
    merge,
)
from orchard.core.request import Request
from orchard.dialects.decoding import decode
from orchard.dialects.openai_chat_body import Body, body_schema
from orchard.dialects.openai_chat_request import PRIORITY_HEADER, translate
from orchard.dialects.openai_errors import error_body

__all__ = ["PRIORITY_HEADER", "ChatCall", "ChatEncoder", "body_schema", "parse"]

_DONE = b"data: [DONE]\n\n"
_LEAST_LOGPROB = -9999.0  # what OpenAI writes where a token is next to impossible; JSON has no -Infinity
# Raw in JSON, but a line's end to clients that cut the stream with str.splitlines().
_LINE_ENDS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))

_decoder = msgspec.json.Decoder(Body)
_json = msgspec.json.Encoder().encode


def parse(body: bytes, request_id: str, priority: str | None = None) -> "ChatCall":
    """Read the body of a request, and the priority that its header gives.

    Raises OrchardError (invalid_request), its `param` naming the field to blame.
    """
    decoded = decode(_decoder, body)
    return ChatCall(
        request=translate(decoded, request_id, priority),
        stream=bool(decoded.stream),
        include_usage=bool(decoded.stream_options and decoded.stream_options.include_usage),
        legacy_functions=bool(decoded.functions),
    )


class ChatCall(Struct, frozen=True):
    """A parsed body. `legacy_functions`: the caller gave `functions`, so the answer has a `function_call`."""

    request: Request
    stream: bool
    include_usage: bool = False
    legacy_functions: bool = False

    @property
    def completion_id(self) -> str:
        """The `id` of the answer."""
        return f"chatcmpl-{self.request.id.removeprefix('req_').replace('-', '')}"

    def encoder(self) -> "ChatEncoder":
        """Make the encoder of a streamed answer."""
        return ChatEncoder(self)

    def complete(self, result: Collected) -> bytes:
        """Give the whole body of an answer that is not streamed."""
        return _json(
            {
                "id": self.completion_id,
                "object": "chat.completion",
                "created": int(time.time()),
                "model": self.request.model,
                "choices": [self._choice(index, choice) for index, choice in enumerate(result.choices)],
                "usage": _usage(result.usage),
            }
        )

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": None}
        if choice.tool_calls and not choice.text:
            message["content"] = None
        if choice.reasoning:
            message["reasoning_content"] = choice.reasoning
        functions = [{"name": call.name, "arguments": call.arguments} for call in choice.tool_calls]
        if functions and self.legacy_functions:
            message["function_call"] = functions[0]
        elif functions:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": function}
                for call, function in zip(choice.tool_calls, functions, strict=True)
            ]
        asked = self.request.generate.top_logprobs is not None
        return {
            "index": index,
            "message": message,
            "logprobs": _logprobs(choice.logprobs) if asked else None,
            "finish_reason": self.finish_reason(choice.reason),
        }

    def finish_reason(self, reason: str) -> str:
        """Give OpenAI's word for why a choice ended."""
        return "function_call" if self.legacy_functions and reason == "tool_calls" else reason


class ChatEncoder:
    """Writes one stream of events as server-sent events.

    All of a chunk but its delta is made once: a delta costs little more than the JSON encoding of its text.
    """

    def __init__(self, call: ChatCall) -> None:
        self._call = call
        self._role_sent = False
        about = {
            "id": call.completion_id,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": call.request.model,
        }
        self._start = b"data: " + _json(about)[:-1] + b',"choices":['
        self._heads = [self._start + b'{"index":%d,"delta":' % index for index in range(call.request.generate.n)]
        self._end = b'],"usage":null}\n\n' if call.include_usage else b"]}\n\n"
        self._has_logprobs = call.request.generate.top_logprobs is not None
        self._tail = (b',"logprobs":null' if self._has_logprobs else b"") + b',"finish_reason":null}' + self._end

    def encode(self, events: Sequence[Event]) -> bytes:
        """Write the next events of the stream; empty where they show nothing."""
        chunks = [self._event(event) for event in (events if len(events) == 1 else merge(events))]
        encoded = b"".join(chunks)
        for raw, escaped in _LINE_ENDS:
            encoded = encoded.replace(raw, escaped)
        return encoded

    def _event(self, event: Event) -> bytes:
        chunk = b""
        match event:
            case Text():
                chunk = self._text(event)
            case Reasoning() if event.text:
                chunk = self._delta(event.choice, b'{"reasoning_content":' + _json(event.text) + b"}")
            case ToolStart():
                chunk = self._tool_start(event)
            case ToolArgs() if event.json:
                chunk = self._tool_args(event)
            case Finished():
                chunk = self._finished(event)
            case Failed():
                return b"data: " + _json(error_body(event.error())) + b"\n\n" + _DONE
        if self._role_sent:
            return chunk
        self._role_sent = True
        return self._roles() + chunk

    def _delta(self, choice: int, delta: bytes) -> bytes:
        return self._heads[choice] + delta + self._tail

    def _roles(self) -> bytes:
        delta = b'{"role":"assistant","content":"","refusal":null}'
        return b"".join(self._delta(choice, delta) for choice in range(len(self._heads)))

    def _text(self, event: Text) -> bytes:
        delta = b'{"content":' + _json(event.text) + b"}"
        if self._has_logprobs and event.logprobs:
            logprobs = b',"logprobs":' + _json(_logprobs(event.logprobs)) + b',"finish_reason":null}'
            return self._heads[event.choice] + delta + logprobs + self._end
        return self._delta(event.choice, delta) if event.text else b""

    def _tool_start(self, event: ToolStart) -> bytes:
        function = {"name": event.name, "arguments": ""}
        if self._call.legacy_functions:
            return self._delta(event.choice, _json({"function_call": function})) if event.index == 0 else b""
        call = {"index": event.index, "id": event.id, "type": "function", "function": function}
        return self._delta(event.choice, _json({"tool_calls": [call]}))

    def _tool_args(self, event: ToolArgs) -> bytes:
        function = b'{"arguments":' + _json(event.json) + b"}"
        if self._call.legacy_functions:
            return self._delta(event.choice, b'{"function_call":' + function + b"}") if event.index == 0 else b""
        return self._delta(event.choice, b'{"tool_calls":[{"index":%d,"function":%b}]}' % (event.index, function))

    def _finished(self, event: Finished) -> bytes:
        chunks = []
        for choice, reason in enumerate(event.reasons):
            logprobs = b',"logprobs":null' if self._has_logprobs else b""
            finish = b',"finish_reason":' + _json(self._call.finish_reason(reason)) + b"}"
            chunks.append(self._heads[choice] + b"{}" + logprobs + finish + self._end)
        if self._call.include_usage:
            chunks.append(self._start + b'],"usage":' + _json(_usage(event.usage)) + b"}\n\n")
        return b"".join(chunks) + _DONE


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _logprobs(logprobs: Iterable[Logprob]) -> dict[str, Any]:
    content = [{**_token(drawn.token), "top_logprobs": [_token(token) for token in drawn.top]} for drawn in logprobs]
    return {"content": content, "refusal": None}


def _token(token: TokenLogprob) -> dict[str, Any]:
    # The comparison is false for NaN as well.
    logprob = token.logprob if token.logprob > _LEAST_LOGPROB else _LEAST_LOGPROB
    return {"token": token.text, "logprob": logprob, "bytes": list(token.bytes)}
