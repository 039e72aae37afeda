"""How families describe their calls, and the emitter that parsers of calls use."""

import json
import math
from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, CallsGrammar
from orchard.formats.fit import misfit
from orchard.formats.format import CallArguments, CallEnd, CallStart, Piece
from orchard.formats.schema import Signature, Signatures
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Parser, TextReader

MAX_HELD_CHARS = 64
"""A call with more characters of arguments than this is not taken back."""


class CallEmitter:
    """Takes the parts of calls that a parser finds in `reader`, and emits them as pieces.

    A call is held back until it is complete or has enough arguments; if it breaks before that, it becomes text. A call
    in code is held back until it is complete; so is one with a mistake, if none of it was emitted before the mistake.
    """

    def __init__(
        self, reader: TextReader, tools: Signatures, out: list[Piece], *, forced: bool = False, in_code: bool = False
    ) -> None:
        """`out` gets what is certain. `forced`: a grammar is enforced on the calls, so nothing is held back.

        `in_code`: the calls stand in code of the answer, which may only show how calls are written.
        """
        self.reader = reader
        self.tools = tools
        self.has_calls = False  # a call was completed
        self.between_values = False  # the current text is not part of the arguments
        self._out = out
        self._certain_chars = -1 if forced else math.inf if in_code else MAX_HELD_CHARS
        self._lenient = not (forced or in_code)
        self._in_code = in_code
        self._start: CallStart | None = None  # of a call that is held back, with its arguments
        self._signature: Signature | None = None  # of its tool, if there is such a tool
        self._held: list[str] = []
        self._length = 0
        self._open = False
        self._mistake = ""  # the last one in the current call
        self._begin = reader.place
        reader.allows = self.allows

    @property
    def is_certain(self) -> bool:
        """Whether the current call can't be taken back any more."""
        return self._open and self._length > self._certain_chars and not (self._mistake and self._start)

    @property
    def is_lenient(self) -> bool:
        """Whether mistakes in the current call, or before its name is known, may be read over."""
        return self._lenient and not (self._open and self._signature is None)

    def allows(self, mistake: str) -> bool:
        """Return whether a mistake is read over. If so, the call has to fit its tool, where it isn't certain yet."""
        self._mistake = mistake if self.is_lenient else self._mistake
        return self.is_lenient

    def start(self, name: str, id_: str | None = None) -> Signature | None:
        """Begin a call. Return its tool's signature; None if the tool is unknown.

        Raise MalformedOutput if an unknown tool leaves it open whether this is a call.
        """
        self._open = False
        self._signature = self.tools.get(name)
        if self._signature is None and (self._mistake or self._in_code):
            raise MalformedOutput("the request has no tool of this name")
        self._start = CallStart(name, id_)
        self._held.clear()
        self._length = 0
        self._open = True
        if self.is_certain:
            self._release()
        return self._signature

    def add_arguments(self, text: str) -> None:
        """Add a piece of the arguments. Once the call is certain, drop the model's text up to here."""
        self._length += len(text)
        self._held.append(text)
        if self.is_certain:
            self._release()

    def end(self) -> None:
        """End the call where the reader is now. Raise MalformedOutput if it has a mistake and doesn't fit its tool."""
        if self._mistake and self._start and self._signature:
            try:
                why = misfit(self._signature, json.loads("".join(self._held)))
            except ValueError:  # the value is broken, so its text is the argument
                why = "a value is not JSON"
            if why:
                raise MalformedOutput(why)
        self._release()
        self._out.append(CallEnd())
        self._open, self._mistake = False, ""
        self.has_calls = True

    def close(self, *tags: str) -> Parser[str | None]:
        """Read the tag that follows, end the call after it, and return the tag.

        If none of `tags` follows, end the call here, since its arguments are complete, and return None.
        """
        reader = self.reader
        tag = yield from reader.accept_spaced(tags)
        if not tag and reader.final:
            rest = reader.text[reader.at :].lstrip()
            if any(tag.startswith(rest) for tag in tags):  # the end has cut the tag off
                reader.at = len(reader.text)
        self.end()
        return tag or (yield from self.read_following_tag(*tags))

    def read_following_tag(self, *tags: str) -> Parser[str | None]:
        """Read the tag that follows a call that has ended; return None and read nothing if none does.

        Braces that close nothing are read over where one of the tags or the answer's end follows them.
        """
        reader, surplus = self.reader, self._lenient and self._signature is not None
        if (tag := (yield from reader.accept_spaced(tags))) or not (
            surplus and (yield from reader.accept_spaced(("}",)))
        ):
            return tag
        while (yield from reader.accept_spaced(("}",))):
            pass
        tag = yield from reader.accept_spaced(tags)
        if reader.final and not reader.text[reader.at :].strip():
            reader.mark()
        elif not tag:
            reader.rewind()
        return tag

    @property
    def has_known_tool(self) -> bool:
        """Whether the request has the tool of the current call."""
        return self._open and self._signature is not None

    def describe_failure(self, broken: MalformedOutput) -> str:
        """Describe why there is no call, or why its arguments are broken, without the model's text."""
        tool = f"a call of '{self._signature.tool.name}'" if self._signature else "a call"
        why = str(broken) or "it doesn't go on as calls do"
        if isinstance(broken, OutputEnded):
            why = "the answer ends within it"
        why += f", after {self._mistake}" if self._mistake else ""
        then = "its arguments are passed on as they are" if self.is_certain else "it stays text"
        return f"{tool} breaks after {self.reader.place - self._begin} characters, and {then}: {why}"

    def emit_unfinished(self) -> bool:
        """Emit the part of a call that a limit has cut off. Return whether there is one."""
        if self._open:
            self._release()
        return self._open

    def emit_raw(self, text: str) -> None:
        """Emit the rest of a broken call as the model wrote it."""
        if text:
            self._out.append(CallArguments(text))

    def read_rest(self, closes: str) -> Parser[None]:
        """Emit a broken call's text up to the tag `closes`, "" for the end of the answer, and end the call."""
        reader = self.reader

        def emit(text: str) -> None:
            self.emit_raw(text)
            reader.mark()

        self.emit_raw(reader.take_text())
        try:
            while not closes:
                reader.at = len(reader.text)
                self.emit_raw(reader.take_text())
                yield from reader.wait_for_text()
            yield from reader.read_until(closes, emit)
        except OutputEnded:
            reader.at = len(reader.text)
            self.emit_raw(reader.take_text())
            raise
        self.end()

    def _release(self) -> None:
        if self._start:
            self._out.append(self._start)
            self._start = None
        self.emit_raw("".join(self._held))
        self._held.clear()
        self.reader.mark()


class CallSyntax(Struct, frozen=True, kw_only=True):
    """How a family writes calls: a row of values; its class reads calls and makes their grammar.

    `opens`: the texts that open calls anywhere in an answer; `leads`: those that do so only at the answer's beginning.
    `closes`: the text that ends a group of calls; "" if there is none. `prefix`, `separator` and `suffix`: what the
    family itself writes around and between calls. `writes`: another syntax, if the family writes calls in that one.
    """

    opens: tuple[str, ...] = ()
    leads: tuple[str, ...] = ()
    closes: str = ""
    prefix: str = ""
    separator: str = ""
    suffix: str = ""
    writes: "CallSyntax | None" = None

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read calls from after their `opener` to their end, inclusive. What follows is text.

        For each call: `calls.start`, `calls.add_arguments` as they come, `calls.end`. Raise MalformedOutput (or let
        `TextReader` raise it) if there is no call.
        """
        raise NotImplementedError

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of a tool's calls. Raise ValueError if a strict tool's schema can't be enforced."""
        raise NotImplementedError

    def grammar(self, tools: Sequence[Tool]) -> CallsGrammar:
        """Return the grammar of one or more calls of these tools. Raise what `call_grammar` raises."""
        if self.writes:
            return self.writes.grammar(tools)
        calls = tuple(map(self.call_grammar, tools))
        trigger = next((opener for opener in self.opens if (self.prefix + calls[0].begin).startswith(opener)), "")
        return CallsGrammar(trigger, self.prefix, calls, self.separator, self.suffix)


class SectionSyntax(CallSyntax, frozen=True, kw_only=True):
    """Calls in a section. The first of `opens` opens the section, `call_opener` a call, and `closes` ends the section.

    A model may leave out the section's opener. If `call_opener` is the first of `opens`, there is no section, and calls
    are read one by one.
    """

    call_opener: str

    @property
    def section(self) -> str:
        """The text that opens a section; "" if there is none."""
        return self.opens[0] if self.opens[0] != self.call_opener else ""

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read calls, and the tag that ends them all."""
        reader = calls.reader
        if not self.section:
            yield from self.read_call(calls)
            return
        if opener == self.section:
            yield from reader.expect_spaced(self.call_opener)
        yield from self.read_call(calls)
        while (yield from reader.accept_spaced((self.call_opener,))):
            yield from self.read_call(calls)
        yield from reader.accept_spaced((self.closes,))

    def read_call(self, calls: CallEmitter) -> Parser[None]:
        """Read a call from after `call_opener` to its end, inclusive."""
        raise NotImplementedError
