"""What a family says of its calls, and what a reader of them works with."""

from collections.abc import Callable, Sequence
from typing import Protocol

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallsShape
from orchard.formats.format_events import CallArguments, CallEnd, CallStart, Piece
from orchard.formats.schema import Signature, Signatures
from orchard.formats.text_reader import Reading, TextReader

CERTAIN = 64
"""Characters of arguments from which on a call is not taken back."""


class Region:
    """A place where calls stand: a reader reads `source` and says what it finds.

    What it says is held back until the call is over or has enough arguments: where it breaks before that, it was text.
    """

    def __init__(self, source: TextReader, tools: Signatures, out: list[Piece], *, forced: bool = False) -> None:
        """`out` gets what is certain. `forced`: a grammar keeps the calls, and nothing is held back."""
        self.source = source
        self.tools = tools
        self.made = False  # a call was completed
        self.between = False  # what is being read is no part of the arguments
        self._out = out
        self._least = -1 if forced else CERTAIN
        self._start: CallStart | None = None  # of a call that is held back, with its arguments
        self._held: list[str] = []
        self._length = 0
        self._open = False

    @property
    def certain(self) -> bool:
        """Whether the call that is being read can't be taken back any more."""
        return self._open and self._length > self._least

    def start(self, name: str, id_: str | None = None) -> Signature | None:
        """Begin a call; gives what is known of its tool."""
        self._start = CallStart(name, id_)
        self._held.clear()
        self._length = 0
        self._open = True
        if self.certain:
            self._release()
        return self.tools.get(name)

    def arguments(self, text: str) -> None:
        """Give the next piece of the arguments; the model's text up to here is done with, once the call is certain."""
        self._length += len(text)
        self._held.append(text)
        if self.certain:
            self._release()

    def end(self) -> None:
        """Say that the call is over; it ends where the source is now."""
        self._release()
        self._out.append(CallEnd())
        self._open = False
        self.made = True

    def close(self, *tags: str) -> Reading[str | None]:
        """End the call with the first of the tags that follows, and read it; gives it.

        Where another text follows, the call ends here all the same: its arguments are complete. None is given then.
        """
        source = self.source
        tag = yield from source.leading(tags)
        if not tag and source.final:
            rest = source.text[source.at :].lstrip()
            if any(tag.startswith(rest) for tag in tags):  # the end has cut the tag off
                source.at = len(source.text)
        self.end()
        return tag

    def cut_off(self) -> bool:
        """Give what is certain of a call that a limit has cut off; whether there is one."""
        if self._open:
            self._release()
        return self._open

    def raw(self, text: str) -> None:
        """Give what a broken call goes on with, as the model wrote it."""
        if text:
            self._out.append(CallArguments(text))

    def _release(self) -> None:
        if self._start:
            self._out.append(self._start)
            self._start = None
        self.raw("".join(self._held))
        self._held.clear()
        self.source.mark()


def read_section(
    region: Region, opener: str, tags: tuple[str, str, str], call: Callable[[Region], Reading[None]]
) -> Reading[None]:
    """Read calls that stand in a section, one after the other, and the tag that ends them all.

    `tags` open the section (which may be missing), open a call, and end the section; `call` reads a call from behind
    its opening tag over its end.
    """
    begin, each, end = tags
    source = region.source
    if opener == begin:
        yield from source.skip()
        yield from source.literal(each)
    while True:
        yield from call(region)
        if not (yield from source.leading((each,))):
            break
    yield from source.leading((end,))


class Syntax(Protocol):
    """How a family writes calls."""

    @property
    def opens(self) -> tuple[str, ...]:
        """The texts that open a region of calls wherever they stand in an answer."""
        ...

    @property
    def leads(self) -> tuple[str, ...]:
        """The texts that open one only where the answer begins."""
        ...

    @property
    def closes(self) -> str:
        """The text that ends a region; "" where none does."""
        ...

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read a region from behind its `opener` to its end, which is read too.

        Raises MalformedOutput (or lets `TextReader` raise it) where no call stands. Returns where the region is over;
        what follows is text. For each call: `region.start`, `region.arguments` as they come, `region.end`.
        """
        ...

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        ...
