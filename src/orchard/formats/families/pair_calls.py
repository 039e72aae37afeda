"""Calls as a name and pairs of tagged keys and values.

- GLM-4.5 and 4.6: https://huggingface.co/zai-org/GLM-4.6/blob/main/chat_template.jinja; 4.7 leaves the newlines out
- LongCat: https://huggingface.co/meituan-longcat/LongCat-Flash-Chat/blob/main/chat_template.jinja
- Hy3: https://huggingface.co/tencent/Hy3/blob/main/chat_template.jinja; its calls stand in a section
"""

from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape
from orchard.formats.calls import Region, read_section
from orchard.formats.families.json_calls import read_call
from orchard.formats.schema import Signature
from orchard.formats.text_reader import MalformedOutput, Reading
from orchard.formats.xml_values import Arguments, body_shape


class PairCalls(Struct, frozen=True):
    """Calls as pairs. `tag` stands before the names of all tags, `mark` behind them; `line` is what the model writes
    between tags. `section`: there is a section around calls, and a tag behind the name of each.
    """

    tag: str = ""
    mark: str = ""
    line: str = "\n"
    section: bool = False

    @property
    def opens(self) -> tuple[str, ...]:
        """The texts that open a region."""
        return (self._tag("tool_calls"), self._tag("tool_call")) if self.section else (self._tag("tool_call"),)

    @property
    def leads(self) -> tuple[str, ...]:
        """None: every call has its opener."""
        return ()

    @property
    def closes(self) -> str:
        """The text that ends a region."""
        return self._tag("/tool_calls" if self.section else "/tool_call")

    @property
    def _tags(self) -> tuple[str, ...]:
        """The tags around a key and around a value."""
        return tuple(self._tag(f"{mark}arg_{part}") for part in ("key", "value") for mark in ("", "/"))

    def _tag(self, name: str) -> str:
        end = "/" if name.startswith("/") else ""
        return f"<{end}{self.tag}{name.removeprefix(end)}{self.mark}>"

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read the calls of a region; LongCat's and some of GLM's are JSON."""
        source = region.source
        if self.section:
            section, call = self.opens
            yield from read_section(region, opener, (section, call, self.closes), self._call)
        elif (yield from source.skip()) == "{":
            yield from read_call(region)
            yield from region.close(self.closes)
        else:
            yield from self._call(region)

    def _call(self, region: Region) -> Reading[None]:
        source, close = region.source, self._tag("/tool_call")
        key, end_key, value, end_value = self._tags
        yield from source.skip()
        name = yield from source.name()
        if self.section:
            yield from source.leading((self._tag("tool_sep"),))
        arguments = Arguments(region, region.start(name), newlines=False)
        while True:
            yield from source.skip()
            tag = yield from source.choice((key, close), ends=(close,))
            if tag is None:
                raise MalformedOutput
            if tag == close:
                break
            parameter = yield from source.word(end_key, "<\n")
            yield from source.skip()
            yield from source.literal(value)
            yield from arguments.read(parameter.strip(), end_value, (key, close))
        arguments.end()
        region.end()

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        key, end_key, value, end_value = self._tags

        def opening(name: str, _: frozenset[str]) -> tuple[str, ...]:
            return key, name, end_key, self.line, value

        behind_name = self._tag("tool_sep") if self.section else ""
        calls = tuple(
            CallShape(
                tool.name,
                f"{self._tag('tool_call')}{tool.name}{behind_name}{self.line}",
                body_shape(Signature(tool), opening, (end_value, self.line)),
                f"{self._tag('/tool_call')}{self.line if self.section else ''}",
                self._tags,
            )
            for tool in tools
        )
        if self.section:
            return CallsShape(self.opens[0], f"{self.opens[0]}{self.line}", calls, "", self.closes)
        return CallsShape(self.opens[0], "", calls, "\n", "")


GLM = PairCalls()
GLM_4_7 = PairCalls(line="")
LONGCAT = PairCalls(tag="longcat_")
HY3 = PairCalls(mark=":opensource", section=True)
