"""The items of a response while they are generated: messages, reasoning and calls."""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Literal

import msgspec

from orchard.core.events import Logprob, Summary, Usage
from orchard.dialects.openai.output import Fields, logprob_entries
from orchard.dialects.openai.responses.seal import seal_reasoning
from orchard.dialects.openai.responses.tools import ServedTool
from orchard.dialects.openai.tools import custom_input

_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_HEAD_CHARS = 64
# Complete characters of a JSON string; surrogate pairs need both halves.
_CHARACTERS = re.compile(
    r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*"
)
_CHARACTER_CHARS = 12
_entries = partial(logprob_entries, named=True)

ItemEvents = Iterator[tuple[str, Fields]]
"""Types of events, without `response.`, and their fields, without those that all events of an item share."""


class _StreamedItem:
    """An item that is written piece by piece."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.status: Literal["in_progress", "completed", "incomplete"] = "in_progress"
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def begin(self) -> ItemEvents:
        """Yield the events after `output_item.added`; none by default."""
        yield from ()


class MessageItem(_StreamedItem):
    """What the model says."""

    def __init__(self, id_: str) -> None:
        super().__init__(id_)
        self._logprobs: list[Logprob] = []

    def begin(self) -> ItemEvents:
        """Begin the only part of a message."""
        yield "content_part.added", {"content_index": 0, "part": _text_part("", ())}

    def add(self, text: str, logprobs: tuple[Logprob, ...]) -> ItemEvents:
        """Add to the text."""
        self._pieces.append(text)
        self._logprobs += logprobs
        yield "output_text.delta", {"content_index": 0, "delta": text, "logprobs": _entries(logprobs, with_bytes=False)}

    def end(self) -> ItemEvents:
        """Yield the events before `output_item.done`."""
        logprobs = _entries(self._logprobs, with_bytes=False)
        yield "output_text.done", {"content_index": 0, "text": self.text, "logprobs": logprobs}
        yield "content_part.done", {"content_index": 0, "part": _text_part(self.text, self._logprobs)}

    def snapshot(self) -> Fields:
        """Return the message so far; it has no part before `begin`."""
        begun = self._pieces or self.status != "in_progress"
        content = [_text_part(self.text, self._logprobs)] if begun else []
        return {"id": self.id, "type": "message", "status": self.status, "role": "assistant", "content": content}


class ReasoningItem(_StreamedItem):
    """The model's reasoning. `summary`: show it as a summary, too; `sealed`: add it as `encrypted_content`."""

    def __init__(self, id_: str, *, summary: bool, sealed: bool) -> None:
        super().__init__(id_)
        self._summary = summary
        self._sealed = sealed

    def begin(self) -> ItemEvents:
        """Begin the part of the content and, if requested, that of the summary."""
        yield "content_part.added", {"content_index": 0, "part": _reasoning_part("reasoning_text", "")}
        if self._summary:
            yield "reasoning_summary_part.added", {"summary_index": 0, "part": _reasoning_part("summary_text", "")}

    def add(self, text: str) -> ItemEvents:
        """Add to the reasoning."""
        self._pieces.append(text)
        yield "reasoning_text.delta", {"content_index": 0, "delta": text}
        if self._summary:
            yield "reasoning_summary_text.delta", {"summary_index": 0, "delta": text}

    def end(self) -> ItemEvents:
        """End the parts."""
        text = self.text
        yield "reasoning_text.done", {"content_index": 0, "text": text}
        yield "content_part.done", {"content_index": 0, "part": _reasoning_part("reasoning_text", text)}
        if self._summary:
            yield "reasoning_summary_text.done", {"summary_index": 0, "text": text}
            yield "reasoning_summary_part.done", {"summary_index": 0, "part": _reasoning_part("summary_text", text)}

    def snapshot(self) -> Fields:
        """Return the reasoning."""
        text = self.text
        item: Fields = {"id": self.id, "type": "reasoning", "status": self.status, "summary": [], "content": []}
        if text:
            item["content"] = [_reasoning_part("reasoning_text", text)]
            if self._summary:
                item["summary"] = [_reasoning_part("summary_text", text)]
        if self._sealed:
            item["encrypted_content"] = seal_reasoning(text) if self.status != "in_progress" else None
        return item


class CallItem(_StreamedItem):
    """A call of a function, or of a custom tool, whose input is a string within the arguments."""

    def __init__(self, id_: str, call_id: str, served: ServedTool) -> None:
        super().__init__(id_)
        self._call_id = call_id
        self._tool = served
        self._input = _InputReader()
        self._sent_input = ""  # the part of a custom tool's input that was sent

    def add(self, piece: str) -> ItemEvents:
        """Add to the arguments."""
        self._pieces.append(piece)
        if self._tool.kind == "function":
            yield "function_call_arguments.delta", {"delta": piece}
        elif text := self._input.read(piece):
            self._sent_input += text
            yield "custom_tool_call_input.delta", {"delta": text}

    def end(self) -> ItemEvents:
        """Yield the whole arguments, or the whole input."""
        if self._tool.kind == "function":
            yield "function_call_arguments.done", {"name": self._tool.name, "arguments": self.text}
            return
        text = self._complete_input()
        if text != self._sent_input:
            yield "custom_tool_call_input.delta", {"delta": text.removeprefix(self._sent_input)}
        yield "custom_tool_call_input.done", {"input": text}

    def snapshot(self) -> Fields:
        """Return the call."""
        custom = self._tool.kind == "custom"
        item: Fields = {"id": self.id, "type": "custom_tool_call" if custom else "function_call", "status": self.status}
        item |= {"call_id": self._call_id, "name": self._tool.name}
        if self._tool.namespace is not None:
            item["namespace"] = self._tool.namespace
        if custom:
            return item | {"input": self._sent_input if self.status == "in_progress" else self._complete_input()}
        return item | {"arguments": self.text}

    def _complete_input(self) -> str:
        text = custom_input(self.text)
        # Arguments that were valid until they were cut off have only the input that was sent.
        return self._sent_input if self._sent_input and text == self.text else text


OutputItem = MessageItem | ReasoningItem | CallItem


class _InputReader:
    """Reads the text in `{"input": "..."}` while it arrives; of other arguments it reads nothing."""

    def __init__(self) -> None:
        self._rest = ""
        self._inside = False

    def read(self, piece: str) -> str:
        """Return the text that the next piece adds."""
        # A rest that is longer than the longest valid one can't become valid, so cut it off.
        self._rest += piece
        if not self._inside:
            if not (head := _HEAD.match(self._rest)):
                self._rest = self._rest[:_HEAD_CHARS]
                return ""
            self._rest, self._inside = self._rest[head.end() :], True
        whole = _CHARACTERS.match(self._rest)
        assert whole  # it may be the empty string
        self._rest = self._rest[whole.end() :][:_CHARACTER_CHARS]
        return msgspec.json.decode(f'"{whole[0]}"', type=str)


def response_usage(usage: Usage, summary: Summary | None = None) -> Fields:
    """Return the usage in the form of Responses; its sums exclude a summary's tokens."""
    found: Fields = {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    if summary:
        spent = {"input_tokens": summary.prompt_tokens, "output_tokens": summary.completion_tokens}
        found["summary_tokens_details"] = spent
    return found


def _text_part(text: str, logprobs: Iterable[Logprob]) -> Fields:
    return {"type": "output_text", "annotations": [], "logprobs": _entries(logprobs), "text": text}


def _reasoning_part(kind: Literal["reasoning_text", "summary_text"], text: str) -> Fields:
    return {"type": kind, "text": text}
