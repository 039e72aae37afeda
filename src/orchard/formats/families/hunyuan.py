"""Calls of Hunyuan: in a section, each a name and JSON arguments in a fenced block.

`<tool_calls><tool_call>name\\n```json\\n{…}\\n```</tool_call></tool_calls>`, or a list of JSON objects in the section:
https://huggingface.co/tencent/Hunyuan-7B-Instruct

Jamba and MiniMax M1 have the same section, and JSON objects in it.
"""

from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape, json_body, parameters
from orchard.formats.calls import Region, read_section
from orchard.formats.families.json_calls import TOOL_CALLS, read_arguments
from orchard.formats.text_reader import Reading

_SECTION, _END_SECTION = "<tool_calls>", "</tool_calls>"
_CALL, _END_CALL = "<tool_call>", "</tool_call>"


class HunyuanCalls(Struct, frozen=True):
    """Hunyuan's calls. Read is either kind; `fenced`: the model writes names and fenced blocks."""

    fenced: bool
    opens: tuple[str, ...] = (_SECTION,)
    leads: tuple[str, ...] = ()
    closes: str = _END_SECTION

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read calls, and the tag that ends them all."""
        if (yield from region.source.skip()) == "<":
            yield from read_section(region, opener, (_SECTION, _CALL, _END_SECTION), _call)
        else:
            yield from TOOL_CALLS.read(region, opener)

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        if not self.fenced:
            return TOOL_CALLS.shape(tools)
        calls = tuple(
            CallShape(
                tool.name,
                f"{_CALL}{tool.name}\n```json\n",
                json_body(parameters(tool)),
                f"\n```{_END_CALL}",
            )
            for tool in tools
        )
        return CallsShape(_SECTION, _SECTION, calls, "\n", _END_SECTION)


def _call(region: Region) -> Reading[None]:
    name = yield from region.source.word("\n", "{<")
    yield from read_arguments(region, name.strip(), _END_CALL)


HUNYUAN = HunyuanCalls(fenced=True)
HUNYUAN_LIST = HunyuanCalls(fenced=False)
