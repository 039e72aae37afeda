"""Calls of Apertus: a list of objects, each with the tool's name as its one key and the arguments as its value.

`<|tools_prefix|>[{"name": {…}}]<|tools_suffix|>`: https://github.com/swiss-ai/apertus_format/blob/main/docs/format.md
"""

import json
from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape, json_body, parameters
from orchard.formats.calls import Region
from orchard.formats.json_text import arguments, plain
from orchard.formats.text_reader import MalformedOutput, Reading

_SECTION, _END_SECTION = "<|tools_prefix|>", "<|tools_suffix|>"


class ApertusCalls(Struct, frozen=True):
    """Apertus' calls."""

    opens: tuple[str, ...] = (_SECTION,)
    leads: tuple[str, ...] = ()
    closes: str = _END_SECTION

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read a list of calls, and the tag that ends it."""
        source = region.source
        yield from source.skip()
        yield from source.literal("[")
        while True:
            yield from _call(region)
            mark = yield from source.leading((",", "]"))
            if mark == "]":
                yield from source.leading((_END_SECTION,))
            if mark != ",":
                return

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        calls = tuple(
            CallShape(tool.name, f"{{{json.dumps(tool.name)}: ", json_body(parameters(tool)), "}") for tool in tools
        )
        return CallsShape(_SECTION, f"{_SECTION}[", calls, ", ", f"]{_END_SECTION}")


def _call(region: Region) -> Reading[None]:
    source = region.source
    yield from source.skip()
    yield from source.literal("{")
    yield from source.skip()
    name = yield from plain(source)
    if not name:
        raise MalformedOutput
    yield from source.skip()
    yield from source.literal(":")
    yield from source.skip()
    yield from arguments(source, region.start(name), region.arguments)
    yield from region.close("}")


APERTUS = ApertusCalls()
