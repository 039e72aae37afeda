"""Calls of Kimi K2: `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>` in a section.

https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/tool_call_guidance.md

What stands before the arguments is the call's id: the chat template shows it to the model again, so it is kept.
"""

import json
import re
from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape, json_body, parameters
from orchard.formats.calls import Region, read_section
from orchard.formats.json_text import arguments
from orchard.formats.text_reader import MalformedOutput, Reading

_SECTION, _END_SECTION = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
_CALL, _ARGUMENTS, _END_CALL = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_ID = re.compile(r"(?:functions\.)?(.+?)(?::[0-9]+)?", re.DOTALL)


class KimiCalls(Struct, frozen=True):
    """Kimi K2's calls."""

    opens: tuple[str, ...] = (_SECTION, _CALL)
    leads: tuple[str, ...] = ()
    closes: str = _END_SECTION

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read calls, and the tag that ends them all."""
        yield from read_section(region, opener, (_SECTION, _CALL, _END_SECTION), _call)

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools; it counts its calls itself."""
        calls = tuple(
            CallShape(
                tool.name,
                f"{_CALL}functions.{tool.name}:",
                f"/[0-9]{{1,4}}/ {json.dumps(_ARGUMENTS)} {json_body(parameters(tool))}",
                _END_CALL,
                (_ARGUMENTS,),
            )
            for tool in tools
        )
        return CallsShape(_SECTION, _SECTION, calls, "", _END_SECTION)


def _call(region: Region) -> Reading[None]:
    source = region.source
    id_ = (yield from source.word(_ARGUMENTS, "\n{")).strip()
    found = _ID.fullmatch(id_)
    if not found or found[1].isdecimal():  # a number names no tool
        raise MalformedOutput
    signature = region.start(found[1], id_)
    yield from source.skip()
    yield from arguments(source, signature, region.arguments)
    yield from region.close(_END_CALL)


KIMI = KimiCalls()
