"""Calls of which each argument stands in a tag that says its name.

- Qwen3-Coder, Qwen3.5, Nemotron 3: https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct/blob/main/chat_template.jinja
- MiniMax M2: https://huggingface.co/MiniMaxAI/MiniMax-M2/blob/main/docs/tool_calling_guide.md
- Step3: https://huggingface.co/stepfun-ai/step3/blob/main/chat_template.jinja
- MiniCPM5: https://huggingface.co/openbmb/MiniCPM5-1B/blob/main/chat_template.jinja
- Muse Glimmer: https://huggingface.co/meta-models/Muse-Glimmer-30B/blob/main/chat_template.jinja
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape
from orchard.formats.calls import Region
from orchard.formats.families.json_calls import read_call
from orchard.formats.schema import Signature
from orchard.formats.text_reader import MalformedOutput, Reading
from orchard.formats.xml_values import Arguments, body_shape

_CDATA, _END_CDATA = "<![CDATA[", "]]>"


class XmlCalls(Struct, frozen=True):
    """Calls as tags. `call` and `parameter` are what opens a call and a parameter, up to its name; a ">" ends that.

    Some models leave out what opens the region, so `call` opens one too. `region` "": all of them do, and `closes` is
    what ends a call. `quote` stands around names. `newlines`: each value stands on lines of its own. `one_call`: the
    model writes one call a region. `line`: what it writes between tags. `cdata`: a value may stand in a CDATA section.
    """

    region: str
    closes: str
    call: str
    end_call: str
    parameter: str
    end_parameter: str
    quote: str = ""
    newlines: bool = False
    one_call: bool = False
    line: str = "\n"
    cdata: bool = False

    @property
    def opens(self) -> tuple[str, ...]:
        """The texts that open a region."""
        return (self.region, self.call) if self.region else (self.call,)

    @property
    def leads(self) -> tuple[str, ...]:
        """None: every call has an opener of its own."""
        return ()

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read the calls of a region."""
        source = region.source
        if opener == self.region:
            if (yield from source.skip()) == "{":  # as in Hermes' format, which the template may not show
                yield from read_call(region)
                yield from region.close(self.closes)
                return
            yield from source.literal(self.call)
        while True:
            if (yield from self._call(region)) == self.closes:
                region.end()
                return
            if (yield from region.close(self.closes)) or not (yield from source.leading((self.call,))):
                return

    def _call(self, region: Region) -> Reading[str]:
        """Read a call from behind what opens it, with the tag that ends it; gives that tag: it may be the region's."""
        source = region.source
        name = yield from self._name(region)
        arguments = Arguments(region, region.start(name), newlines=self.newlines)
        follows = (self.parameter, self.end_call, self.closes)
        while True:
            yield from source.skip()
            tag = yield from source.choice(follows, ends=follows[1:])
            if tag is None:
                raise MalformedOutput
            if tag != self.parameter:
                break
            # Qwen's models forget the last parameter's end tag now and then.
            without = (self.end_call, self.closes, self.region) if self.region else ()
            name = yield from self._name(region)
            close = self.end_parameter
            if self.cdata and (yield from source.choice((_CDATA,))):
                close = f"{_END_CDATA}{close}"
            yield from arguments.read(name, close, follows, without)
        arguments.end()
        return tag

    def _name(self, region: Region) -> Reading[str]:
        name = (yield from region.source.word(">", "<\n")).strip().strip("\"'")
        if not name:
            raise MalformedOutput
        return name

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        line = "\n" if self.newlines else ""

        def opening(name: str, _: frozenset[str]) -> tuple[str]:
            return (f"{self.parameter}{self.quote}{name}{self.quote}>{line}",)

        # A separator and a suffix that begin alike can't be told apart letter by letter: each call ends its own line.
        before, after = (f"{self.region}\n", f"\n{self.closes}") if self.region else ("", "")
        calls = tuple(
            CallShape(
                tool.name,
                f"{before if self.one_call else ''}{self.call}{self.quote}{tool.name}{self.quote}>{self.line}",
                body_shape(Signature(tool), opening, (f"{line}{self.end_parameter}{self.line}",)),
                f"{self.end_call}{after if self.one_call else after[0]}",
            )
            for tool in tools
        )
        if self.one_call:
            return CallsShape(self.opens[0], "", calls, "\n", "")
        return CallsShape(self.region, before, calls, "", after[1:])


QWEN = XmlCalls(
    region="<tool_call>",
    closes="</tool_call>",
    call="<function=",
    end_call="</function>",
    parameter="<parameter=",
    end_parameter="</parameter>",
    newlines=True,
    one_call=True,
)
SEED = msgspec.structs.replace(QWEN, region="<seed:tool_call>", closes="</seed:tool_call>", newlines=False)
MINIMAX = XmlCalls(
    region="<minimax:tool_call>",
    closes="</minimax:tool_call>",
    call="<invoke name=",
    end_call="</invoke>",
    parameter="<parameter name=",
    end_parameter="</parameter>",
    quote='"',
)
STEP = XmlCalls(
    region="<｜tool_calls_begin｜>",
    closes="<｜tool_calls_end｜>",
    call="<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=",
    end_call="</steptml:invoke><｜tool_call_end｜>",
    parameter="<steptml:parameter name=",
    end_parameter="</steptml:parameter>",
    quote='"',
)
MINICPM = XmlCalls(
    region="",
    closes="</function>",
    call="<function name=",
    end_call="</function>",
    parameter="<param name=",
    end_parameter="</param>",
    quote='"',
    one_call=True,
    line="",
    cdata=True,
)
ATEM = XmlCalls(
    region="<atem:function_calls>",
    closes="</atem:function_calls>",
    call="<atem:invoke name=",
    end_call="</atem:invoke>",
    parameter="<atem:parameter name=",
    end_parameter="</atem:parameter>",
    quote='"',
)
