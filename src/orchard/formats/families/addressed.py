"""Families whose models say before each message to whom it goes: to the user, to themselves, or to a tool.

- Functionary 3.2: `>>>all\\n…` and `>>>name\\n{…}`:
  https://github.com/MeetKai/functionary/blob/main/tests/prompt_test_v3.llama3.txt
- Muse Glimmer: `<|start|>assistant to=user<|message|>…<|eot|>`, with `to=self` for reasoning, and calls in tags:
  https://huggingface.co/meta-models/Muse-Glimmer-30B/blob/main/chat_template.jinja

The prompt ends within a header or, where an answer is continued, within a message. Text where a header should stand is
the answer's.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, CallsGrammar, json_arguments
from orchard.formats.calls import CallEmitter
from orchard.formats.families.xml_calls import ATEM
from orchard.formats.format import Format, Headers
from orchard.formats.json_text import read_json_arguments
from orchard.formats.schema import Signatures, signatures
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Parser

_NO_NAME = "<> \n"


class AddressedFamily(Struct, frozen=True):
    """How a family addresses its messages. A header is `role`, `to`, the recipient and `body`.

    `ends`: the tags that end a message, besides the next header. `answer_recipient` and `reasoning_recipient`: who
    gets the answer and the reasoning. `known_only`: only these two and tools are recipients; another header is text.
    `read_calls` reads the calls in a message to a tool. `call_grammar` returns the grammar of one call. `trigger`: a
    text that only calls contain.
    """

    name: str
    role: str
    to: str
    body: str
    ends: tuple[str, ...]
    answer_recipient: str
    reasoning_recipient: str | None
    known_only: bool
    read_calls: Callable[[CallEmitter, str], Parser[None]]
    call_grammar: Callable[[Tool], CallGrammar]
    trigger: str = ""

    @property
    def reasoning_tags(self) -> tuple[str, str] | None:
        """The texts that open and end the reasoning."""
        return (self.header(self.reasoning_recipient), self.ends[0]) if self.reasoning_recipient else None

    @property
    def headers(self) -> Headers:
        """What the model writes before its answer, and between two messages."""
        return Headers(self.header(self.answer_recipient), f"{self.ends[0]}{self.role}" if self.ends else self.role)

    def header(self, recipient: str) -> str:
        """Return what the model writes before a message where the prompt has opened it."""
        return f"{self.to}{recipient}{self.body}"

    def begin(self, prompt: str, tools: Sequence[Tool] = (), *, forced: bool = False) -> Format:
        """Make the format of one answer to a rendered prompt."""
        _, started, last = prompt.rpartition(self.role)
        recipient, opened, _ = last.partition(self.body)
        begun = recipient.removeprefix(self.to) if started and opened else None
        return AddressedFormat(self, signatures(tools), begun, forced=forced)

    def calls_grammar(self, tools: Sequence[Tool]) -> CallsGrammar:
        """Return what the model would write for calls of these tools, where the prompt has opened a header."""
        return CallsGrammar(self.trigger, "", tuple(map(self.call_grammar, tools)), self.headers.between, "")


class AddressedFormat(Format):
    """One answer."""

    def __init__(
        self, family: AddressedFamily, tools: Signatures, recipient: str | None = None, *, forced: bool = False
    ) -> None:
        """`recipient`: the recipient of the message in which the prompt ends."""
        super().__init__(tools, forced=forced)
        self.thinking = recipient is not None and recipient == family.reasoning_recipient
        self._family = family
        self._first_recipient = recipient
        names = (family.answer_recipient, *([family.reasoning_recipient] if family.reasoning_recipient else []), *tools)
        self._recipients = {family.header(name): name for name in names} | (
            {} if family.known_only else {family.body: ""}
        )

    def _read(self) -> Parser[None]:
        """Read the answer, message by message. It ends with OutputEnded only."""
        recipient = self._first_recipient
        if recipient is None:
            recipient = yield from self._read_recipient()
        while True:
            recipient = yield from self._read_message(recipient)
            if recipient is None and (yield from self._reader.accept_spaced((self._family.role,))):
                recipient = yield from self._read_recipient()

    def _read_recipient(self) -> Parser[str | None]:
        """Read a header from behind its role; return the recipient, or None if this is no header.

        Then the caller emits what was read, including the role.
        """
        reader, family = self._reader, self._family
        if found := (yield from reader.accept(self._recipients, ends=self._recipients)):
            return self._recipients[found]
        if family.known_only or not (yield from reader.accept((family.to,))):
            return None
        try:
            return (yield from reader.read_word(family.body, _NO_NAME))
        except OutputEnded:
            raise
        except MalformedOutput:
            return None

    def _read_message(self, recipient: str | None) -> Parser[str | None]:
        """Read a message and what ends it; return the recipient of the next one if that is its header."""
        if recipient is None:
            self._emit_content(self._reader.take_text())
        self._reader.mark()
        if recipient == self._family.reasoning_recipient and recipient:
            self.thinking = True
            following = yield from self._read_text(self._emit_thought)
            self.thinking = following == recipient
            return following
        if recipient and recipient != self._family.answer_recipient and self._tools:
            return (yield from self._read_calls(recipient))
        return (yield from self._read_text(self._emit_content))

    def _read_calls(self, name: str) -> Parser[str | None]:
        reader = self._reader
        calls = CallEmitter(reader, self._tools, self._out, forced=self._forced)
        try:
            yield from self._family.read_calls(calls, name)
            yield from reader.skip()
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
            self._emit_content(reader.take_text())
        return (yield from self._read_text(self._emit_content))

    def _read_text(self, emit: Callable[[str], object]) -> Parser[str | None]:
        """Read a message's text and its end; `emit` gets the text. Return the recipient of the next message."""
        reader, role = self._reader, self._family.role
        while True:
            place, tag = reader.find_first((*self._family.ends, role))
            if place > reader.at:
                text, reader.at = reader.text[reader.at : place], place
                emit(text)
            reader.mark()
            if not tag:
                yield from reader.wait_for_text()
                continue
            reader.at += len(tag)
            if tag != role:
                reader.mark()
                return None
            if (recipient := (yield from self._read_recipient())) is not None:
                return recipient
            emit(reader.take_text())


def _read_json_call(calls: CallEmitter, name: str) -> Parser[None]:
    """Read a call's arguments."""
    yield from calls.reader.skip()
    yield from read_json_arguments(calls.reader, calls.start(name), calls.add_arguments, (">>>",))
    calls.end()
    yield from calls.read_following_tag()


def _json_call_grammar(tool: Tool) -> CallGrammar:
    return CallGrammar(tool.name, f"{tool.name}\n", json_arguments(tool), "")


def _read_atem_calls(calls: CallEmitter, name: str) -> Parser[None]:
    """Read calls in tags, which name their tools themselves."""
    opener = yield from calls.reader.accept_spaced(ATEM.opens)
    if opener is None:
        raise MalformedOutput
    while opener:
        yield from ATEM.read(calls, opener)
        opener = yield from calls.reader.accept_spaced(ATEM.opens)


def _atem_call_grammar(tool: Tool) -> CallGrammar:
    call = ATEM.call_grammar(tool)
    return replace(call, begin=f" to={tool.name}<|message|>{ATEM.prefix}{call.begin}", end=f"{call.end}{ATEM.suffix}")


FUNCTIONARY_3_2 = AddressedFamily(
    "functionary_v3_2", ">>>", "", "\n", (), "all", None, True, _read_json_call, _json_call_grammar
)
MUSE = AddressedFamily(
    "muse_glimmer",
    "<|start|>assistant",
    " to=",
    "<|message|>",
    ("<|eom|>", "<|eot|>"),
    "user",
    "self",
    False,
    _read_atem_calls,
    _atem_call_grammar,
    ATEM.opens[0],
)
