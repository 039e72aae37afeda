"""The format of gpt-oss, harmony: messages in channels, `<|start|>assistant<|channel|>final<|message|>…<|end|>`.

https://github.com/openai/harmony/blob/main/docs/format.md

- The analysis channel is reasoning. The answer is the final channel, commentary without a recipient (a preamble), and
  messages without a channel. A message to a function (`to=functions.name`, in the role's or in the channel's part of
  its header) is a call; if it is broken, or there are no tools, its text is the answer. Messages to or from anyone else
  are reasoning, since they are not for the reader.
- The prompt ends in a header, `<|start|>assistant`, or, if an answer is continued, in a message.
- A message ends with `<|end|>`, `<|call|>` or `<|return|>` (the last two usually end the generation and aren't seen),
  with the next `<|start|>` or `<|channel|>`, or with the answer.
- Headers and tags are never part of a text. A header without an end ends where the text no longer looks like a header.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import (
    CallGrammar,
    CallsGrammar,
    alternation,
    concatenation,
    json_arguments,
    optional_part,
)
from orchard.formats.calls import CallEmitter
from orchard.formats.format import Format, Headers
from orchard.formats.json_text import read_json_arguments
from orchard.formats.schema import Signature, Signatures, signatures
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Parser

_START, _CHANNEL, _MESSAGE, _CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
_ROLE, _ANALYSIS, _COMMENTARY, _FINAL = "assistant", "analysis", "commentary", "final"
_TO, _FUNCTIONS = "to=", "functions."
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_STRAY = (_MESSAGE, _CONSTRAIN)  # they mean nothing inside a message
_BEGINNINGS = (_START, _CHANNEL, _TO, *_STRAY)  # what a header may begin with
_MAX_HEADER_CHARS = 400
_READER = (None, "user", "all", "assistant")


class Header(Struct, frozen=True):
    """A message's channel and recipient. `by_model`: the model itself is the author."""

    channel: str | None
    recipient: str | None = None
    by_model: bool = True

    @property
    def is_thought(self) -> bool:
        """Whether the message is reasoning, where it calls no function."""
        if not self.by_model:
            return True
        if self.recipient in _READER:
            return self.channel == _ANALYSIS
        return self.channel != _FINAL and not (self.recipient or "").startswith(_FUNCTIONS)

    def function_name(self, tools: Signatures) -> str | None:
        """Return the name of the function that the message calls."""
        if not (tools and self.by_model and self.recipient):
            return None
        name = self.recipient.removeprefix(_FUNCTIONS)
        return name if name and (name != self.recipient or name in tools) else None


class HarmonyFamily(Struct, frozen=True):
    """The family of gpt-oss."""

    name: str = "harmony"
    reasoning_tags: tuple[str, str] = (f"{_CHANNEL}{_ANALYSIS}{_MESSAGE}", _ENDS[0])
    headers: Headers = Headers(f"{_CHANNEL}{_FINAL}{_MESSAGE}", f"{_ENDS[0]}{_START}{_ROLE}")

    def begin(self, prompt: str, tools: Sequence[Tool] = (), *, forced: bool = False) -> Format:
        """Make the format of one answer to a rendered prompt."""
        _, started, last = prompt.rpartition(_START)
        header, opened, _ = last.partition(_MESSAGE)
        begun = _parse_header(_START + header) if started and opened else None
        return HarmonyFormat(signatures(tools), begun, forced=forced)

    def calls_grammar(self, tools: Sequence[Tool]) -> CallsGrammar:
        """Return what the model would write for calls of these tools, behind `<|start|>assistant`."""
        # Without a space or a tag before it, "json" would belong to the name.
        plain, constrained = concatenation(" ", optional_part(_CONSTRAIN), "json"), concatenation(_CONSTRAIN, "json")
        in_channel = concatenation(_CHANNEL, _COMMENTARY, optional_part(alternation([plain, constrained])))
        kind = optional_part(alternation([in_channel, concatenation(optional_part(" "), constrained)]))
        to = f" {_TO}{_FUNCTIONS}"
        calls = tuple(
            CallGrammar(tool.name, f"{to}{tool.name}", concatenation(kind, _MESSAGE, json_arguments(tool)), "")
            for tool in tools
        )
        return CallsGrammar(to, "", calls, self.headers.between, "")


class HarmonyFormat(Format):
    """One answer."""

    def __init__(self, tools: Signatures, header: Header | None = None, *, forced: bool = False) -> None:
        """`header`: of the message in which the prompt ends."""
        super().__init__(tools, forced=forced)
        self.thinking = header is not None and header.is_thought
        self._header = header
        self._has_message = header is not None  # a message

    def _read(self) -> Parser[None]:
        """Read the answer, message by message. It ends with OutputEnded only."""
        if self._header:
            yield from self._read_body(self._header)
        while True:
            yield from self._read_message()

    def _read_message(self) -> Parser[None]:
        """Read a message, whose header begins here."""
        reader = self._reader
        reader.mark()
        if (yield from reader.accept_spaced(_ENDS)):
            return
        found = yield from self._read_header_text()
        if found is None:
            rest = reader.text[reader.at :].lstrip()
            begun = rest.startswith(_BEGINNINGS) or any(tag.startswith(rest) for tag in (*_BEGINNINGS, *_ENDS))
            # At the end, only white space after a message or the beginning of a header is left.
            if reader.final and ((self._has_message and not rest) or (reader.cut_off and begun)):
                reader.at = len(reader.text)
                reader.mark()
                raise OutputEnded
            lost = _LOST.match(reader.text, reader.at)
            assert lost
            found = lost[0] if any(tag in lost[0] for tag in (_START, _CHANNEL, *_STRAY)) else ""
            if reader.final and lost.end() == len(reader.text) and lost["to"]:
                found = lost[0]
            reader.at += len(found)
        yield from self._read_body(_parse_header(found))

    def _read_header_text(self) -> Parser[str | None]:
        """Read a header. Return it without its `<|message|>`. If there is none, read nothing and return None."""
        reader = self._reader
        while True:
            text = reader.text[reader.at : reader.at + _MAX_HEADER_CHARS]
            spaces = len(text) - len(text.lstrip())
            if not any(text.startswith(tag, spaces) or tag.startswith(text[spaces:]) for tag in _BEGINNINGS):
                return None
            after = spaces + len(_START)  # a header's own first tag doesn't end it
            places = [text.find(tag, after if tag == _START else 0) for tag in (_START, *_ENDS)]
            stop = min((place for place in places if place >= 0), default=len(text))
            end = text.find(_MESSAGE, 0, stop)
            if end >= 0:
                reader.at += end + len(_MESSAGE)
                return text[:end]
            if stop < len(text) or len(text) == _MAX_HEADER_CHARS or (reader.final and text):
                return None
            yield from reader.wait_for_text()

    def _read_body(self, header: Header) -> Parser[None]:
        """Read a message from behind its header."""
        self._has_message = True
        self._reader.mark()
        if name := header.function_name(self._tools):
            yield from self._read_call(name)
        elif header.is_thought:
            self.thinking = True
            yield from self._read_text(self._emit_thought)
            self.thinking = False
        else:
            yield from self._read_text(self._emit_content)

    def _read_call(self, name: str) -> Parser[None]:
        reader = self._reader
        calls = CallEmitter(reader, self._tools, self._out, forced=self._forced)
        try:
            yield from self._read_arguments(calls, calls.start(name))
        except MalformedOutput as broken:
            if isinstance(broken, OutputEnded):
                reader.at = len(reader.text)
                if reader.cut_off and calls.emit_unfinished():
                    reader.mark()
                    return
            self.notes.append(calls.describe_failure(broken))
            if calls.is_certain:
                calls.emit_raw(reader.take_text())
                yield from self._read_text(calls.emit_raw)
                if not isinstance(broken, OutputEnded):  # else it isn't complete
                    calls.end()
            else:
                reader.rewind()
                yield from self._read_text(self._emit_content)

    def _read_arguments(self, calls: CallEmitter, signature: Signature | None) -> Parser[None]:
        reader = self._reader
        ended = yield from reader.accept_spaced(_ENDS)
        if ended or (reader.final and not reader.text[reader.at :].strip()):
            if signature is None or signature.required:
                raise MalformedOutput
            calls.add_arguments("{}")
            calls.end()
        else:
            yield from read_json_arguments(reader, signature, calls.add_arguments, _ENDS)
            yield from calls.close(*_ENDS)

    def _read_text(self, emit: Callable[[str], object]) -> Parser[None]:
        """Read a message's text and the tag that ends it; `emit` gets the text without stray tags."""
        reader = self._reader
        tags = (*_ENDS, _START, _CHANNEL, *_STRAY)
        while True:
            place, tag = reader.find_first(tags)
            if place > reader.at:
                text, reader.at = reader.text[reader.at : place], place
                emit(text)
            if tag not in (_START, _CHANNEL):
                reader.at += len(tag)
            over = reader.final and not tag
            if over:
                reader.at = len(reader.text)
            reader.mark()
            if over or (tag and tag not in _STRAY):
                return
            if not tag:
                yield from reader.wait_for_text()


_ROLES = rf"(?:{_ROLE}|user|system|developer|tool|functions\.[\w.-]+)"
_LOST = re.compile(
    rf"\s*(?:{re.escape(_START)}(?:{_ROLES}\b)?)?(?P<to>\s*to=[\w.-]+)?"
    rf"(?:\s*{re.escape(_CHANNEL)}\s*(?:(?:{_ANALYSIS}|{_COMMENTARY}|{_FINAL})\b)?(?:\s*to=[\w.-]+)?)?"
    rf"(?:\s*{re.escape(_CONSTRAIN)}\s*\w*)?\s?"
)
"""A header from which the model has left out the end."""


def _parse_header(text: str) -> Header:
    """Read a header's text, as far as it can be read."""
    author, _, rest = text.replace(_CONSTRAIN, " ").rpartition(_CHANNEL) if _CHANNEL in text else (text, "", "")
    started = author.lstrip().startswith(_START)
    words = author.replace(_CHANNEL, " ").replace(_START, " ").replace(_CONSTRAIN, " ").split()
    own = not (started and words and words[0] != _ROLE)
    channel = next(iter(rest.split()), None)
    recipients = [word.removeprefix(_TO) for word in (*words, *rest.split()) if word.startswith(_TO)]
    return Header(channel, recipients[0] if recipients else None, own)
