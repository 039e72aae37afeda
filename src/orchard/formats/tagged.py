"""The one state machine for models that write reasoning in tags, text, and calls in tags.

- Reasoning is recognised at the start of the answer only, where the prompt or the model opened it; a `<think>` later on
  is text. Newlines around it are not part of it, and an end tag without reasoning before it is nothing.
- Calls within reasoning are drafts, and part of it. But where the answer ends with them they are made: some models
  forget to end their reasoning.
- Newlines after reasoning, directly before a call and after it are not content.
- What opens like a call and is none comes back as content, tags and newlines included. So does a call that the end cut
  off, unless only its end tag is missing. Reasoning that the end cut off stays reasoning.
- A call that breaks after it was given out goes on raw up to its end tag.
"""

from collections.abc import Sequence

from msgspec import Struct

from orchard.core.request import Tool
from orchard.formats.calls import Region, Syntax
from orchard.formats.driven import Driven
from orchard.formats.pieces import CallEnd, Content, Format, Piece, Thought
from orchard.formats.schema import Signatures, signatures
from orchard.formats.shapes import CallsShape
from orchard.formats.source import MOST_SPACES, Broken, Ended, Reading

_TAIL = 64  # characters of a prompt that are looked at


class Reasoning(Struct, frozen=True):
    """The tags of a model's reasoning; `also` are other texts that open it.

    `answer`: tags that a model may put around its answer when it has reasoned; `wraps`: also when it hasn't, and the
    prompt may open them. `over`: a tag behind all of it. `assumed`: the answer begins within the reasoning though the
    prompt doesn't say so.
    """

    start: str
    end: str
    also: tuple[str, ...] = ()
    also_end: str = ""
    answer: tuple[str, str] | None = None
    wraps: bool = False
    over: str = ""
    assumed: bool = False


class TaggedFamily(Struct, frozen=True):
    """A family of models for this state machine."""

    name: str
    reasoning: Reasoning | None = None
    syntax: Syntax | None = None

    @property
    def reasoning_tags(self) -> tuple[str, str] | None:
        """The texts that open and end the reasoning."""
        return (self.reasoning.start, self.reasoning.end) if self.reasoning else None

    @property
    def headers(self) -> None:
        """None: what these models write is one message."""

    def begin(self, prompt: str, tools: Sequence[Tool] = (), *, forced: bool = False) -> Format:
        """Make the format of one answer to a rendered prompt."""
        reasoning, tail = self.reasoning, prompt[-_TAIL:].rstrip()
        thinking = wrapped = False
        if reasoning:
            wrapped = reasoning.answer is not None and reasoning.wraps and tail.endswith(reasoning.answer[0])
            opened = tail.endswith((reasoning.start, *reasoning.also))
            thinking = opened or (reasoning.assumed and not tail.endswith(reasoning.end))
        syntax = self.syntax if tools else None
        return Tagged(reasoning, syntax, signatures(tools), thinking=thinking, wrapped=wrapped, forced=forced)

    def calls(self, tools: Sequence[Tool]) -> CallsShape | None:
        """Say what the model would write for one or more calls of these tools; None where it has no way to."""
        return self.syntax.shape(tools) if self.syntax else None


class Tagged(Driven):
    """One answer. Without reasoning and syntax all of it is content."""

    def __init__(
        self,
        reasoning: Reasoning | None = None,
        syntax: Syntax | None = None,
        tools: Signatures | None = None,
        *,
        thinking: bool = False,
        wrapped: bool = False,
        forced: bool = False,
    ) -> None:
        """`syntax`: None where the request has no tools. `thinking`: the answer begins within the reasoning, `wrapped`:
        within the answer's own tags. `forced`: a grammar keeps the calls."""
        super().__init__()
        self.thinking = thinking
        self._reasoning = reasoning
        self._syntax = syntax
        self._tools = tools or {}
        self._wrapped = wrapped
        self._forced = forced
        self._drive(self._read())

    def _read(self) -> Reading[None]:
        """Read the answer. It returns only once the source is over."""
        try:
            yield  # to the constructor
            yield from self._open()
            if self._syntax and self._syntax.leads:
                yield from self._lead(self._syntax)
            yield from self._answer()
        except Ended:
            pass
        self._content(len(self._source.text))

    def _open(self) -> Reading[None]:
        """Read the reasoning, where the answer begins with some."""
        source, reasoning = self._source, self._reasoning
        if not reasoning or self._wrapped:
            return
        openers = (reasoning.start, *reasoning.also)
        wrapping = reasoning.answer[:1] if reasoning.answer and reasoning.wraps else ()
        if self.thinking:  # some models open it once more, or answer at once
            tag = yield from source.leading((*openers, *wrapping))
            self.thinking = tag not in wrapping
        else:
            tag = yield from source.leading((*openers, reasoning.end, *wrapping))
            if tag is None:
                return
            self.thinking = tag in openers
        if tag in wrapping:
            source.at -= len(tag or "")
        if self.thinking:
            yield from source.skip("\n")
            yield from self._think(reasoning)
        yield from self._after_reasoning(reasoning)

    def _think(self, reasoning: Reasoning) -> Reading[None]:
        source, ends = self._source, [tag for tag in (reasoning.end, reasoning.also_end) if tag]
        opens = self._syntax.opens if self._syntax else ()
        drafts = _Drafts(self._syntax, self._tools)
        while True:
            place, tag = self._source.first_of([*ends, *opens])
            whole = tag in opens or (source.final and not tag)
            stop = place + len(tag) if whole else self._before_newlines(place)
            if stop > source.at:
                text = source.text[source.at : stop]
                self._out.append(Thought(text))
                source.at = stop
                drafts.add(text, tag if tag in opens else "")
            source.mark()
            if tag in ends:
                source.at = place + len(tag)
                self.thinking = False
                return
            if source.final and not tag:
                self._out += drafts.finish()
            if not tag:
                yield from source.more()

    def _after_reasoning(self, reasoning: Reasoning) -> Reading[None]:
        source = self._source
        yield from source.skip("\n")
        if reasoning.answer and (yield from source.choice(reasoning.answer[:1])):
            self._wrapped = True
            yield from source.skip("\n")
        source.mark()

    def _lead(self, syntax: Syntax) -> Reading[None]:
        """Read calls that are recognised only where the answer begins."""
        self._source.mark()
        if lead := (yield from self._source.leading(syntax.leads)):
            yield from self._region(syntax, lead)

    def _answer(self) -> Reading[None]:
        """Read text, and the calls in it. It ends with Ended only."""
        source, syntax = self._source, self._syntax
        closing = self._closing()
        tags = [*(syntax.opens if syntax else ()), *closing]
        while True:
            place, tag = self._source.first_of(tags)
            self._content(self._before_newlines(place) if tag or (tags and not source.final) else place)
            if not tag:
                yield from source.more()
                continue
            source.at = place + len(tag)
            if syntax and tag not in closing:
                yield from self._region(syntax, tag)
            else:
                yield from source.skip("\n")

    def _closing(self) -> tuple[str, ...]:
        """Give the tags that end the answer and are no part of it."""
        reasoning = self._reasoning
        if not reasoning:
            return ()
        wrapping = reasoning.answer[1] if self._wrapped and reasoning.answer else ""
        return tuple(tag for tag in (wrapping, reasoning.over) if tag)

    def _before_newlines(self, stop: int) -> int:
        """Give the place before the newlines that stand before a place; where they are very many, before the last."""
        source = self._source
        start = max(source.at, stop - MOST_SPACES)
        return start + len(source.text[start:stop].rstrip("\n"))

    def _content(self, stop: int) -> None:
        source = self._source
        if stop > source.at:
            self._out.append(Content(source.text[source.at : stop], source.place))
            source.at = stop
        source.mark()

    def _region(self, syntax: Syntax, opener: str) -> Reading[None]:
        """Read a region of calls; `source` keeps its text from before the opener on."""
        source = self._source
        region = Region(source, self._tools, self._out, forced=self._forced)
        try:
            yield from syntax.read(region, opener)
        except Broken as broken:
            if isinstance(broken, Ended):
                source.at = len(source.text)
                if region.certain and region.between:
                    source.mark()
            if region.certain:
                yield from self._rest(region, syntax.closes)
            else:
                if kept := source.kept():
                    self._out.append(Content(kept, source.place - len(kept)))
                return
        if region.made:
            yield from source.skip("\n")
            source.mark()

    def _rest(self, region: Region, closes: str) -> Reading[None]:
        """Give a broken call's text up to the tag that ends it."""
        source = self._source
        region.raw(source.kept())
        try:
            while not closes:
                region.raw(source.text[source.at :])
                source.at = len(source.text)
                yield from source.more()
            yield from source.until(closes, region.raw)
        except Ended:
            region.raw(source.text[source.at :])
            source.at = len(source.text)
            raise
        region.end()


class _Drafts:
    """The calls with which a text ends; what a call opens is read until something else turns up in it."""

    def __init__(self, syntax: Syntax | None, tools: Signatures) -> None:
        self._syntax = syntax
        self._tools = tools
        self._reader: Tagged | None = None
        self._calls: list[Piece] = []

    def add(self, text: str, opener: str) -> None:
        """Take the next characters, which end with an opener, or have none."""
        if self._reader:
            self._keep(self._reader.feed(text))
        if opener and not self._reader:
            self._reader = Tagged(None, self._syntax, self._tools)
            self._calls = self._reader.feed(opener)

    def finish(self) -> list[Piece]:
        """Say that the text is over; gives the calls."""
        if self._reader:
            self._keep(self._reader.finish())
        complete = self._reader and self._calls and isinstance(self._calls[-1], CallEnd)
        return self._calls if complete else []

    def _keep(self, pieces: list[Piece]) -> None:
        self._calls += pieces
        if any(isinstance(piece, Content) for piece in pieces):
            self._reader = None
