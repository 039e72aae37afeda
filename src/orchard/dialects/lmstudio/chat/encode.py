"""Encode chats: https://lmstudio.ai/docs/developer/rest/streaming-events.

The events are named, and the last one repeats the whole answer.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchard.core import events
from orchard.core.request import Request
from orchard.core.tasks.generate import generate_task
from orchard.dialects.common.output import escape_line_ends
from orchard.dialects.lmstudio.errors import lmstudio_error_body, rename_field
from orchard.dialects.lmstudio.speed import Speed, measure_speed

Fields = dict[str, Any]

_PROGRESS_SECONDS = 1.0
_json = msgspec.json.Encoder().encode


class LMStudioChat(Struct, frozen=True, kw_only=True):
    """A parsed body. `response_body`: the same request as a body of OpenAI's Responses; the other fields go beyond it.

    `reasoning`: "off", "on", how hard the model thinks, or None. `window`: the most tokens of prompt and answer
    together; None: the model's context window. `keeps_instructions`: the system prompt of the conversation stays.
    """

    stream: bool
    stored: bool
    reasoning: str | None
    window: int | None
    keeps_instructions: bool
    response_body: bytes

    @property
    def thinks(self) -> bool:
        """Whether the model is asked to think."""
        return self.reasoning not in (None, "off")

    def limit(self, request: Request) -> Request:
        """Return the request that was made of `response_body`, with what only this API has.

        The conversation is on the server, so its caller can't shorten it: it loses its oldest messages.
        """
        task = replace(generate_task(request), window=self.window, hide_reasoning=self.reasoning == "off")
        return replace(request, task=task, overflow="drop")


class ChatProgress(Struct, frozen=True):
    """How far an answer is before its first token: shares are from 0 to 1, or None while they are not known.

    `load_seconds` returns how long the model's load took, once the answer has begun; None: it was loaded before.
    """

    load_seconds: Callable[[], float | None] | None
    load_share: Callable[[], float | None]
    prompt_share: Callable[[], Awaitable[float | None]]


class LMStudioChatEncoder:
    """Encodes one stream of events, and has the whole answer at its end.

    `model` is the id of the model. `begun_at`: the monotonic clock's time when the request came.
    """

    def __init__(self, model: str, begun_at: float, progress: ChatProgress) -> None:
        self._model = {"model_instance_id": model}
        self._begun_at = begun_at
        self._progress = progress
        self._last_share: float | None = None
        self._loaded_in: float | None = None
        self._is_open = False
        self._reads_prompt: bool | None = None  # None: the answer has not begun
        self._items: list[tuple[str, list[str]]] = []
        self._used = events.Usage(0, 0)
        self._speed = Speed(0.0, None, 0.0)

    def encode(self, new: Sequence[events.Event]) -> bytes:
        """Return the server-sent events for the next events, without the last one; empty if there are none."""
        return b"".join(_encode_sse(kind, fields) for event in events.merge(new) for kind, fields in self._read(event))

    def finish(self, response_id: str | None) -> bytes:
        """Return the last event; `response_id` is the id of the stored answer, None: it is not stored."""
        return _encode_sse("chat.end", {"result": self._result(response_id)})

    def complete(self, response_id: str | None) -> bytes:
        """Return the body of a non-streamed response."""
        return _json(self._result(response_id))

    @property
    def progress_seconds(self) -> float | None:
        """After so many seconds without events, the stream says how far it is; None: there is nothing to say."""
        is_loading = self._reads_prompt is None and self._progress.load_seconds is not None
        return _PROGRESS_SECONDS if is_loading or self._reads_prompt else None

    async def report_progress(self) -> bytes:
        """Return the server-sent events that say how far the load or the prompt is; empty if there is nothing new."""
        if self.progress_seconds is None:
            return b""
        share = await self._progress.prompt_share() if self._reads_prompt else self._progress.load_share()
        return b"".join(_encode_sse(kind, fields) for kind, fields in self._tell_progress(share))

    def _tell_progress(self, share: float | None) -> Iterator[tuple[str, Fields]]:
        yield from self._open()
        if share is not None and share != self._last_share:
            self._last_share = share
            stage, named = ("prompt_processing", {}) if self._reads_prompt else ("model_load", self._model)
            yield f"{stage}.progress", {**named, "progress": share}

    def _read(self, event: events.Event) -> Iterator[tuple[str, Fields]]:
        match event:
            case events.Started():
                yield from self._begin()
            case events.Text(text) if text:
                yield from self._add("message", text)
            case events.Reasoning(text) if text:
                yield from self._add("reasoning", text)
            case events.Finished():
                self._used, self._speed = event.usage, measure_speed(event, self._begun_at)
                yield from self._end_item()
            case events.Failed():
                yield from self._open()
                yield from self._end_item()
                yield "error", lmstudio_error_body(rename_field(event.error()))

    def _open(self) -> Iterator[tuple[str, Fields]]:
        """Begin the stream, and the load that it waits for."""
        if not self._is_open:
            self._is_open = True
            yield "chat.start", self._model
            if self._progress.load_seconds:
                yield "model_load.start", self._model

    def _begin(self) -> Iterator[tuple[str, Fields]]:
        yield from self._open()
        if self._progress.load_seconds:
            self._loaded_in = self._progress.load_seconds() or 0.0
            yield "model_load.end", {**self._model, "load_time_seconds": self._loaded_in}
        self._reads_prompt, self._last_share = True, None
        yield "prompt_processing.start", {}

    def _add(self, kind: str, text: str) -> Iterator[tuple[str, Fields]]:
        if not self._items or self._items[-1][0] != kind:
            yield from self._end_item()
            self._items.append((kind, []))
            yield f"{kind}.start", {}
        self._items[-1][1].append(text)
        yield f"{kind}.delta", {"content": text}

    def _end_item(self) -> Iterator[tuple[str, Fields]]:
        """End what comes before an item, or before the end: the prompt, or another item."""
        if self._reads_prompt:
            self._reads_prompt = False
            yield "prompt_processing.end", {}
        elif self._items:
            yield f"{self._items[-1][0]}.end", {}

    def _result(self, response_id: str | None) -> Fields:
        stats = {
            "input_tokens": self._used.prompt_tokens,
            "total_output_tokens": self._used.completion_tokens,
            "reasoning_output_tokens": self._used.reasoning_tokens,
            "tokens_per_second": self._speed.tokens_per_second,
            "time_to_first_token_seconds": self._speed.first_token,
        }
        if self._loaded_in is not None:
            stats["model_load_time_seconds"] = self._loaded_in
        output = [{"type": kind, "content": "".join(pieces)} for kind, pieces in self._items]
        told = {**self._model, "output": output, "stats": stats}
        return told if response_id is None else {**told, "response_id": response_id}


def _encode_sse(kind: str, fields: Fields) -> bytes:
    return escape_line_ends(b"event: %b\ndata: %b\n\n" % (kind.encode(), _json({"type": kind, **fields})))
