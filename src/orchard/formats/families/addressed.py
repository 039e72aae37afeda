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
from orchard.formats.json_text import arguments
from orchard.formats.schema import Signatures, signatures
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Parser

_NO_NAME = "<> \n"


class AddressedFamily(Struct, frozen=True):
    """How a family addresses its messages. A header is `role`, `to`, the recipient and `body`.

    `ends` are what a message ends with, beside the next header. `user` and `own` are the recipients of answers and of
    reasoning. `named`: only these and tools are recipients; what else looks like a header is text. `call` reads the
    call, or the calls, of a message to a tool; `grammar` is what one looks like, `trigger` a text that only calls have.
    """

    name: str
    role: str
    to: str
    body: str
    ends: tuple[str, ...]
    user: str
    own: str | None
    named: bool
    call: Callable[[CallEmitter, str], Parser[None]]
    grammar: Callable[[Tool], CallGrammar]
    trigger: str = ""

    @property
    def reasoning_tags(self) -> tuple[str, str] | None:
        """The texts that open and end the reasoning."""
        return (self.header(self.own), self.ends[0]) if self.own else None

    @property
    def headers(self) -> Headers:
        """What the model writes before its answer, and between two messages."""
        return Headers(self.header(self.user), f"{self.ends[0]}{self.role}" if self.ends else self.role)

    def header(self, recipient: str) -> str:
        """Return what the model writes before a message where the prompt has opened it."""
        return f"{self.to}{recipient}{self.body}"

    def begin(self, prompt: str, tools: Sequence[Tool] = (), *, forced: bool = False) -> Format:
        """Make the format of one answer to a rendered prompt."""
        _, started, last = prompt.rpartition(self.role)
        recipient, opened, _ = last.partition(self.body)
        begun = recipient.removeprefix(self.to) if started and opened else None
        return Addressed(self, signatures(tools), begun, forced=forced)

    def calls(self, tools: Sequence[Tool]) -> CallsGrammar:
        """Return what the model would write for calls of these tools, where the prompt has opened a header."""
        return CallsGrammar(self.trigger, "", tuple(map(self.grammar, tools)), self.headers.between, "")


class Addressed(Format):
    """One answer."""

    def __init__(
        self, family: AddressedFamily, tools: Signatures, begun: str | None = None, *, forced: bool = False
    ) -> None:
        """`begun`: the recipient of the message in which the prompt ends."""
        super().__init__(tools, forced=forced)
        self.thinking = begun is not None and begun == family.own
        self._family = family
        self._begun = begun
        names = (family.user, *([family.own] if family.own else []), *tools)
        self._known = {family.header(name): name for name in names} | ({} if family.named else {family.body: ""})

    def _read(self) -> Parser[None]:
        """Read the answer, message by message. It ends with OutputEnded only."""
        recipient = self._begun
        if recipient is None:
            recipient = yield from self._recipient()
        while True:
            recipient = yield from self._message(recipient)
            if recipient is None and (yield from self._reader.leading((self._family.role,))):
                recipient = yield from self._recipient()

    def _recipient(self) -> Parser[str | None]:
        """Read a header from behind its role; return the recipient, or None where none stands here.

        What was read until then, the role included, is still to be given out.
        """
        reader, family = self._reader, self._family
        if found := (yield from reader.choice(self._known, ends=self._known)):
            return self._known[found]
        if family.named or not (yield from reader.choice((family.to,))):
            return None
        try:
            return (yield from reader.word(family.body, _NO_NAME))
        except OutputEnded:
            raise
        except MalformedOutput:
            return None

    def _message(self, recipient: str | None) -> Parser[str | None]:
        """Read a message, over what ends it; return the recipient of the next one, where that is its header."""
        if recipient is None:
            self._content(self._reader.kept())
        self._reader.mark()
        if recipient == self._family.own and recipient:
            self.thinking = True
            following = yield from self._text(self._thought)
            self.thinking = following == recipient
            return following
        if recipient and recipient != self._family.user and self._tools:
            return (yield from self._calls(recipient))
        return (yield from self._text(self._content))

    def _calls(self, name: str) -> Parser[str | None]:
        reader = self._reader
        calls = CallEmitter(reader, self._tools, self._out, forced=self._forced)
        try:
            yield from self._family.call(calls, name)
            yield from reader.skip()
            reader.mark()
        except MalformedOutput as broken:
            if isinstance(broken, OutputEnded):
                reader.at = len(reader.text)
                if reader.cut_off:
                    calls.cut_off()
                    raise
            self.notes.append(calls.failure(broken))
            if calls.certain:
                calls.raw(reader.kept())
                following = yield from self._text(calls.raw)
                calls.end()
                return following
            self._content(reader.kept())
        return (yield from self._text(self._content))

    def _text(self, emit: Callable[[str], object]) -> Parser[str | None]:
        """Read up to a message's end, over it; `emit` gets what stands before. Return the recipient of the next one."""
        reader, role = self._reader, self._family.role
        while True:
            place, tag = reader.first_of((*self._family.ends, role))
            if place > reader.at:
                text, reader.at = reader.text[reader.at : place], place
                emit(text)
            reader.mark()
            if not tag:
                yield from reader.more()
                continue
            reader.at += len(tag)
            if tag != role:
                reader.mark()
                return None
            if (recipient := (yield from self._recipient())) is not None:
                return recipient
            emit(reader.kept())


def _json(calls: CallEmitter, name: str) -> Parser[None]:
    """Read a call's arguments."""
    yield from calls.reader.skip()
    yield from arguments(calls.reader, calls.start(name), calls.arguments, (">>>",))
    calls.end()
    yield from calls.following()


def _json_grammar(tool: Tool) -> CallGrammar:
    return CallGrammar(tool.name, f"{tool.name}\n", json_arguments(tool), "")


def _atem(calls: CallEmitter, name: str) -> Parser[None]:
    """Read calls in tags, which name their tools themselves."""
    opener = yield from calls.reader.leading(ATEM.opens)
    if opener is None:
        raise MalformedOutput
    while opener:
        yield from ATEM.read(calls, opener)
        opener = yield from calls.reader.leading(ATEM.opens)


def _atem_grammar(tool: Tool) -> CallGrammar:
    call = ATEM.call(tool)
    return replace(call, begin=f" to={tool.name}<|message|>{ATEM.prefix}{call.begin}", end=f"{call.end}{ATEM.suffix}")


FUNCTIONARY_3_2 = AddressedFamily("functionary_v3_2", ">>>", "", "\n", (), "all", None, True, _json, _json_grammar)
MUSE = AddressedFamily(
    "muse_glimmer",
    "<|start|>assistant",
    " to=",
    "<|message|>",
    ("<|eom|>", "<|eot|>"),
    "user",
    "self",
    False,
    _atem,
    _atem_grammar,
    ATEM.opens[0],
)
