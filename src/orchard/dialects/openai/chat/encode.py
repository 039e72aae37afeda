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
    Started,
    Summary,
    Text,
    TokenLogprob,
    ToolArgs,
    ToolCall,
    ToolStart,
    merge,
)
from orchard.core.request import Request
from orchard.core.tasks.generate import generation
from orchard.dialects.common.fields import PRIORITY_HEADER, decode_for
from orchard.dialects.common.output import (
    DONE,
    SYSTEM_FINGERPRINT,
    escape_line_ends,
    logprob,
    overflow,
    token_text,
    usage,
)
from orchard.dialects.openai.chat.parse import translate
from orchard.dialects.openai.chat.schema import Body, DeploymentBody, body_schema
from orchard.dialects.openai.errors import error_body
from orchard.dialects.openai.tools import custom_input

__all__ = ["PRIORITY_HEADER", "ChatCall", "ChatEncoder", "DeploymentBody", "body_schema", "parse"]

_SERVICE_TIER = "default"

_decoder = msgspec.json.Decoder(Body)
_deployment_decoder = msgspec.json.Decoder(DeploymentBody)
_json = msgspec.json.Encoder().encode


def parse(
    body: bytes, request_id: str, priority: str | None = None, *, model: str | None = None, default: str | None = None
) -> "ChatCall":
    """Read the body of a request, and the priority that its header gives; `model` goes before the body's.

    `default` is the model where neither is given. Raises OrchardError (invalid_request), its `param` naming the field
    to blame.
    """
    decoded = decode_for(model, body, _decoder, _deployment_decoder, default)
    return ChatCall(
        request=translate(decoded, request_id, priority),
        stream=bool(decoded.stream),
        stored=bool(decoded.store),
        include_usage=bool(decoded.stream_options and decoded.stream_options.include_usage),
        legacy_functions=bool(decoded.functions),
        custom_tools=frozenset(
            tool.custom.name for tool in decoded.tools or () if tool.type == "custom" and tool.custom
        ),
    )


class ChatCall(Struct, frozen=True):
    """A parsed body. `stored`: the answer is to be kept.

    `legacy_functions`: the caller gave `functions`, so the answer has a `function_call`.
    `custom_tools`: the names of those tools that take free text.
    """

    request: Request
    stream: bool
    stored: bool = False
    include_usage: bool = False
    legacy_functions: bool = False
    custom_tools: frozenset[str] = frozenset()

    @property
    def completion_id(self) -> str:
        """The `id` of the answer."""
        return f"chatcmpl-{self.request.id.removeprefix('req_').replace('-', '')}"

    def encoder(self) -> "ChatEncoder":
        """Make the encoder of a streamed answer."""
        return ChatEncoder(self)

    def complete(self, result: Collected) -> bytes:
        """Give the whole body of an answer that is not streamed."""
        return _json(self.completion(result))

    def completion(self, result: Collected, created: int | None = None) -> dict[str, Any]:
        """Return the whole answer; `created`: when it was, in seconds since 1970, if that is not now."""
        return {
            "id": self.completion_id,
            "object": "chat.completion",
            "created": int(time.time()) if created is None else created,
            "model": self.request.model,
            "choices": [self._choice(index, choice) for index, choice in enumerate(result.choices)],
            "usage": usage(result.usage, result.summary),
            "service_tier": _SERVICE_TIER,
            "system_fingerprint": SYSTEM_FINGERPRINT,
            **overflow(result.summary),
        }

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": choice.text, "refusal": None}
        if choice.tool_calls and not choice.text:
            message["content"] = None
        if choice.reasoning:
            message["reasoning_content"] = message["reasoning"] = choice.reasoning
        calls = [self._tool_call(call) for call in choice.tool_calls]
        if calls and self.legacy_functions:
            message["function_call"] = calls[0]["function"]
        elif calls:
            message["tool_calls"] = calls
        asked = generation(self.request).top_logprobs is not None
        return {
            "index": index,
            "message": message,
            "logprobs": _logprobs(choice.logprobs) if asked else None,
            "finish_reason": self.finish_reason(choice.reason),
        }

    def _tool_call(self, call: ToolCall) -> dict[str, Any]:
        if call.name in self.custom_tools:
            return {
                "id": call.id,
                "type": "custom",
                "custom": {"name": call.name, "input": custom_input(call.arguments)},
            }
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}

    def finish_reason(self, reason: str) -> str:
        """Give OpenAI's word for why a choice ended."""
        return "function_call" if self.legacy_functions and reason == "tool_calls" else reason


class ChatEncoder:
    """Writes one stream of events as server-sent events.

    All of a chunk but its delta is made once: a delta costs little more than the JSON encoding of its text.
    """

    def __init__(self, call: ChatCall) -> None:
        self._call = call
        self.created = int(time.time())
        self._without_role = set(range(generation(call.request).n))
        self._without_answer = set(self._without_role)  # the choices that have neither text nor calls
        # The arguments so far of a call of a custom tool, by choice: its input is told when it is whole.
        self._custom: dict[int, tuple[int, str]] = {}
        self._begin()
        self._has_logprobs = generation(call.request).top_logprobs is not None
        self._end = b'],"usage":null}\n\n' if call.include_usage else b"]}\n\n"
        self._tail = b',"logprobs":null,"finish_reason":null}' + self._end

    def _begin(self, summary: Summary | None = None) -> None:
        """Make what all chunks begin with."""
        about = {
            "id": self._call.completion_id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self._call.request.model,
            "service_tier": _SERVICE_TIER,
            "system_fingerprint": SYSTEM_FINGERPRINT,
            **overflow(summary),
        }
        self._summary = summary
        self._start = b"data: " + _json(about)[:-1] + b',"choices":['
        choices = range(generation(self._call.request).n)
        self._heads = [self._start + b'{"index":%d,"delta":' % index for index in choices]

    def encode(self, events: Sequence[Event]) -> bytes:
        """Write the next events of the stream; empty where they show nothing."""
        return escape_line_ends(b"".join(map(self._event, events if len(events) == 1 else merge(events))))

    def unstored(self, told: bytes) -> bytes:
        """Return the end of the stream, `told`, with a chunk that says that the answer could not be stored."""
        about = self._start.removesuffix(b'"choices":[')
        return told.removesuffix(DONE) + about + b'"store":false,"choices":[' + self._end + DONE

    def _event(self, event: Event) -> bytes:
        match event:
            case Text():
                chunk = self._text(event)
            case Reasoning() if event.text:
                text = _json(event.text)
                chunk = self._delta(event.choice, b'{"reasoning_content":%b,"reasoning":%b}' % (text, text))
            case ToolStart():
                chunk = self._tool_start(event)
            case ToolArgs() if event.json:
                chunk = self._tool_args(event)
            case Finished():
                chunk = self._finished(event)
            case Failed():
                chunk = b"data: " + _json(error_body(event.error())) + b"\n\n" + DONE
            case Started(summary=Summary() as summary):
                self._begin(summary)
                chunk = b""
            case _:
                chunk = b""
        return chunk

    def _delta(self, choice: int, delta: bytes) -> bytes:
        return self._role(choice, b"null") + self._heads[choice] + delta + self._tail

    def _role(self, choice: int, content: bytes) -> bytes:
        """Write the first delta of a choice, once; its content is null but where a text follows, or nothing at all."""
        if choice not in self._without_role:
            return b""
        self._without_role.discard(choice)
        delta = b'{"role":"assistant","content":%b,"refusal":null}' % content
        return self._heads[choice] + delta + self._tail

    def _text(self, event: Text) -> bytes:
        delta = b'{"content":' + _json(event.text) + b"}"
        if self._has_logprobs and event.logprobs:
            tail = b',"logprobs":' + _json(_logprobs(event.logprobs)) + b',"finish_reason":null}' + self._end
        elif event.text:
            tail = self._tail
        else:
            return b""
        self._without_answer.discard(event.choice)
        return self._role(event.choice, b'""') + self._heads[event.choice] + delta + tail

    def _tool_start(self, event: ToolStart) -> bytes:
        self._without_answer.discard(event.choice)
        function = {"name": event.name, "arguments": ""}
        if self._call.legacy_functions:
            return self._delta(event.choice, _json({"function_call": function})) if event.index == 0 else b""
        before = self._custom_input(event.choice)
        call: dict[str, Any] = {"index": event.index, "id": event.id}
        if event.name in self._call.custom_tools:
            self._custom[event.choice] = event.index, ""
            call |= {"type": "custom", "custom": {"name": event.name, "input": ""}}
        else:
            call |= {"type": "function", "function": function}
        return before + self._delta(event.choice, _json({"tool_calls": [call]}))

    def _custom_input(self, choice: int) -> bytes:
        """Write the input of the call of a custom tool that is complete now, if there is one."""
        if choice not in self._custom:
            return b""
        index, arguments = self._custom.pop(choice)
        return self._delta(
            choice, _json({"tool_calls": [{"index": index, "custom": {"input": custom_input(arguments)}}]})
        )

    def _tool_args(self, event: ToolArgs) -> bytes:
        function = b'{"arguments":' + _json(event.json) + b"}"
        if self._call.legacy_functions:
            return self._delta(event.choice, b'{"function_call":' + function + b"}") if event.index == 0 else b""
        if event.choice in self._custom:
            self._custom[event.choice] = event.index, self._custom[event.choice][1] + event.json
            return b""
        return self._delta(event.choice, b'{"tool_calls":[{"index":%d,"function":%b}]}' % (event.index, function))

    def _finished(self, event: Finished) -> bytes:
        chunks = []
        for choice, reason in enumerate(event.reasons):
            finish = b',"logprobs":null,"finish_reason":' + _json(self._call.finish_reason(reason)) + b"}"
            role = self._role(choice, b'""')
            # Where there was nothing but thinking, the content was null so far.
            delta = b'{"content":""}' if choice in self._without_answer and not role else b"{}"
            chunks.append(self._custom_input(choice) + role + self._heads[choice] + delta + finish + self._end)
        if self._call.include_usage:
            chunks.append(self._start + b'],"usage":' + _json(usage(event.usage, self._summary)) + b"}\n\n")
        return b"".join(chunks) + DONE


def _logprobs(logprobs: Iterable[Logprob]) -> dict[str, Any]:
    content = [{**_token(drawn.token), "top_logprobs": [_token(token) for token in drawn.top]} for drawn in logprobs]
    return {"content": content, "refusal": None}


def _token(token: TokenLogprob) -> dict[str, Any]:
    return {"token": token_text(token), "logprob": logprob(token), "bytes": list(token.bytes)}
