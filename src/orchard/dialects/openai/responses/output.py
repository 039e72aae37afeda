"""The items of a response while they are written: messages, reasonings and calls."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol

import msgspec

from orchard.core.events import Logprob, Summary, Usage
from orchard.dialects.common.output import logprob, token_text
from orchard.dialects.openai.responses.items import seal
from orchard.dialects.openai.responses.tools import Served
from orchard.dialects.openai.tools import custom_input

Status = Literal["in_progress", "completed", "incomplete"]
Fields = dict[str, Any]
_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_HEAD_CHARS = 64
# Whole characters of a JSON string, with both halves of a surrogate pair.
_CHARACTERS = re.compile(
    r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*"
)
_CHARACTER_CHARS = 12

Told = Iterator[tuple[str, Fields]]
"""Types of events, without `response.`, with their fields but for those that each event of the item has."""


class OutputItem(Protocol):
    """An item that is written: what its beginning and its end tell, and how it looks at any time."""

    id: str

    def begin(self) -> Told:
        """Tell what comes after `output_item.added`."""
        ...

    def end(self) -> Told:
        """Tell what comes before `output_item.done`."""
        ...

    def snapshot(self, status: Status) -> Fields:
        """Give the item as far as it is written."""
        ...


class MessageItem:
    """What the model says."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self._text: list[str] = []
        self._logprobs: list[Logprob] = []

    def begin(self) -> Told:
        """Begin the one part that a message has."""
        yield "content_part.added", {"content_index": 0, "part": _text_part("", ())}

    def add(self, text: str, logprobs: tuple[Logprob, ...]) -> Told:
        """Go on with the text."""
        self._text.append(text)
        self._logprobs += logprobs
        yield "output_text.delta", {"content_index": 0, "delta": text, "logprobs": _short_logprobs(logprobs)}

    def end(self) -> Told:
        """End the part."""
        text = "".join(self._text)
        yield "output_text.done", {"content_index": 0, "text": text, "logprobs": _short_logprobs(self._logprobs)}
        yield "content_part.done", {"content_index": 0, "part": _text_part(text, self._logprobs)}

    def snapshot(self, status: Status) -> Fields:
        """Give the message; before its part begins it has none."""
        content = [_text_part("".join(self._text), self._logprobs)] if self._text or status != "in_progress" else []
        return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content}


class ReasoningItem:
    """What the model thinks. `summary`: it is shown as a summary too; `sealed`: in a form to be sent back."""

    def __init__(self, id_: str, *, summary: bool, sealed: bool) -> None:
        self.id = id_
        self._summary = summary
        self._sealed = sealed
        self._text: list[str] = []

    def begin(self) -> Told:
        """Begin the part of the content, and that of the summary."""
        yield "content_part.added", {"content_index": 0, "part": _reasoning_part("")}
        if self._summary:
            yield "reasoning_summary_part.added", {"summary_index": 0, "part": _summary_part("")}

    def add(self, text: str) -> Told:
        """Go on with the thought."""
        self._text.append(text)
        yield "reasoning_text.delta", {"content_index": 0, "delta": text}
        if self._summary:
            yield "reasoning_summary_text.delta", {"summary_index": 0, "delta": text}

    def end(self) -> Told:
        """End the parts."""
        text = "".join(self._text)
        yield "reasoning_text.done", {"content_index": 0, "text": text}
        yield "content_part.done", {"content_index": 0, "part": _reasoning_part(text)}
        if self._summary:
            yield "reasoning_summary_text.done", {"summary_index": 0, "text": text}
            yield "reasoning_summary_part.done", {"summary_index": 0, "part": _summary_part(text)}

    def snapshot(self, status: Status) -> Fields:
        """Give the reasoning; before its parts begin it has none."""
        text = "".join(self._text)
        item: Fields = {"id": self.id, "type": "reasoning", "status": status, "summary": [], "content": []}
        if text:
            item["content"] = [_reasoning_part(text)]
            if self._summary:
                item["summary"] = [_summary_part(text)]
        if self._sealed:
            item["encrypted_content"] = seal(text) if status != "in_progress" else None
        return item


class CallItem:
    """A call of a function, or of a custom tool, whose input is a string within the arguments."""

    def __init__(self, id_: str, call_id: str, served: Served) -> None:
        self.id = id_
        self._call_id = call_id
        self._served = served
        self._arguments: list[str] = []
        self._input = _InputReader()
        self._told = ""  # of a custom tool's input

    def begin(self) -> Told:
        """A call has no parts."""
        yield from ()

    def add(self, piece: str) -> Told:
        """Go on with the arguments."""
        self._arguments.append(piece)
        if self._served.kind == "function":
            yield "function_call_arguments.delta", {"delta": piece}
        elif text := self._input.read(piece):
            self._told += text
            yield "custom_tool_call_input.delta", {"delta": text}

    def end(self) -> Told:
        """Tell the whole arguments, or the whole input."""
        arguments = "".join(self._arguments)
        if self._served.kind == "function":
            yield "function_call_arguments.done", {"name": self._served.name, "arguments": arguments}
            return
        text = self._whole_input(arguments)
        if text != self._told:
            yield "custom_tool_call_input.delta", {"delta": text.removeprefix(self._told)}
        yield "custom_tool_call_input.done", {"input": text}

    def snapshot(self, status: Status) -> Fields:
        """Give the call."""
        arguments = "".join(self._arguments)
        custom = self._served.kind == "custom"
        item: Fields = {"id": self.id, "type": "custom_tool_call" if custom else "function_call", "status": status}
        item |= {"call_id": self._call_id, "name": self._served.name}
        if self._served.namespace is not None:
            item["namespace"] = self._served.namespace
        if custom:
            return item | {"input": self._told if status == "in_progress" else self._whole_input(arguments)}
        return item | {"arguments": arguments}

    def _whole_input(self, arguments: str) -> str:
        text = custom_input(arguments)
        # Arguments that began well and were cut off have no whole input: it is what was told.
        return self._told if self._told and text == arguments else text


class _InputReader:
    """Reads the text out of `{"input": "..."}` while it comes; of anything else it reads nothing."""

    def __init__(self) -> None:
        self._rest = ""
        self._inside = False

    def read(self, piece: str) -> str:
        """Give what the next piece adds to the text."""
        # What is longer than the longest that could be whole can't become so: no more of it is looked at.
        self._rest += piece
        if not self._inside:
            if not (head := _HEAD.match(self._rest)):
                self._rest = self._rest[:_HEAD_CHARS]
                return ""
            self._rest, self._inside = self._rest[head.end() :], True
        whole = _CHARACTERS.match(self._rest)
        assert whole  # it may be empty
        self._rest = self._rest[whole.end() :][:_CHARACTER_CHARS]
        return msgspec.json.decode(f'"{whole[0]}"', type=str)


def response_usage(usage: Usage, summary: Summary | None = None) -> Fields:
    """Return the usage as responses have it; what a summary took is not part of its sums."""
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
    return {"type": "output_text", "annotations": [], "logprobs": _logprobs(logprobs), "text": text}


def _reasoning_part(text: str) -> Fields:
    return {"type": "reasoning_text", "text": text}


def _summary_part(text: str) -> Fields:
    return {"type": "summary_text", "text": text}


def _logprobs(logprobs: Iterable[Logprob]) -> list[Fields]:
    return [
        {
            **_token(drawn),
            "bytes": list(drawn.token.bytes),
            "top_logprobs": [
                {"token": token.text, "bytes": list(token.bytes), "logprob": logprob(token)} for token in drawn.top
            ],
        }
        for drawn in logprobs
    ]


def _short_logprobs(logprobs: Iterable[Logprob]) -> list[Fields]:
    """Give them as events have them: without bytes."""
    return [
        {**_token(drawn), "top_logprobs": [{"token": token.text, "logprob": logprob(token)} for token in drawn.top]}
        for drawn in logprobs
    ]


def _token(drawn: Logprob) -> Fields:
    return {"token": token_text(drawn.token), "logprob": logprob(drawn.token)}
