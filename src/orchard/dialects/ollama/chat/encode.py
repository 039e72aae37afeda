"""Encode a chat: turn events into lines of JSON, or into one whole answer."""

from collections.abc import Sequence

import msgspec

from orchard.core import events
from orchard.core.tasks.generate import generate_task
from orchard.dialects.common.output import escape_line_ends
from orchard.dialects.ollama.errors import ollama_error_body
from orchard.dialects.ollama.output import (
    LINE_TYPE,
    AnswerCall,
    Fields,
    call_fields,
    done_reason,
    line,
    logprob_fields,
)

_json = msgspec.json.Encoder().encode


class OllamaChatCall(AnswerCall, frozen=True, kw_only=True):
    """A parsed body."""

    def complete(self, result: events.Collected) -> bytes:
        """Return the body of a non-streamed response."""
        (choice,) = result.choices
        message: Fields = {"role": "assistant", "content": choice.text}
        if choice.reasoning:
            message["thinking"] = choice.reasoning
        if choice.tool_calls:
            message["tool_calls"] = [call_fields(index, call) for index, call in enumerate(choice.tool_calls)]
        end: Fields = {"done": True, "done_reason": done_reason(choice.reason), **self.statistics(result.end)}
        if generate_task(self.request).top_logprobs is not None:
            end["logprobs"] = logprob_fields(choice.logprobs)
        return _json({**self.head(), "message": message, **end})

    def report_load(self, reason: str) -> bytes:
        """Return the answer to a request that only loads or unloads the model."""
        message = {"role": "assistant", "content": ""}
        return _json({**self.head(), "message": message, "done": True, "done_reason": reason})


class OllamaChatEncoder:
    """Encodes one stream of events as lines. A call is sent when it is complete."""

    line_type = LINE_TYPE

    def __init__(self, call: OllamaChatCall) -> None:
        self._call = call
        self._index = 0
        self._called: events.ToolCall | None = None

    def encode(self, new: Sequence[events.Event]) -> bytes:
        """Return the lines for the next events; empty if there are none."""
        return escape_line_ends(b"".join(map(self._encode_event, events.merge(new))))

    def keep_alive(self) -> bytes:
        """Return a space, which JSON allows before a value."""
        return b" "

    def _encode_event(self, event: events.Event) -> bytes:
        if isinstance(event, events.ToolArgs) and self._called:
            self._called.arguments += event.json
            return b""
        written = self._encode_call()
        match event:
            case events.ToolStart():
                self._called = events.ToolCall(event.id, event.name)
            case events.Text(text, _, drawn) if text or drawn:
                more = {"logprobs": logprob_fields(drawn)} if drawn else {}
                written += self._encode_piece({"content": text}, more)
            case events.Reasoning(text) if text:
                written += self._encode_piece({"content": "", "thinking": text})
            case events.Finished(reasons):
                message = {"role": "assistant", "content": ""}
                end = {"done": True, "done_reason": done_reason(reasons[0]), **self._call.statistics(event)}
                written += line({**self._call.head(), "message": message, **end})
            case events.Failed():
                written += line(dict(ollama_error_body(event.error())))
        return written

    def _encode_call(self) -> bytes:
        """Return the line of the call that is now complete; empty if there is none."""
        if self._called is None:
            return b""
        fields, self._called = call_fields(self._index, self._called), None
        self._index += 1
        return self._encode_piece({"content": "", "tool_calls": [fields]})

    def _encode_piece(self, message: Fields, more: Fields | None = None) -> bytes:
        return line({**self._call.head(), "message": {"role": "assistant", **message}, "done": False, **(more or {})})
