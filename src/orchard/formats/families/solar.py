"""Calls of Solar Open: in a section, each with an id, a name and JSON arguments.

`<|tool_call:begin|>id<|tool_call:name|>name<|tool_call:args|>{…}<|tool_call:end|>`:
https://huggingface.co/upstage/Solar-Open-100B/blob/main/chat_template.jinja

The chat template shows a call's id to the model again, so it is kept.
"""

import json
from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape, json_body, literal, parameters
from orchard.formats.calls import Region, read_section
from orchard.formats.json_text import arguments
from orchard.formats.text_reader import MalformedOutput, Reading

_SECTION, _END_SECTION = "<|tool_calls|>", "<|calls|>"
_CALL, _NAME, _ARGUMENTS, _END_CALL = (f"<|tool_call:{part}|>" for part in ("begin", "name", "args", "end"))


class SolarCalls(Struct, frozen=True):
    """Solar Open's calls."""

    opens: tuple[str, ...] = (_SECTION, _CALL)
    leads: tuple[str, ...] = ()
    closes: str = _END_SECTION

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read calls, and the tag that ends them all."""
        yield from read_section(region, opener, (_SECTION, _CALL, _END_SECTION), _call)

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools; it makes up their ids itself."""
        calls = tuple(
            CallShape(
                tool.name,
                _CALL,
                f"/[0-9A-Za-z_\\-]{{1,40}}/ {json.dumps(_NAME)} {literal(tool.name)} {json.dumps(_ARGUMENTS)} "
                f"{json_body(parameters(tool))}",
                _END_CALL,
                (_NAME, _ARGUMENTS),
            )
            for tool in tools
        )
        return CallsShape(_SECTION, _SECTION, calls, "", "")


def _call(region: Region) -> Reading[None]:
    source = region.source
    id_ = (yield from source.word(_NAME, "\n{")).strip()
    name = (yield from source.word(_ARGUMENTS, "\n{")).strip()
    if not name:
        raise MalformedOutput
    signature = region.start(name, id_ or None)
    yield from source.skip()
    yield from arguments(source, signature, region.arguments)
    yield from region.close(_END_CALL)


SOLAR = SolarCalls()
