"""The format of gpt-oss, harmony: messages in channels, `<|start|>assistant<|channel|>final<|message|>…<|end|>`.

https://github.com/openai/harmony/blob/main/docs/format.md

- The analysis channel is reasoning. The final one, commentary to nobody (a preamble), and what has no channel are the
  answer. A message to a function (`to=functions.name`, in the role's or in the channel's part of its header) is a call.
- The prompt ends within a header, `<|start|>assistant`, or, where an answer is continued, within a message.
- A message ends with `<|end|>`, `<|call|>` or `<|return|>` (the last two mostly end the generation and aren't seen),
  with the next `<|start|>`, or with the answer.
- Text where a header should stand, messages to others and calls that are none are content, as they were written.
"""

import json
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from orchard.core.request import Tool
from orchard.formats.calls import Region
from orchard.formats.driven import Driven
from orchard.formats.json_text import arguments
from orchard.formats.pieces import Content, Format, Headers, Thought
from orchard.formats.schema import Signature, Signatures, signatures
from orchard.formats.shapes import CallShape, CallsShape, json_body, parameters
from orchard.formats.source import Broken, Ended, Reading, begun
from orchard.formats.tagged import Reasoning

_START, _CHANNEL, _MESSAGE, _CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
_ROLE, _ANALYSIS, _COMMENTARY, _FINAL = "assistant", "analysis", "commentary", "final"
_TO, _FUNCTIONS = "to=", "functions."
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_BEGINNINGS = (_START, _CHANNEL, _TO, _MESSAGE)  # what a header may begin with
_LONGEST_HEADER = 400


class Header(Struct, frozen=True):
    """What a message is, and to whom."""

    channel: str | None
    recipient: str | None

    @property
    def thought(self) -> bool:
        """Whether the message is reasoning; what is said to the model's own tools is."""
        return self.channel == _ANALYSIS and not (self.recipient or "").startswith(_FUNCTIONS)

    def function(self, tools: Signatures) -> str | None:
        """Give the name of the function that the message calls."""
        if not tools or self.recipient is None:
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
        begun = _header(_START + header) if started and opened else None
        return Harmony(signatures(tools), begun, forced=forced)

    def calls(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for calls of these tools, behind `<|start|>assistant`."""
        channel, constrain, message = (json.dumps(tag) for tag in (_CHANNEL, _CONSTRAIN, _MESSAGE))
        # Without a space or a tag before it, "json" would belong to the name.
        kind = f'(" " {constrain}? "json" | {constrain} "json")'
        rest = f'({channel} "{_COMMENTARY}" {kind}? | " "? {constrain} "json")? {message}'
        calls = tuple(
            CallShape(
                tool.name,
                f" {_TO}{_FUNCTIONS}{tool.name}",
                f"{rest} {json_body(parameters(tool))}",
                "",
                (_CHANNEL, _CONSTRAIN, _MESSAGE),
            )
            for tool in tools
        )
        return CallsShape(f" {_TO}{_FUNCTIONS}", "", calls, self.headers.between, "")


def harmony(reasoning: Reasoning | None) -> HarmonyFamily:
    """Make the family. Its reasoning is a channel; no other tags can take its place."""
    return HarmonyFamily()


class Harmony(Driven):
    """One answer."""

    def __init__(self, tools: Signatures, header: Header | None = None, *, forced: bool = False) -> None:
        """`tools`: none where calls are text. `header`: of the message in which the prompt ends."""
        super().__init__()
        self.thinking = header is not None and header.thought
        self._tools = tools
        self._forced = forced
        self._begun = header is not None  # a message
        self._drive(self._read(header))

    def _read(self, header: Header | None) -> Reading[None]:
        """Read the answer, message by message. It returns only once the source is over."""
        try:
            yield  # to the constructor
            if header:
                yield from self._body(header)
            while True:
                yield from self._message()
        except Ended:
            pass

    def _message(self) -> Reading[None]:
        """Read a message, whose header begins here."""
        source = self._source
        source.mark()
        found = yield from self._header_text()
        header = None if found is None else _header(found)
        if header:
            yield from self._body(header)
            return
        rest = source.text[source.at :]
        if found is None and (lost := _LOST.match(rest)):
            source.at += lost.end()
            yield from self._body(Header(_ANALYSIS, None))
        elif found is None and source.final and self._is_structure(rest):
            source.at = len(source.text)
            source.mark()
        else:
            if found is None and rest.startswith(_START):
                source.at += len(_START)
            yield from self._as_written()

    def _header_text(self) -> Reading[str | None]:
        """Read a header; gives it without its `<|message|>`. None, and nothing is read, where none stands."""
        source = self._source
        while True:
            text = source.text[source.at : source.at + _LONGEST_HEADER]
            spaces = len(text) - len(text.lstrip())
            if not any(text.startswith(tag, spaces) or tag.startswith(text[spaces:]) for tag in _BEGINNINGS):
                return None
            after = spaces + len(_START)  # a header's own first tag doesn't end it
            places = [text.find(tag, after if tag == _START else 0) for tag in (_START, *_ENDS)]
            stop = min((place for place in places if place >= 0), default=len(text))
            end = text.find(_MESSAGE, 0, stop)
            if end >= 0:
                source.at += end + len(_MESSAGE)
                return text[:end]
            if stop < len(text) or len(text) == _LONGEST_HEADER or (source.final and text):
                return None
            yield from source.more()

    def _is_structure(self, text: str) -> bool:
        """Whether what the end has left is the beginning of a header, or white space behind a message."""
        text = text.lstrip()
        return text.startswith((_START, _CHANNEL)) if text else self._begun

    def _body(self, header: Header) -> Reading[None]:
        """Read a message from behind its header."""
        self._begun = True
        if name := header.function(self._tools):
            yield from self._call(name)
        elif header.thought:
            self._source.mark()
            self.thinking = True
            yield from self._text(self._thought)
            self.thinking = False
        elif header.recipient:
            yield from self._as_written()
        else:
            self._source.mark()
            yield from self._text(self._content)

    def _call(self, name: str) -> Reading[None]:
        source = self._source
        region = Region(source, self._tools, self._out, forced=self._forced)
        try:
            yield from self._arguments(region, region.start(name))
        except Broken as broken:
            if isinstance(broken, Ended):
                source.at = len(source.text)
            if region.certain:
                region.raw(source.kept())
                yield from self._text(region.raw)
                if not isinstance(broken, Ended):  # else it isn't complete
                    region.end()
            else:
                yield from self._as_written()

    def _arguments(self, region: Region, signature: Signature | None) -> Reading[None]:
        source = self._source
        ended = yield from source.leading(_ENDS)
        if ended or (source.final and not source.text[source.at :].strip()):
            if signature is None or signature.required:
                raise Broken
            region.arguments("{}")
            region.end()
        else:
            yield from source.skip()
            yield from arguments(source, signature, region.arguments)
            yield from region.close(*_ENDS)

    def _as_written(self) -> Reading[None]:
        """Give a message as content, its tags and what was read of it since the last mark included."""
        self._begun = True
        kept = self._source.kept()
        if kept:
            self._content(kept)
        yield from self._text(self._content, with_end=bool(kept))

    def _text(self, give: Callable[[str], object], *, with_end: bool = False) -> Reading[None]:
        """Read up to a message's end, over the tag that ends it; `give` gets what is read."""
        source = self._source
        tags = (*_ENDS, _START)
        while True:
            held = 0 if source.final else max(begun(source.text, tag, source.at) for tag in tags)
            found = [(place, tag) for tag in tags if (place := source.text.find(tag, source.at)) >= 0]
            place, tag = min(found, default=(len(source.text) - held, ""))
            over = place if tag == _START else place + len(tag)
            given = over if with_end else place
            if given > source.at:
                text, source.at = source.text[source.at : given], given
                give(text)
            source.at = over
            source.mark()
            if tag or source.final:
                return
            yield from source.more()

    def _content(self, text: str) -> None:
        self._out.append(Content(text, self._source.place - len(text)))

    def _thought(self, text: str) -> None:
        self._out.append(Thought(text))


_LOST = re.compile(rf"\s*(?:{re.escape(_START)}{_ROLE})?\s*{re.escape(_CHANNEL)}{_ANALYSIS}\b\s?")
"""A header of reasoning from which the model has left out the end."""


def _header(text: str) -> Header | None:
    """Read a header's text; None where it is none of a message of the model's own."""
    author, channelled, rest = text.strip().replace(_CONSTRAIN, " ").partition(_CHANNEL)
    started = author.startswith(_START)
    words = author.removeprefix(_START).split()
    if started and words[:1] != [_ROLE]:
        return None
    words = words[started:]
    channel = None
    if channelled:
        channel, *more = rest.split() or [""]
        words += more
        if channel not in (_ANALYSIS, _COMMENTARY, _FINAL):
            return None
    recipients = [word.removeprefix(_TO) for word in words if word.startswith(_TO)]
    if len(recipients) > 1 or len(words) - len(recipients) > 1 or any("<|" in word for word in words):
        return None
    return Header(channel, recipients[0] if recipients else None)
