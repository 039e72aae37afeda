"""Calls written as Python: `[f(a=1, b="x"), g()]`, bare, in tags or in a fenced block.

- Llama 3.2 and 4: https://github.com/meta-llama/llama-models/blob/main/models/llama3_2/text_prompt_format.md (a list,
  mostly bare, sometimes in `<|python_start|>`)
- Olmo 3: https://huggingface.co/allenai/Olmo-3-7B-Instruct/blob/main/chat_template.jinja (one call a line, in tags)
- LFM2: https://huggingface.co/LiquidAI/LFM2-1.2B/blob/main/chat_template.jinja (a list, in tags)
- Gemma 3: https://ai.google.dev/gemma/docs/capabilities/function-calling (a fenced block called `tool_code`)
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape
from orchard.formats.calls import Region
from orchard.formats.families.json_calls import JsonCalls
from orchard.formats.literal_grammars import keywords, python_value
from orchard.formats.literals import PYTHON, arguments, run_of
from orchard.formats.text_reader import MalformedOutput, Reading

_NAME_CHARS = re.compile(r"[\w.\-]*")
_NAME = re.compile(r"[^\W\d][\w.\-]*")


class Pythonic(Struct, frozen=True):
    """Calls as Python. Read are one call or several, in a list or not; between tags as JSON, too.

    In a list without a tag, only tools that there are can be called. `prefix`, `separator` and `suffix` are how the
    family writes what stands around its calls. `wrapper` is a function that a call may stand in, `module` what may
    stand before its name.
    """

    opens: tuple[str, ...] = ()
    leads: tuple[str, ...] = ()
    closes: str = ""
    prefix: str = "["
    separator: str = ", "
    suffix: str = "]"
    wrapper: str = ""
    module: str = ""

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read the calls behind an opener, which may itself be a list's bracket."""
        source = region.source
        bare = opener.endswith("[")
        if not bare and (lead := (yield from source.leading(("[{", "{")))):
            yield from JsonCalls(closes=self.closes).read(region, lead)
            return
        in_list = bare or (yield from source.leading(("[",))) is not None
        ends = (self.closes,) if self.closes and not bare else ()
        while True:
            yield from self._call(region, known=bare)
            tag = yield from region.close(",", "]") if in_list else region.close(",", *ends)
            if tag == "]" or (tag and in_list and (yield from source.leading(("]",)))):
                yield from source.leading(ends)
            elif tag == "," or (tag is None and not in_list and source.at < len(source.text)):
                continue
            return

    def _call(self, region: Region, *, known: bool) -> Reading[None]:
        """Read a call, all but its end."""
        source = region.source
        name = yield from self._opened(region)
        wrapped = name == self.wrapper and name not in region.tools
        if wrapped:
            name = yield from self._opened(region)
        if (short := name.removeprefix(self.module)) in region.tools:
            name = short
        if not _NAME.fullmatch(name) or (known and name not in region.tools):
            raise MalformedOutput
        signature = region.start(name)
        yield from arguments(source, PYTHON, signature, region.arguments)
        if wrapped:
            yield from source.skip()
            yield from source.literal(")")

    def _opened(self, region: Region) -> Reading[str]:
        """Read a name and the bracket behind it."""
        source = region.source
        yield from source.skip()
        name = yield from run_of(source, _NAME_CHARS)
        yield from source.skip()
        yield from source.literal("(")
        return name

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        calls = tuple(
            CallShape(tool.name, f"{tool.name}(", keywords(tool, "=", ", ", python_value), ")") for tool in tools
        )
        trigger = next((opener for opener in self.opens if self.prefix.startswith(opener)), "")
        return CallsShape(trigger, self.prefix, calls, self.separator, self.suffix)


PYTHONIC = Pythonic(("<|python_start|>", "\n["), ("[",), "<|python_end|>")
OLMO = Pythonic(("<function_calls>",), (), "</function_calls>", "<function_calls>", "\n", "</function_calls>")
LFM = Pythonic(("<|tool_call_start|>",), (), "<|tool_call_end|>", "<|tool_call_start|>[", ", ", "]<|tool_call_end|>")
GEMMA3 = Pythonic(
    ("```tool_code",), (), "```", "```tool_code\n", "\n", "\n```", wrapper="print", module="default_api."
)  # fmt: skip
