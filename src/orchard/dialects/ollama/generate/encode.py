"""Encode an answer to a prompt: turn events into lines of JSON, or into one whole answer."""

from collections.abc import Sequence

import msgspec

from orchard.core import events
from orchard.core.tasks.generate import generate_task
from orchard.dialects.common.output import escape_line_ends
from orchard.dialects.ollama.errors import ollama_error_body
from orchard.dialects.ollama.generate.context import write_context
from orchard.dialects.ollama.output import LINE_TYPE, AnswerCall, Fields, done_reason, line, logprob_fields

_json = msgspec.json.Encoder().encode


class GenerateCall(AnswerCall, frozen=True, kw_only=True):
    """A parsed body."""

    def complete(self, result: events.Collected) -> bytes:
        """Return the body of a non-streamed response."""
        (choice,) = result.choices
        fields: Fields = {**self.head(), "response": choice.text}
        if choice.reasoning:
            fields["thinking"] = choice.reasoning
        fields |= {"done": True, "done_reason": done_reason(choice.reason)}
        fields |= {**self.context_fields(choice.text), **self.statistics(result.end)}
        if generate_task(self.request).top_logprobs is not None:
            fields["logprobs"] = logprob_fields(choice.logprobs)
        return _json(fields)

    def context_fields(self, answer: str) -> Fields:
        """Return the field with which the conversation can be continued; empty for a raw prompt."""
        task = generate_task(self.request)
        context = write_context(task.messages, answer) if task.prompt is None else None
        return {} if context is None else {"context": context}

    def report_load(self, reason: str) -> bytes:
        """Return the answer to a request that only loads or unloads the model."""
        return _json({**self.head(), "response": "", "done": True, "done_reason": reason})


class GenerateEncoder:
    """Encodes one stream of events as lines."""

    line_type = LINE_TYPE

    def __init__(self, call: GenerateCall) -> None:
        self._call = call
        self._answer: list[str] = []

    def encode(self, new: Sequence[events.Event]) -> bytes:
        """Return the lines for the next events; empty if there are none."""
        return escape_line_ends(b"".join(map(self._encode_event, events.merge(new))))

    def keep_alive(self) -> bytes:
        """Return a space, which JSON allows before a value."""
        return b" "

    def _encode_event(self, event: events.Event) -> bytes:
        match event:
            case events.Text(text, _, drawn) if text or drawn:
                self._answer.append(text)
                more = {"logprobs": logprob_fields(drawn)} if drawn else {}
                return line({**self._call.head(), "response": text, "done": False, **more})
            case events.Reasoning(text) if text:
                return line({**self._call.head(), "response": "", "thinking": text, "done": False})
            case events.Finished(reasons):
                end = {"done": True, "done_reason": done_reason(reasons[0])}
                end |= {**self._call.context_fields("".join(self._answer)), **self._call.statistics(event)}
                return line({**self._call.head(), "response": "", **end})
            case events.Failed():
                return line(dict(ollama_error_body(event.error())))
        return b""
