"""Encode OpenAI's Chat Completions: turn events into chunks, or into one whole completion."""

import time
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from orchard.core import events
from orchard.core.request import Request
from orchard.core.tasks.generate import generate_task
from orchard.dialects.common.output import escape_line_ends, hex_id
from orchard.dialects.openai.chat.audio import SECONDS, ChatAudio, sound_delta
from orchard.dialects.openai.output import (
    DONE,
    SYSTEM_FINGERPRINT,
    ChunkFrame,
    Fields,
    failed_chunk,
    logprob_entries,
    overflow_fields,
    usage_fields,
)
from orchard.dialects.openai.tools import custom_input

_json = msgspec.json.Encoder().encode


class ChatCall(Struct, frozen=True):
    """A parsed body. `stored`: the answer is stored. `audio`: how it is spoken; None: it isn't.

    `legacy_functions`: the caller gave `functions`, so a call is a `function_call`. `custom_tools`: the names of the
    tools that take free text.
    """

    request: Request
    stream: bool
    stored: bool = False
    audio: ChatAudio | None = None
    include_usage: bool = False
    legacy_functions: bool = False
    custom_tools: frozenset[str] = frozenset()

    @property
    def completion_id(self) -> str:
        """The `id` of the answer."""
        return f"chatcmpl-{hex_id(self.request.id)}"

    def common_fields(self, kind: str, created: int, summary: events.Summary | None) -> Fields:
        """Return the fields that describe the answer, which each chunk repeats."""
        return {
            "id": self.completion_id,
            "object": kind,
            "created": created,
            "model": self.request.model,
            "service_tier": "default",
            "system_fingerprint": SYSTEM_FINGERPRINT,
            **overflow_fields(summary),
        }

    def complete(self, result: events.Collected) -> bytes:
        """Return the body of a non-streamed response."""
        return _json(self.completion(result))

    def completion(self, result: events.Collected, created: int | None = None) -> Fields:
        """Return the whole answer; `created` is its time in seconds since the epoch, now by default."""
        created = int(time.time()) if created is None else created
        return {
            **self.common_fields("chat.completion", created, result.summary),
            "choices": [
                self._choice_fields(index, choice, result.outputs, created)
                for index, choice in enumerate(result.choices)
            ],
            "usage": usage_fields(result.usage, result.summary),
        }

    def _choice_fields(
        self, index: int, choice: events.Choice, sounds: Sequence[events.Output], created: int
    ) -> Fields:
        message: Fields = {"role": "assistant", "content": choice.text, "refusal": None}
        if choice.tool_calls and not choice.text:
            message["content"] = None
        if self.audio:
            message["content"] = None
            message["audio"] = self.audio.fields(choice.text, sounds, created) if choice.text else None
        if choice.reasoning:
            message["reasoning_content"] = message["reasoning"] = choice.reasoning
        calls = [self._tool_call_fields(call) for call in choice.tool_calls]
        if calls and self.legacy_functions:
            message["function_call"] = calls[0]["function"]
        elif calls:
            message["tool_calls"] = calls
        asked = generate_task(self.request).top_logprobs is not None
        return {
            "index": index,
            "message": message,
            "logprobs": {"content": logprob_entries(choice.logprobs), "refusal": None} if asked else None,
            "finish_reason": self.finish_reason(choice.reason),
        }

    def _tool_call_fields(self, call: events.ToolCall) -> Fields:
        if call.name in self.custom_tools:
            custom = {"name": call.name, "input": custom_input(call.arguments)}
            return {"id": call.id, "type": "custom", "custom": custom}
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}

    def finish_reason(self, reason: str) -> str:
        """Return OpenAI's word for why a choice ended."""
        return "function_call" if self.legacy_functions and reason == "tool_calls" else reason


class ChatEncoder:
    """Encodes one stream of events as server-sent events.

    All parts of a chunk except its delta are encoded only once, so a chunk costs little more than encoding its text.
    """

    def __init__(self, call: ChatCall) -> None:
        self._call = call
        self.created = int(time.time())
        self._without_role = set(range(call.request.task.choices))
        self._without_answer = set(self._without_role)  # choices that have no text and no calls so far
        # By choice: the index and the arguments so far of a custom tool's call. Its input is sent when it is complete.
        self._custom: dict[int, tuple[int, str]] = {}
        self._has_logprobs = generate_task(call.request).top_logprobs is not None
        self._first_content = None if call.audio else ""
        self._has_audio = False
        self._encode_common_fields()

    def _encode_common_fields(self, summary: events.Summary | None = None) -> None:
        """Encode what all chunks share."""
        about = self._call.common_fields("chat.completion.chunk", self.created, summary)
        self._summary = summary
        self._frame = ChunkFrame(about, include_usage=self._call.include_usage)
        self._end = self._frame.tail
        self._tail = b',"logprobs":null,"finish_reason":null}' + self._end
        choices = range(self._call.request.task.choices)
        self._heads = [self._frame.head + b'{"index":%d,"delta":' % index for index in choices]

    def encode(self, new: Sequence[events.Event]) -> bytes:
        """Return the server-sent events for the next events; empty if there are none."""
        return escape_line_ends(b"".join(map(self._encode_event, events.merge(new))))

    def mark_unstored(self, told: bytes) -> bytes:
        """Return `told`, the end of the stream, with a further chunk that says that the answer could not be stored."""
        about = self._frame.head.removesuffix(b'"choices":[')
        return told.removesuffix(DONE) + about + b'"store":false,"choices":[' + self._end + DONE

    def _encode_event(self, event: events.Event) -> bytes:
        chunk = b""
        match event:
            # Fast path: nearly all chunks are of this kind.
            case events.Text() if event.text and not (
                event.choice in self._without_role or self._has_logprobs or self._call.audio
            ):
                self._without_answer.discard(event.choice)
                chunk = self._heads[event.choice] + b'{"content":' + _json(event.text) + b"}" + self._tail
            case events.Text(text, choice, drawn):
                shown = {"content": logprob_entries(drawn), "refusal": None} if self._has_logprobs and drawn else None
                if text or shown:
                    self._without_answer.discard(choice)
                    delta = self._transcript_delta(text) if self._call.audio else {"content": text}
                    chunk = self._encode_delta(choice, delta, first=self._first_content, logprobs=shown)
            case events.Output():
                chunk = self._encode_delta(event.choice, {"audio": sound_delta(event)})
            case events.Reasoning(text, choice) if text:
                chunk = self._encode_delta(choice, {"reasoning_content": text, "reasoning": text})
            case events.ToolStart():
                chunk = self._encode_tool_start(event)
            case events.ToolArgs() if event.json:
                chunk = self._encode_tool_args(event)
            case events.Finished(reasons, used):
                ends = b"".join(self._encode_end(choice, reason) for choice, reason in enumerate(reasons))
                chunk = ends + self._frame.end(used, self._summary)
            case events.Failed():
                chunk = failed_chunk(event)
            case events.Started(summary=events.Summary() as summary):
                self._encode_common_fields(summary)
        return chunk

    def _transcript_delta(self, text: str) -> Fields:
        """Return what a piece of text adds to a spoken answer, whose first delta has the id."""
        assert self._call.audio
        begin = {} if self._has_audio else {"id": self._call.audio.id}
        self._has_audio = True
        return {"audio": begin | {"transcript": text}}

    def _encode_delta(
        self, choice: int, delta: Fields, *, first: str | None = None, logprobs: Fields | None = None, reason: str = ""
    ) -> bytes:
        """Return a chunk. Before the first one of a choice, add one with the role, whose content is `first`."""
        head, tail, role = self._heads[choice], self._tail, b""
        if choice in self._without_role:
            self._without_role.discard(choice)
            role = head + _json({"role": "assistant", "content": first, "refusal": None}) + tail
        if logprobs or reason:
            tail = b',"logprobs":%b,"finish_reason":%b}' % (_json(logprobs), _json(reason or None)) + self._end
        return role + head + _json(delta) + tail

    def _encode_tool_start(self, event: events.ToolStart) -> bytes:
        self._without_answer.discard(event.choice)
        function = {"name": event.name, "arguments": ""}
        if self._call.legacy_functions:
            return self._encode_delta(event.choice, {"function_call": function}) if event.index == 0 else b""
        before = self._encode_custom_input(event.choice)
        call: Fields = {"index": event.index, "id": event.id}
        if event.name in self._call.custom_tools:
            self._custom[event.choice] = event.index, ""
            call |= {"type": "custom", "custom": {"name": event.name, "input": ""}}
        else:
            call |= {"type": "function", "function": function}
        return before + self._encode_delta(event.choice, {"tool_calls": [call]})

    def _encode_custom_input(self, choice: int) -> bytes:
        """Return a chunk with the input of the custom tool's call that is now complete; empty if there is none."""
        if choice not in self._custom:
            return b""
        index, arguments = self._custom.pop(choice)
        call = {"index": index, "custom": {"input": custom_input(arguments)}}
        return self._encode_delta(choice, {"tool_calls": [call]})

    def _encode_tool_args(self, event: events.ToolArgs) -> bytes:
        function = {"arguments": event.json}
        if self._call.legacy_functions:
            return self._encode_delta(event.choice, {"function_call": function}) if event.index == 0 else b""
        if event.choice in self._custom:
            self._custom[event.choice] = event.index, self._custom[event.choice][1] + event.json
            return b""
        return self._encode_delta(event.choice, {"tool_calls": [{"index": event.index, "function": function}]})

    def _encode_end(self, choice: int, reason: str) -> bytes:
        before = self._encode_custom_input(choice)
        if self._has_audio:
            before += self._encode_delta(choice, {"audio": {"expires_at": self.created + SECONDS}})
        # If the choice has only reasoning, its content has been null so far.
        is_null = choice in self._without_answer and choice not in self._without_role
        delta = {"content": ""} if is_null and not self._call.audio else {}
        return before + self._encode_delta(
            choice, delta, first=self._first_content, reason=self._call.finish_reason(reason)
        )
