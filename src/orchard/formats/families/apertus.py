"""Calls of Apertus: a list of objects, each with the tool's name as its one key and the arguments as its value.

`<|tools_prefix|>[{"name": {…}}]<|tools_suffix|>`: https://github.com/swiss-ai/apertus_format/blob/main/docs/format.md
"""

import json

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, json_arguments
from orchard.formats.calls import CallEmitter, CallSyntax
from orchard.formats.json_text import arguments, plain
from orchard.formats.text_reader import MalformedOutput, Reading


class ApertusCalls(CallSyntax, frozen=True, kw_only=True):
    """Apertus' calls."""

    def read(self, calls: CallEmitter, opener: str) -> Reading[None]:
        """Read a list of calls, and the tag that ends it."""
        source = calls.source
        yield from source.expect("[")
        while True:
            yield from _call(calls)
            mark = yield from source.leading((",", "]"))
            if mark == "]":
                yield from source.leading((self.closes,))
            if mark != ",":
                return

    def call(self, tool: Tool) -> CallGrammar:
        """Return what one call of a tool looks like."""
        return CallGrammar(tool.name, f"{{{json.dumps(tool.name)}: ", json_arguments(tool), "}")


def _call(calls: CallEmitter) -> Reading[None]:
    source = calls.source
    yield from source.expect("{")
    yield from source.skip()
    name = yield from plain(source)
    if not name:
        raise MalformedOutput
    yield from source.expect(":")
    yield from source.skip()
    yield from arguments(source, calls.start(name), calls.arguments)
    yield from calls.close("}")


APERTUS = ApertusCalls(
    opens=("<|tools_prefix|>",),
    closes="<|tools_suffix|>",
    prefix="<|tools_prefix|>[",
    separator=", ",
    suffix="]<|tools_suffix|>",
)
