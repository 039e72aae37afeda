"""Encode Anthropic's Messages: turn events into server-sent events, or into one whole message."""

import base64
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchard.core import events
from orchard.core.request import Request
from orchard.core.tasks.generate import generate_task
from orchard.dialects.anthropic.errors import anthropic_error_body
from orchard.dialects.common.output import escape_line_ends, hex_id

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
_json = msgspec.json.Encoder().encode


def token_count(result: events.Collected) -> bytes:
    """Return the response body for a request to count tokens."""
    return _json({"input_tokens": result.usage.prompt_tokens})


class MessagesCall(Struct, frozen=True):
    """A parsed body.

    `omits_thinking`: thinking blocks of the answer are empty. `warms_up`: only cache the prompt, and answer with an
    empty message. `unserved_tools`: the types of tools that are left out.
    """

    request: Request
    stream: bool
    omits_thinking: bool = False
    warms_up: bool = False
    unserved_tools: tuple[str, ...] = ()

    def complete(self, result: events.Collected) -> bytes:
        """Return the body of a non-streamed response."""
        (choice,) = result.choices
        content = [] if self.warms_up else self._content_blocks(choice)
        stop = self.stop_fields(choice.reason, choice.stop, result.usage)
        return _json(self.message(content, stop, result.usage, result.summary))

    def message(
        self, content: list[Any], stop: dict[str, str | None], used: events.Usage, summary: events.Summary | None = None
    ) -> dict[str, Any]:
        """Return a message as it is at its end or, if `content` is empty and `summary` None, at its start."""
        return {
            "id": f"msg_{hex_id(self.request.id)}",
            "type": "message",
            "role": "assistant",
            "model": self.request.model,
            "content": content,
            **stop,
            **_edit_fields(summary),
            "usage": {
                **self.usage_fields(used, summary),
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
                "service_tier": "standard",
            },
        }

    def stop_fields(self, reason: str, stop: str | None, used: events.Usage) -> dict[str, str | None]:
        """Return the fields that say why the answer ended."""
        if self.warms_up:  # whatever ended the answer, whose only token is not shown
            return {"stop_reason": "max_tokens", "stop_sequence": None}
        limit = generate_task(self.request).max_tokens
        if stop is not None:
            reason = "stop_sequence"
        elif reason == "length" and (limit is None or used.completion_tokens < limit):
            reason = "model_context_window_exceeded"
        else:
            reason = _STOP_REASONS[reason]
        return {"stop_reason": reason, "stop_sequence": stop}

    def usage_fields(self, used: events.Usage, summary: events.Summary | None = None) -> dict[str, Any]:
        """Return the usage; as in Anthropic's API, `input_tokens` excludes cached tokens.

        The tokens of a summary of older messages are an iteration of their own, and not part of the other counts. The
        single token that is generated for a warm-up is not counted.
        """
        if self.warms_up:
            used = replace(used, completion_tokens=0, reasoning_tokens=0)
        counts = _token_counts(used.prompt_tokens - used.cached_tokens, used.cached_tokens, used.completion_tokens)
        found = {**counts, "output_tokens_details": {"thinking_tokens": used.reasoning_tokens}}
        if summary and summary.prompt_tokens:
            spent = {"type": "compaction", **_token_counts(summary.prompt_tokens, 0, summary.completion_tokens)}
            found["iterations"] = [spent, {"type": "message", **counts}]
        return found

    @property
    def signature(self) -> str:
        """The signature that clients expect of a thinking block; it is ignored when it is sent back."""
        return base64.b64encode(f"orchard {self.request.id}".encode()).decode()

    def _content_blocks(self, choice: events.Choice) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        for part in choice.parts:
            match part:
                case events.Reasoning(thinking):
                    if not content or content[-1]["type"] != "thinking":
                        content.append({"type": "thinking", "thinking": "", "signature": self.signature})
                    content[-1]["thinking"] += "" if self.omits_thinking else thinking
                case events.Text(text) if text.strip():
                    content.append({"type": "text", "text": text})
                case events.ToolCall():
                    content.append(_tool_use_block(part.id, part.name, _tool_input(part)))
        return content


class MessagesEncoder:
    """Encodes one stream of events as server-sent events.

    A block is closed before the next one opens. The arguments of a call follow its start, with nothing in between.
    """

    def __init__(self, call: MessagesCall) -> None:
        self._call = call
        self._started = False
        self._summary: events.Summary | None = None
        self._open_type: str | None = None  # the type of the open block
        self._index = -1  # the index of the open block, or of the last one
        self._held = ""  # leading white space of a text; white space alone makes no block

    def encode(self, new: Sequence[events.Event]) -> bytes:
        """Return the server-sent events for the next events; empty if there are none."""
        return escape_line_ends(b"".join(map(self._encode_event, events.merge(new))))

    def keep_alive(self) -> bytes:
        """Return what to send while there are no events: a comment before the message starts, then a ping event."""
        return _encode_sse({"type": "ping"}) if self._started else b": keep-alive\n\n"

    def _encode_event(self, event: events.Event) -> bytes:
        if isinstance(event, events.Failed):
            return _encode_sse(anthropic_error_body(event.error(), self._call.request.id))
        if isinstance(event, events.Started):
            self._summary = event.summary
            return self._encode_start(events.Usage(event.prompt_tokens, 0, 0, event.cached_tokens))
        written = b"" if self._started else self._encode_start(events.Usage(0, 0))
        match event:
            case events.Finished():
                written += self._encode_finish(event)
            case _ if self._call.warms_up:
                pass
            case events.Text():
                written += self._encode_text(event.text)
            case events.Reasoning() if event.text:
                written += self._encode_thinking(event.text)
            case events.ToolStart():
                written += self._open_block("tool_use", _tool_use_block(event.id, event.name, {}))
            case events.ToolArgs() if event.json:
                written += self._encode_delta({"type": "input_json_delta", "partial_json": event.json})
        return written

    def _encode_start(self, used: events.Usage) -> bytes:
        self._started = True
        message = self._call.message([], {"stop_reason": None, "stop_sequence": None}, used)
        return _encode_sse({"type": "message_start", "message": message}) + _encode_sse({"type": "ping"})

    def _encode_text(self, text: str) -> bytes:
        if self._open_type == "text":
            return self._encode_delta({"type": "text_delta", "text": text}) if text else b""
        text = self._held + text
        if not text.strip():
            self._held = text
            return b""
        return self._open_block("text", {"type": "text", "text": ""}) + self._encode_delta(
            {"type": "text_delta", "text": text}
        )

    def _encode_thinking(self, text: str) -> bytes:
        written, self._held = b"", ""
        if self._open_type != "thinking":
            written = self._open_block("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        if self._call.omits_thinking:
            return written
        return written + self._encode_delta({"type": "thinking_delta", "thinking": text})

    def _open_block(self, kind: str, block: dict[str, Any]) -> bytes:
        closed = self._close_block()
        self._open_type, self._index = kind, self._index + 1
        return closed + _encode_sse({"type": "content_block_start", "index": self._index, "content_block": block})

    def _encode_delta(self, delta: dict[str, str]) -> bytes:
        return _encode_sse({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close_block(self) -> bytes:
        self._held = ""
        if self._open_type is None:
            return b""
        signed = b""
        if self._open_type == "thinking":
            signed = self._encode_delta({"type": "signature_delta", "signature": self._call.signature})
        self._open_type = None
        return signed + _encode_sse({"type": "content_block_stop", "index": self._index})

    def _encode_finish(self, event: events.Finished) -> bytes:
        stop = self._call.stop_fields(event.reasons[0], event.stops[0] if event.stops else None, event.usage)
        used = self._call.usage_fields(event.usage, self._summary)
        end = {"type": "message_delta", "delta": stop, **_edit_fields(self._summary), "usage": used}
        return self._close_block() + _encode_sse(end) + _encode_sse({"type": "message_stop"})


def _token_counts(read: int, cached: int, written: int) -> dict[str, Any]:
    return {
        "input_tokens": read,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": written,
    }


def _edit_fields(summary: events.Summary | None) -> dict[str, Any]:
    """Return the field with the number of messages that a summary replaced; empty without a summary."""
    if summary is None:
        return {}
    edit = {"type": "summarize_messages", "summarized_messages": summary.messages}
    return {"context_management": {"applied_edits": [edit]}}


def _encode_sse(event: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), _json(event))


def _tool_use_block(call_id: str, name: str, input_: Any) -> dict[str, Any]:
    # Some models make their own ids, such as `functions.add:0`, with characters that Anthropic's ids never have.
    own = re.sub("^call_", "toolu_", _NOT_IN_IDS.sub("_", call_id))
    return {"type": "tool_use", "id": own, "name": name, "input": input_}


def _tool_input(call: events.ToolCall) -> Any:
    """Return the arguments as the model wrote them; wrap text that is not a JSON object, as Anthropic documents."""
    arguments = call.arguments.strip() or "{}"
    try:
        msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return {"INVALID_JSON": call.arguments}
    return msgspec.Raw(arguments.encode())
