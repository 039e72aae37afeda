"""The state machine for models that write reasoning in tags, text, and calls in tags.

- Reasoning is only recognised at the start of the answer, if the prompt or the model opened it, and again directly
  behind reasoning, if it has an end; a later `<think>` is text, unless the family never writes its tags as text.
  Newlines around reasoning are not part of it. An end tag without reasoning before it is dropped.
- Calls inside reasoning are drafts and belong to it, if the reasoning ends after them. If it doesn't, it ended at the
  first call: some models forget the end tag. Only later text shows which it is, so reasoning is held back from a call
  on.
- Newlines after reasoning, and directly before and after a call, are not content.
- Text that opens like a call but isn't one becomes content, including tags and newlines. So does a call without an end,
  unless only its end tag is missing. Reasoning without an end stays reasoning.
- If a limit has cut the answer off, a call ends there if its name is known; else it is dropped, and so is the beginning
  of a tag.
- If a call breaks after it was emitted, the rest up to its end tag is emitted raw.
- A tag that opens or ends calls may stand there twice. In code that the answer shows, only calls of tools that
  there are count, and mistakes make text of them.
"""

from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallsGrammar
from orchard.formats.calls import CallEmitter, CallSyntax
from orchard.formats.format import Content, Format, Piece
from orchard.formats.schema import Signatures, signatures
from orchard.formats.shown_code import ShownCode
from orchard.formats.text_reader import MOST_SPACES, MalformedOutput, OutputEnded, Parser, begun

_TAIL = 64  # the last characters of a prompt, which show what it has opened


class ReasoningTags(Struct, frozen=True):
    """The tags of a model's reasoning; `also` and `also_ends` are other texts that open and end it.

    `answer`: tags that a model may put around its answer after reasoning; `wraps`: also without reasoning, and the
    prompt may open them. `over`: a tag after everything. `assumed`: the answer begins with reasoning, although the
    prompt doesn't open it. `alone`: text never has these tags, so reasoning may come again, and tags without a meaning
    are dropped; it is itself such a tag.
    """

    start: str
    end: str
    also: tuple[str, ...] = ()
    also_ends: tuple[str, ...] = ()
    answer: tuple[str, str] | None = None
    wraps: bool = False
    over: str = ""
    assumed: bool = False
    alone: str = ""

    def texts(self) -> tuple[str, ...]:
        """Return all tags, which are not for the reader; some are empty."""
        return (self.start, *self.also, self.end, *self.also_ends, self.over, self.alone, *(self.answer or ()))


class TaggedFamily(Struct, frozen=True):
    """A family of models for this state machine."""

    name: str
    reasoning: ReasoningTags | None = None
    syntax: CallSyntax | None = None
    headers = None
    """None: these models write a single message without headers."""

    @property
    def reasoning_tags(self) -> tuple[str, str] | None:
        """The texts that open and end the reasoning."""
        return (self.reasoning.start, self.reasoning.end) if self.reasoning else None

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

    def calls(self, tools: Sequence[Tool]) -> CallsGrammar | None:
        """Return the grammar of one or more calls of these tools; None if the family has no calls."""
        return self.syntax.grammar(tools) if self.syntax else None


class Tagged(Format):
    """One answer. Without reasoning and syntax all of it is content."""

    def __init__(
        self,
        reasoning: ReasoningTags | None = None,
        syntax: CallSyntax | None = None,
        tools: Signatures | None = None,
        *,
        thinking: bool = False,
        wrapped: bool = False,
        forced: bool = False,
        leads: bool = True,
    ) -> None:
        """`syntax`: None if the request has no tools. `thinking`: the answer begins with reasoning; `wrapped`: inside
        the answer's own tags. `forced`: a grammar is enforced on the calls. `leads`: the answer may begin with calls
        without a tag."""
        super().__init__(tools or {}, forced=forced)
        self.thinking = thinking
        self._reasoning = reasoning
        self._syntax = syntax or CallSyntax()  # which opens no calls
        self._wrapped = wrapped
        self._leads = self._syntax.leads if leads else ()
        self._reasoned = False  # some reasoning was emitted
        self._called = False  # a call has just ended
        self._code = ShownCode()

    def _read(self) -> Parser[None]:
        """Read the answer; return at the end of the text."""
        try:
            yield from self._open()
            self._reader.mark()
            if lead := (yield from self._reader.leading(self._leads)):
                yield from self._calls(lead)
            yield from self._answer()
        except OutputEnded:
            pass
        self._content_up_to(self._end())
        self._reader.at = len(self._reader.text)

    def _open(self) -> Parser[None]:
        """Read the reasoning, if the answer begins with some."""
        reader, reasoning = self._reader, self._reasoning
        if not reasoning or self._wrapped:
            return
        openers = (reasoning.start, *reasoning.also)
        wrapping = reasoning.answer[:1] if reasoning.answer and reasoning.wraps else ()
        if self.thinking:  # some models open it once more, or answer at once
            tag = yield from reader.leading((*openers, *wrapping))
            self.thinking = tag not in wrapping
        else:
            tag = yield from reader.leading((*openers, reasoning.end, *wrapping))
            if tag is None:
                return
            self.thinking = tag in openers
        if tag in wrapping:
            reader.at -= len(tag or "")
        if self.thinking:
            yield from reader.skip("\n")
            yield from self._think(reasoning)
        yield from self._after_reasoning(reasoning)

    def _think(self, reasoning: ReasoningTags) -> Parser[None]:
        """Read reasoning up to its end, or up to the calls with which the model has left it."""
        reader, ends = self._reader, (reasoning.end, *reasoning.also_ends)
        drafts = _Drafts(self._syntax, self._tools, reader.place)
        while True:
            place, tag = self._next(ends)
            text, reader.at = reader.text[reader.at : place], place
            self._thought(drafts.add(text))
            if tag:
                self._thought(drafts.rest())
                reader.at += len(tag)
            reader.mark()
            if tag:
                break
            if reader.final:
                reader.at = len(reader.text)
                reader.mark()
                text, after = drafts.finish(cut_off=reader.cut_off)
                self._thought(text)
                self._out += after
            yield from reader.more()
        self.thinking = False

    def _after_reasoning(self, reasoning: ReasoningTags) -> Parser[None]:
        """Read what stands behind reasoning, and reasoning that follows it directly."""
        reader = self._reader
        yield from reader.skip("\n")
        reader.mark()
        while not reasoning.alone and (tag := (yield from reader.leading((reasoning.start, reasoning.end)))):
            if tag == reasoning.start and not (yield from self._think_again(reasoning)):
                break
            yield from reader.skip("\n")
            reader.mark()
        if reasoning.answer and (yield from reader.choice(reasoning.answer[:1])):
            self._wrapped = True
            yield from reader.skip("\n")
        reader.mark()

    def _think_again(self, reasoning: ReasoningTags) -> Parser[bool]:
        """Read reasoning up to its end tag. If it has none, go back and return False: it is an answer about the tag."""
        reader = self._reader
        found: list[str] = []
        self.thinking = True
        try:
            yield from reader.until(reasoning.end, found.append)
        except OutputEnded:
            if not reader.cut_off:
                self.thinking = False
                reader.back()
                return False
            reader.at = len(reader.text)
        self.thinking = reader.final and reader.cut_off
        if text := "".join(found).strip("\n"):
            self._thought(f"\n\n{text}" if self._reasoned else text)
        return True

    def _thought(self, text: str) -> None:
        self._reasoned |= bool(text)
        super()._thought(text)

    def _content(self, text: str) -> None:
        super()._content(text)
        self._called &= not text.strip()
        self._code.add(text)

    def _answer(self) -> Parser[None]:
        """Read text, and the calls in it. It ends with OutputEnded only."""
        reader, reasoning = self._reader, self._reasoning
        wrapping = reasoning.answer[1] if reasoning and reasoning.answer and self._wrapped else ""
        closing = tuple(filter(None, (wrapping, reasoning.over))) if reasoning else ()
        strays = (reasoning.start, reasoning.end, reasoning.alone) if reasoning and reasoning.alone else ()
        tags = (*self._syntax.opens, *closing, *strays)
        while True:
            place, tag = self._next(tags)
            if tag in strays:
                yield from self._stray(place, strays)
                continue
            ends = tag or (tags and not reader.final)
            self._content_up_to(_before_newlines(reader.text, reader.at, place) if ends else place)
            if not tag:
                yield from reader.more()
                continue
            self._code.add(reader.text[reader.at : place])  # newlines, which end code in a line
            reader.at = place + len(tag)
            if tag in closing:
                yield from reader.skip("\n")
            else:
                yield from self._calls(tag)

    def _stray(self, place: int, strays: tuple[str, ...]) -> Parser[None]:
        """Read a tag of reasoning within the answer, and the reasoning behind it, if it opens some."""
        reader, reasoning = self._reader, self._reasoning
        self._content_up_to(place)
        tag = yield from reader.choice(strays)
        reader.mark()
        if reasoning and tag == reasoning.start:
            self.thinking = True
            yield from reader.skip("\n")
            yield from self._think(reasoning)
            yield from self._after_reasoning(reasoning)

    def _next(self, tags: Sequence[str]) -> tuple[int, str]:
        """Find the first of the tags; if there is none, return the place up to which none begins, and ""."""
        place, tag = self._reader.first_of(tags)
        return (place, tag) if tag or not self._reader.final else (self._end(tags), "")

    def _end(self, tags: Sequence[str] = ()) -> int:
        """Return the end of the reader's text, without a tag that was cut off."""
        reader = self._reader
        stop = len(reader.text)
        if not reader.cut_off:
            return stop
        known = (*tags, *self._syntax.opens, *(self._reasoning.texts() if self._reasoning else ()))
        sure = (tag for tag in known if _is_tag(tag) and (self.thinking or not tag[0].isalnum()))
        half = max((begun(reader.text, tag, reader.at) for tag in sure), default=0)
        return _before_newlines(reader.text, reader.at, stop - half) if half else stop

    def _content_up_to(self, stop: int) -> None:
        reader = self._reader
        if stop > reader.at and not (self._forced and reader.cut_off):  # the beginning of a call
            text, reader.at = reader.text[reader.at : stop], stop
            self._content(text)
        reader.mark()

    def _calls(self, opener: str) -> Parser[None]:
        """Read calls; `reader` keeps its text from before the opener on."""
        reader = self._reader
        in_code = self._code.is_open()
        calls = CallEmitter(reader, self._tools, self._out, forced=self._forced, in_code=in_code)
        try:
            if not in_code:
                yield from self._repeated(opener)
            yield from self._syntax.read(calls, opener)
        except MalformedOutput as broken:
            if isinstance(broken, OutputEnded):
                reader.at = len(reader.text)
                if reader.cut_off and (calls.cut_off() or calls.made or self._forced or _is_tag(opener)):
                    reader.mark()
                    return
            if _is_tag(opener) or calls.named:
                self.notes.append(calls.failure(broken))
            if isinstance(broken, OutputEnded) and calls.certain and calls.between:
                reader.mark()
            if calls.certain:
                yield from calls.rest(self._syntax.closes)
            else:
                text = reader.kept()
                # At the end of an answer, some models write the opening tag in place of the end tag.
                if not (self._called and isinstance(broken, OutputEnded) and text.strip() == opener):
                    self._content(text)
                return
        if calls.made:
            if not in_code:
                yield from self._repeated(self._syntax.closes)
            yield from reader.skip("\n")
            reader.mark()
            self._called = True

    def _repeated(self, tag: str) -> Parser[None]:
        """Read over a tag that has been read already."""
        while tag.endswith((">", "]")) and (yield from self._reader.leading((tag,))):
            pass


class _Drafts:
    """Reasoning, read like an answer: there may be calls in it."""

    def __init__(self, syntax: CallSyntax, tools: Signatures, place: int) -> None:
        """`place`: how many characters stand before the reasoning."""
        self._format = Tagged(None, syntax, tools, leads=False) if syntax.opens else None
        self._place = place
        self._held: list[str] = []
        self._after: list[Piece] = []  # from the first call on

    def add(self, text: str) -> str:
        """Take the next characters. Return those that are certain to be reasoning, but for newlines at the end."""
        if text:
            self._held.append(text)
        if self._format:
            return self._certain(self._format.feed(text))
        return self.rest()

    def rest(self) -> str:
        """End the reasoning with its tag. Return the rest of it, but for newlines at the end."""
        held = "".join(self._held)
        return self._taken(_before_newlines(held, 0, len(held)))

    def finish(self, *, cut_off: bool) -> tuple[str, list[Piece]]:
        """End the reasoning, which has no end tag. Return the rest of it, and what stands behind it.

        `cut_off`: what follows is not known, so that newlines at the end are none of it either.
        """
        rest = self._certain(self._format.finish(cut_off=cut_off)) if self._format else "".join(self._held)
        return rest.rstrip("\n") if cut_off else rest, self._after

    def _certain(self, pieces: list[Piece]) -> str:
        count = 0
        for piece in pieces:
            if not isinstance(piece, Content):
                self._after.append(piece)
            elif self._after:
                self._after.append(Content(piece.text, self._place + piece.start))
            else:
                count += len(piece.text)
        return self._taken(count)

    def _taken(self, count: int) -> str:
        """Take so many of the characters that are held."""
        if not count:
            return ""
        held = "".join(self._held)
        self._held = [held[count:]] if count < len(held) else []
        return held[:count]


def _before_newlines(text: str, start: int, stop: int) -> int:
    """Return the place before the newlines that end a part of a text; where they are very many, before the last."""
    start = max(start, stop - MOST_SPACES)
    return start + len(text[start:stop].rstrip("\n"))


def _is_tag(text: str) -> bool:
    """Return whether a text that opens something means nothing else: brackets and fences do."""
    return bool(text.strip("`json\n[{ "))
