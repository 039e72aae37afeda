"""Mistral's calls: a list as JSON, or, since the tokenizer's version 11, one name with its arguments after the other.

https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/tokens/tokenizers/instruct.py
"""

from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape, json_body, parameters
from orchard.formats.calls import Region
from orchard.formats.families.json_calls import JsonCalls
from orchard.formats.json_text import arguments
from orchard.formats.text_reader import MalformedOutput, Reading

_CALLS, _ID, _ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"

_LIST = JsonCalls(opens=(_CALLS,), prefix=f"{_CALLS}[", separator=", ", suffix="]")


class MistralCalls(Struct, frozen=True):
    """Mistral's calls. `named`: the model writes names with arguments; `marked`: "[ARGS]" stands between the two.

    Every way is read.
    """

    named: bool = True
    marked: bool = True
    opens: tuple[str, ...] = (_CALLS,)
    leads: tuple[str, ...] = ()
    closes: str = ""

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read the calls behind one opener."""
        source = region.source
        if (yield from source.skip()) in "[{":
            yield from _LIST.read(region, opener)
            return
        while True:
            name = yield from source.name()
            id_ = None
            yield from source.skip()
            if (yield from source.choice((_ID,))):
                yield from source.skip()
                id_ = yield from source.name()
            yield from source.leading((_ARGUMENTS,))
            if (yield from source.skip()) != "{":
                raise MalformedOutput
            yield from arguments(source, region.start(name, id_), region.arguments)
            region.end()
            if not (yield from source.leading((_CALLS,))):
                return

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        if not self.named:
            return _LIST.shape(tools)
        mark = _ARGUMENTS if self.marked else ""
        calls = tuple(
            CallShape(tool.name, f"{_CALLS}{tool.name}{mark}", json_body(parameters(tool)), "") for tool in tools
        )
        return CallsShape(_CALLS, "", calls, "", "")


MISTRAL = MistralCalls()
MISTRAL_LIST = MistralCalls(named=False)
