"""The format of Inkling: blocks, whose tags say what is in them.

`<|message_model|><|content_thinking|>…<|end_message|>` is reasoning, `<|content_text|>` the answer, and
`name<|content_invoke_tool_json|>{"name": "name", "args": {…}}` a call:
https://github.com/vllm-project/vllm/blob/main/vllm/parser/inkling.py

- The prompt ends in `<|message_model|>` or, if an answer is continued, in a block.
- The name before a block's tag is not for the reader. Text without a tag is the answer.
- Blocks of other kinds, and calls that are broken or without tools, are the answer. Tags are never part of a text.
"""

import json
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, CallsGrammar, json_arguments
from orchard.formats.calls import CallEmitter
from orchard.formats.families.json_calls import read_call
from orchard.formats.format import Format, Headers
from orchard.formats.schema import Signatures, signatures
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Parser

_MODEL = "<|message_model|>"
_THINKING, _TEXT, _CALL = "<|content_thinking|>", "<|content_text|>", "<|content_invoke_tool_json|>"
_KINDS = (_THINKING, _TEXT, _CALL, "<|content_invoke_tool_text|>", "<|content_tool_error|>")
_ENDS = ("<|end_message|>", "<|content_model_end_sampling|>")
_TAGS = (_MODEL, *_KINDS, *_ENDS)
_NAME = re.compile(r"[\w.:/-]{1,256}")


class BlocksFamily(Struct, frozen=True):
    """The family of Inkling."""

    name: str = "inkling"
    reasoning_tags: tuple[str, str] = (_THINKING, _ENDS[0])
    headers: Headers = Headers(_TEXT, f"{_ENDS[0]}{_MODEL}")

    def begin(self, prompt: str, tools: Sequence[Tool] = (), *, forced: bool = False) -> Format:
        """Make the format of one answer to a rendered prompt."""
        kind = max(_TAGS, key=prompt.rfind)
        return BlocksFormat(signatures(tools), kind if kind in _KINDS else None, forced=forced)

    def calls_grammar(self, tools: Sequence[Tool]) -> CallsGrammar:
        """Return what the model would write for calls of these tools, behind `<|message_model|>`."""
        calls = tuple(
            CallGrammar(
                tool.name, f'{tool.name}{_CALL}{{"name":{json.dumps(tool.name)},"args":', json_arguments(tool), "}"
            )
            for tool in tools
        )
        return CallsGrammar(_CALL, "", calls, self.headers.between, "")


class BlocksFormat(Format):
    """One answer."""

    def __init__(self, tools: Signatures, kind: str | None = None, *, forced: bool = False) -> None:
        """`kind`: the tag of the block in which the prompt ends."""
        super().__init__(tools, forced=forced)
        self.thinking = kind == _THINKING
        self._kind = kind

    def _read(self) -> Parser[None]:
        """Read the answer, block by block. It ends with OutputEnded only."""
        kind = self._kind
        while True:
            if kind is None:
                kind = yield from self._read_header()
            self.thinking = kind == _THINKING
            if kind == _CALL and self._tools:
                kind = yield from self._read_call()
            else:
                kind = yield from self._read_text(self._emit_thought if self.thinking else self._emit_content)
            self.thinking = False

    def _read_header(self) -> Parser[str]:
        """Read what stands before a block's text; return its kind. Text without a tag is not read."""
        reader = self._reader
        while True:
            place, tag = reader.find_first(_TAGS)
            name = reader.text[reader.at : place].strip()
            if name and (not _NAME.fullmatch(name) or (tag and tag not in _KINDS)):
                return _TEXT
            if tag:
                reader.at = place + len(tag)
                reader.mark()
                if tag in _KINDS:
                    return tag
            elif reader.final and name and not reader.cut_off:
                return _TEXT
            else:
                yield from reader.wait_for_text()

    def _read_call(self) -> Parser[str | None]:
        """Read a call and what ends it; return the kind of the block that begins there."""
        reader = self._reader
        calls = CallEmitter(reader, self._tools, self._out, forced=self._forced)
        try:
            yield from read_call(calls, _ENDS)
            ended = yield from calls.close(*_ENDS)
            reader.mark()
        except MalformedOutput as broken:
            if isinstance(broken, OutputEnded):
                reader.at = len(reader.text)
                if reader.cut_off:
                    calls.emit_unfinished()
                    raise
            self.notes.append(calls.describe_failure(broken))
            if calls.is_certain:
                calls.emit_raw(reader.take_text())
                following = yield from self._read_text(calls.emit_raw)
                calls.end()
                return following
            reader.rewind()
            return (yield from self._read_text(self._emit_content))
        return None if ended else (yield from self._read_text(self._emit_content))

    def _read_text(self, emit: Callable[[str], object]) -> Parser[str | None]:
        """Read a block's text and what ends it; return the kind of the block that begins there."""
        reader = self._reader
        while True:
            place, tag = reader.find_first(_TAGS)
            if place > reader.at:
                text, reader.at = reader.text[reader.at : place], place
                emit(text)
            reader.at += len(tag)
            reader.mark()
            if tag:
                return tag if tag in _KINDS else None
            yield from reader.wait_for_text()
