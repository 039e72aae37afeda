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
from orchard.formats.text_reader import MOST_SPACES, MalformedOutput, OutputEnded, Parser, partial_tag_length

_TAIL = 64  # the last characters of a prompt, which show what it has opened


class ReasoningTags(Struct, frozen=True):
    """The tags of a model's reasoning; `other_starts` and `other_ends` are other texts that open and end it.

    `answer`: the tags that a model may write around its answer after reasoning. `always_wraps`: it may write them
    without reasoning, too, and the prompt may open them. `message_end`: the tag after everything. `implicit`: the
    answer begins with reasoning, although the prompt doesn't open it. `stray_tag`: a tag without a meaning, which is
    dropped. A family that has one never writes its tags as text, so reasoning may begin again later.
    """

    start: str
    end: str
    other_starts: tuple[str, ...] = ()
    other_ends: tuple[str, ...] = ()
    answer: tuple[str, str] | None = None
    always_wraps: bool = False
    message_end: str = ""
    implicit: bool = False
    stray_tag: str = ""

    def texts(self) -> tuple[str, ...]:
        """Return all tags, which are not for the reader; some are empty."""
        return (
            self.start,
            *self.other_starts,
            self.end,
            *self.other_ends,
            self.message_end,
            self.stray_tag,
            *(self.answer or ()),
        )


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
            wrapped = reasoning.answer is not None and reasoning.always_wraps and tail.endswith(reasoning.answer[0])
            opened = tail.endswith((reasoning.start, *reasoning.other_starts))
            thinking = opened or (reasoning.implicit and not tail.endswith(reasoning.end))
        syntax = self.syntax if tools else None
        return TaggedFormat(reasoning, syntax, signatures(tools), thinking=thinking, wrapped=wrapped, forced=forced)

    def calls_grammar(self, tools: Sequence[Tool]) -> CallsGrammar | None:
        """Return the grammar of one or more calls of these tools; None if the family has no calls."""
        return self.syntax.grammar(tools) if self.syntax else None


class TaggedFormat(Format):
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
        self._has_reasoning = False  # some reasoning was emitted
        self._follows_call = False  # a call has just ended
        self._code = ShownCode()

    def _read(self) -> Parser[None]:
        """Read the answer; return at the end of the text."""
        try:
            yield from self._read_opening()
            self._reader.mark()
            if lead := (yield from self._reader.accept_spaced(self._leads)):
                yield from self._read_calls(lead)
            yield from self._read_answer()
        except OutputEnded:
            pass
        self._emit_content_up_to(self._text_end())
        self._reader.at = len(self._reader.text)

    def _read_opening(self) -> Parser[None]:
        """Read the reasoning, if the answer begins with some."""
        reader, reasoning = self._reader, self._reasoning
        if not reasoning or self._wrapped:
            return
        openers = (reasoning.start, *reasoning.other_starts)
        wrapping = reasoning.answer[:1] if reasoning.answer and reasoning.always_wraps else ()
        if self.thinking:  # some models open it once more, or answer at once
            tag = yield from reader.accept_spaced((*openers, *wrapping))
            self.thinking = tag not in wrapping
        else:
            tag = yield from reader.accept_spaced((*openers, reasoning.end, *wrapping))
            if tag is None:
                return
            self.thinking = tag in openers
        if tag in wrapping:
            reader.at -= len(tag or "")
        if self.thinking:
            yield from reader.skip("\n")
            yield from self._read_reasoning(reasoning)
        yield from self._read_after_reasoning(reasoning)

    def _read_reasoning(self, reasoning: ReasoningTags) -> Parser[None]:
        """Read reasoning up to its end, or up to the calls with which the model has left it."""
        reader, ends = self._reader, (reasoning.end, *reasoning.other_ends)
        drafts = _Drafts(self._syntax, self._tools, reader.place)
        while True:
            place, tag = self._find_tag(ends)
            text, reader.at = reader.text[reader.at : place], place
            self._emit_thought(drafts.add(text))
            if tag:
                self._emit_thought(drafts.end_reasoning())
                reader.at += len(tag)
            reader.mark()
            if tag:
                break
            if reader.final:
                reader.at = len(reader.text)
                reader.mark()
                text, after = drafts.finish(cut_off=reader.cut_off)
                self._emit_thought(text)
                self._out += after
            yield from reader.wait_for_text()
        self.thinking = False

    def _read_after_reasoning(self, reasoning: ReasoningTags) -> Parser[None]:
        """Read what stands behind reasoning, and reasoning that follows it directly."""
        reader = self._reader
        yield from reader.skip("\n")
        reader.mark()
        while not reasoning.stray_tag and (tag := (yield from reader.accept_spaced((reasoning.start, reasoning.end)))):
            if tag == reasoning.start and not (yield from self._read_more_reasoning(reasoning)):
                break
            yield from reader.skip("\n")
            reader.mark()
        if reasoning.answer and (yield from reader.accept(reasoning.answer[:1])):
            self._wrapped = True
            yield from reader.skip("\n")
        reader.mark()

    def _read_more_reasoning(self, reasoning: ReasoningTags) -> Parser[bool]:
        """Read reasoning up to its end tag. If it has none, go back and return False: it is an answer about the tag."""
        reader = self._reader
        found: list[str] = []
        self.thinking = True
        try:
            yield from reader.read_until(reasoning.end, found.append)
        except OutputEnded:
            if not reader.cut_off:
                self.thinking = False
                reader.rewind()
                return False
            reader.at = len(reader.text)
        self.thinking = reader.final and reader.cut_off
        if text := "".join(found).strip("\n"):
            self._emit_thought(f"\n\n{text}" if self._has_reasoning else text)
        return True

    def _emit_thought(self, text: str) -> None:
        self._has_reasoning |= bool(text)
        super()._emit_thought(text)

    def _emit_content(self, text: str) -> None:
        super()._emit_content(text)
        self._follows_call &= not text.strip()
        self._code.add(text)

    def _read_answer(self) -> Parser[None]:
        """Read text, and the calls in it. It ends with OutputEnded only."""
        reader, reasoning = self._reader, self._reasoning
        wrapping = reasoning.answer[1] if reasoning and reasoning.answer and self._wrapped else ""
        closing = tuple(filter(None, (wrapping, reasoning.message_end))) if reasoning else ()
        strays = (reasoning.start, reasoning.end, reasoning.stray_tag) if reasoning and reasoning.stray_tag else ()
        tags = (*self._syntax.opens, *closing, *strays)
        while True:
            place, tag = self._find_tag(tags)
            if tag in strays:
                yield from self._read_stray_tag(place, strays)
                continue
            ends = tag or (tags and not reader.final)
            self._emit_content_up_to(_newlines_start(reader.text, reader.at, place) if ends else place)
            if not tag:
                yield from reader.wait_for_text()
                continue
            self._code.add(reader.text[reader.at : place])  # newlines, which end code in a line
            reader.at = place + len(tag)
            if tag in closing:
                yield from reader.skip("\n")
            else:
                yield from self._read_calls(tag)

    def _read_stray_tag(self, place: int, strays: tuple[str, ...]) -> Parser[None]:
        """Read a tag of reasoning within the answer, and the reasoning behind it, if it opens some."""
        reader, reasoning = self._reader, self._reasoning
        self._emit_content_up_to(place)
        tag = yield from reader.accept(strays)
        reader.mark()
        if reasoning and tag == reasoning.start:
            self.thinking = True
            yield from reader.skip("\n")
            yield from self._read_reasoning(reasoning)
            yield from self._read_after_reasoning(reasoning)

    def _find_tag(self, tags: Sequence[str]) -> tuple[int, str]:
        """Find the first of the tags; if there is none, return the place up to which none begins, and ""."""
        place, tag = self._reader.find_first(tags)
        return (place, tag) if tag or not self._reader.final else (self._text_end(tags), "")

    def _text_end(self, tags: Sequence[str] = ()) -> int:
        """Return the end of the reader's text, without a tag that was cut off."""
        reader = self._reader
        stop = len(reader.text)
        if not reader.cut_off:
            return stop
        known = (*tags, *self._syntax.opens, *(self._reasoning.texts() if self._reasoning else ()))
        sure = (tag for tag in known if _is_tag(tag) and (self.thinking or not tag[0].isalnum()))
        half = max((partial_tag_length(reader.text, tag, reader.at) for tag in sure), default=0)
        return _newlines_start(reader.text, reader.at, stop - half) if half else stop

    def _emit_content_up_to(self, stop: int) -> None:
        reader = self._reader
        if stop > reader.at and not (self._forced and reader.cut_off):  # the beginning of a call
            text, reader.at = reader.text[reader.at : stop], stop
            self._emit_content(text)
        reader.mark()

    def _read_calls(self, opener: str) -> Parser[None]:
        """Read calls; `reader` keeps its text from before the opener on."""
        reader = self._reader
        in_code = self._code.is_open()
        calls = CallEmitter(reader, self._tools, self._out, forced=self._forced, in_code=in_code)
        try:
            if not in_code:
                yield from self._skip_repeated_tag(opener)
            yield from self._syntax.read(calls, opener)
        except MalformedOutput as broken:
            if isinstance(broken, OutputEnded):
                reader.at = len(reader.text)
                if reader.cut_off and (calls.emit_unfinished() or calls.has_calls or self._forced or _is_tag(opener)):
                    reader.mark()
                    return
            if _is_tag(opener) or calls.has_known_tool:
                self.notes.append(calls.describe_failure(broken))
            if isinstance(broken, OutputEnded) and calls.is_certain and calls.between_values:
                reader.mark()
            if calls.is_certain:
                yield from calls.read_rest(self._syntax.closes)
            else:
                text = reader.take_text()
                # At the end of an answer, some models write the opening tag in place of the end tag.
                if not (self._follows_call and isinstance(broken, OutputEnded) and text.strip() == opener):
                    self._emit_content(text)
                return
        if calls.has_calls:
            if not in_code:
                yield from self._skip_repeated_tag(self._syntax.closes)
            yield from reader.skip("\n")
            reader.mark()
            self._follows_call = True

    def _skip_repeated_tag(self, tag: str) -> Parser[None]:
        """Read over a tag that has been read already."""
        while tag.endswith((">", "]")) and (yield from self._reader.accept_spaced((tag,))):
            pass


class _Drafts:
    """Reasoning, read like an answer: there may be calls in it."""

    def __init__(self, syntax: CallSyntax, tools: Signatures, place: int) -> None:
        """`place`: how many characters stand before the reasoning."""
        self._format = TaggedFormat(None, syntax, tools, leads=False) if syntax.opens else None
        self._place = place
        self._held: list[str] = []
        self._after: list[Piece] = []  # from the first call on

    def add(self, text: str) -> str:
        """Take the next characters. Return those that are certain to be reasoning, but for newlines at the end."""
        if text:
            self._held.append(text)
        if self._format:
            return self._take_certain(self._format.feed(text))
        return self.end_reasoning()

    def end_reasoning(self) -> str:
        """End the reasoning with its tag. Return the rest of it, but for newlines at the end."""
        held = "".join(self._held)
        return self._take_chars(_newlines_start(held, 0, len(held)))

    def finish(self, *, cut_off: bool) -> tuple[str, list[Piece]]:
        """End the reasoning, which has no end tag. Return the rest of it, and what stands behind it.

        `cut_off`: what follows is not known, so newlines at the end are dropped, too.
        """
        rest = self._take_certain(self._format.finish(cut_off=cut_off)) if self._format else "".join(self._held)
        return rest.rstrip("\n") if cut_off else rest, self._after

    def _take_certain(self, pieces: list[Piece]) -> str:
        count = 0
        for piece in pieces:
            if not isinstance(piece, Content):
                self._after.append(piece)
            elif self._after:
                self._after.append(Content(piece.text, self._place + piece.start))
            else:
                count += len(piece.text)
        return self._take_chars(count)

    def _take_chars(self, count: int) -> str:
        """Remove the first `count` of the characters that are held, and return them."""
        if not count:
            return ""
        held = "".join(self._held)
        self._held = [held[count:]] if count < len(held) else []
        return held[:count]


def _newlines_start(text: str, start: int, stop: int) -> int:
    """Return the place before the newlines that end a part of a text, at most MOST_SPACES of them."""
    start = max(start, stop - MOST_SPACES)
    return start + len(text[start:stop].rstrip("\n"))


def _is_tag(text: str) -> bool:
    """Return whether a text can only be a tag; brackets and fences may be ordinary text."""
    return bool(text.strip("`json\n[{ "))
