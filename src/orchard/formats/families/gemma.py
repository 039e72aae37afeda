"""Calls in the notation of Gemma: `call:name{key:value,…}` in tags, with strings between tags of their own.

- FunctionGemma: https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices
- Gemma 4: https://ai.google.dev/gemma/docs/core/prompt-formatting-gemma4
"""

from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape
from orchard.formats.calls import Region
from orchard.formats.literal_grammars import keywords, quoted_value
from orchard.formats.literals import Notation, arguments
from orchard.formats.text_reader import MalformedOutput, Reading

_CALL = "call:"


class GemmaCalls(Struct, frozen=True):
    """One call between `opener` and `closes`; `quote` stands around strings. Strings as in JSON are read as well."""

    opener: str
    closes: str
    quote: str

    @property
    def opens(self) -> tuple[str, ...]:
        """The tag that opens a call."""
        return (self.opener,)

    @property
    def leads(self) -> tuple[str, ...]:
        """Nothing else opens one."""
        return ()

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read a call and its end tag."""
        source = region.source
        yield from source.skip()
        yield from source.literal(_CALL)
        name = (yield from source.word("{", "\n<}")).strip()
        if not name:
            raise MalformedOutput
        signature = region.start(name)
        yield from arguments(source, Notation((self.quote, '"'), ":", "}", words=True), signature, region.arguments)
        yield from region.close(self.closes)

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        value = quoted_value(self.quote)
        calls = tuple(
            CallShape(
                tool.name,
                f"{self.opener}{_CALL}{tool.name}{{",
                keywords(tool, ":", ",", value),
                f"}}{self.closes}",
                (self.quote,),
            )
            for tool in tools
        )
        return CallsShape(self.opener, "", calls, "", "")


FUNCTION_GEMMA = GemmaCalls("<start_function_call>", "<end_function_call>", "<escape>")
GEMMA4 = GemmaCalls("<|tool_call>", "<tool_call|>", '<|"|>')
