"""Calls as a name in a tag with JSON arguments behind it: `<function=name>{…}</function>`.

- Functionary 3.1: https://github.com/MeetKai/functionary/blob/main/tests/prompt_test_v3-llama3.1.txt
- Llama 3.1, where it is asked to: https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1
"""

from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape, json_body, parameters
from orchard.formats.calls import Region
from orchard.formats.families.json_calls import read_arguments
from orchard.formats.text_reader import Reading

_CALL, _END_CALL = "<function=", "</function>"


class FunctionaryCalls(Struct, frozen=True):
    """The calls of Functionary 3.1, one after the other."""

    opens: tuple[str, ...] = (_CALL,)
    leads: tuple[str, ...] = ()
    closes: str = _END_CALL

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read one call and its end tag."""
        name = (yield from region.source.word(">", "<\n{")).strip().strip("\"'")
        yield from read_arguments(region, name, _END_CALL)

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Return what the model would write for one or more calls of these tools."""
        calls = tuple(
            CallShape(tool.name, f"{_CALL}{tool.name}>", json_body(parameters(tool)), _END_CALL) for tool in tools
        )
        return CallsShape(_CALL, "", calls, "", "")


FUNCTIONARY = FunctionaryCalls()
