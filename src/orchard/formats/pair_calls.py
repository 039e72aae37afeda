"""Calls as a name and pairs of tagged keys and values.

- GLM-4.5 and 4.6: https://huggingface.co/zai-org/GLM-4.6/blob/main/chat_template.jinja; 4.7 leaves the newlines out
- LongCat: https://huggingface.co/meituan-longcat/LongCat-Flash-Chat/blob/main/chat_template.jinja
"""

from collections.abc import Sequence

from msgspec import Struct

from orchard.core.request import Tool
from orchard.formats.calls import Region
from orchard.formats.json_calls import read_call
from orchard.formats.schema import Signature
from orchard.formats.shapes import CallShape, CallsShape
from orchard.formats.source import Broken, Reading
from orchard.formats.xml_values import Arguments, body_shape


class PairCalls(Struct, frozen=True):
    """Calls as pairs. `tag` stands before the names of all tags; `line` is what the model writes between them."""

    tag: str = ""
    line: str = "\n"

    @property
    def opens(self) -> tuple[str, ...]:
        """The text that opens a call."""
        return (f"<{self.tag}tool_call>",)

    @property
    def leads(self) -> tuple[str, ...]:
        """None: every call has its opener."""
        return ()

    @property
    def closes(self) -> str:
        """The text that ends a call."""
        return f"</{self.tag}tool_call>"

    @property
    def _tags(self) -> tuple[str, ...]:
        """The tags around a key and around a value."""
        return tuple(f"<{mark}{self.tag}arg_{part}>" for part in ("key", "value") for mark in ("", "/"))

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read one call; LongCat's and some of GLM's are JSON."""
        source = region.source
        if (yield from source.skip()) == "{":
            yield from read_call(region)
            yield from region.close(self.closes)
            return
        key, end_key, value, end_value = self._tags
        arguments = Arguments(region, region.start((yield from source.name())), newlines=False)
        while True:
            yield from source.skip()
            tag = yield from source.choice((key, self.closes), ends=(self.closes,))
            if tag is None:
                raise Broken
            if tag == self.closes:
                break
            name = yield from source.word(end_key, "<\n")
            yield from source.skip()
            yield from source.literal(value)
            yield from arguments.read(name.strip(), end_value, (key, self.closes))
        arguments.end()
        region.end()

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        key, end_key, value, end_value = self._tags

        def opening(name: str, _: frozenset[str]) -> tuple[str, ...]:
            return key, name, end_key, self.line, value

        calls = tuple(
            CallShape(
                tool.name,
                f"{self.opens[0]}{tool.name}{self.line}",
                body_shape(Signature(tool), opening, (end_value, self.line)),
                self.closes,
                self._tags,
            )
            for tool in tools
        )
        return CallsShape(self.opens[0], "", calls, "\n", "")


GLM = PairCalls()
GLM_4_7 = PairCalls(line="")
LONGCAT = PairCalls(tag="longcat_")
