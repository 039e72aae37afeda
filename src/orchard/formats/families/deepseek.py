"""Calls of DeepSeek.

- V3, R1: `function`, the name, and JSON arguments in a fenced block:
  https://huggingface.co/deepseek-ai/DeepSeek-V3-0324/blob/main/tokenizer_config.json
- V3.1: a name and JSON arguments: https://huggingface.co/deepseek-ai/DeepSeek-V3.1/blob/main/tokenizer_config.json
- V3.2: each argument in a tag of its own that says whether it is a string:
  https://huggingface.co/deepseek-ai/DeepSeek-V3.2/blob/main/encoding/encoding_dsv32.py; V4 names the outer tag anew
"""

from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape, json_body, parameters
from orchard.formats.calls import Region, read_section
from orchard.formats.families.json_calls import read_arguments
from orchard.formats.schema import Signature
from orchard.formats.text_reader import MalformedOutput, Reading
from orchard.formats.typed_value import OTHERS, Types
from orchard.formats.xml_values import TEXT, Arguments, body_shape, may_be_text

_SECTION, _END_SECTION = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _SEPARATOR, _END_CALL = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
_MARK = "｜DSML｜"
_SAID = {'string="true"': TEXT, 'string="false"': OTHERS}


class DeepSeekCalls(Struct, frozen=True):
    """Calls with JSON arguments. Read is either kind; `fenced`: the model writes as V3 does."""

    fenced: bool
    opens: tuple[str, ...] = (_SECTION, _CALL)
    leads: tuple[str, ...] = ()
    closes: str = _END_SECTION

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read calls, and the tag that ends them all."""
        yield from read_section(region, opener, (_SECTION, _CALL, _END_SECTION), _call)

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        before, between, after = ("function", "\n```json\n", "\n```") if self.fenced else ("", _SEPARATOR, "")
        head = f"{_CALL}{before}{_SEPARATOR}" if self.fenced else _CALL
        calls = tuple(
            CallShape(tool.name, f"{head}{tool.name}{between}", json_body(parameters(tool)), f"{after}{_END_CALL}")
            for tool in tools
        )
        return CallsShape(_SECTION, _SECTION, calls, "\n" if self.fenced else "", _END_SECTION)


def _call(region: Region) -> Reading[None]:
    source = region.source
    name = (yield from source.word(_SEPARATOR, "\n{")).strip()
    if (yield from source.skip()) != "{":
        name = (yield from source.word("\n", "{<")).strip()
    yield from read_arguments(region, name, _END_CALL)


class DsmlCalls(Struct, frozen=True):
    """Calls as tags; `section` is the name of the tag around them all."""

    section: str
    leads: tuple[str, ...] = ()

    @property
    def opens(self) -> tuple[str, str]:
        """The texts that open calls: V3.2 leaves the outer tag out now and then."""
        return f"<{_MARK}{self.section}>", f"<{_MARK}invoke name="

    @property
    def closes(self) -> str:
        """The text that ends all calls."""
        return f"</{_MARK}{self.section}>"

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read calls, and the tag that ends them all."""
        yield from read_section(region, opener, (*self.opens, self.closes), _invoked)

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools."""
        section, invoke = self.opens
        close = (f"</{_MARK}parameter>", "\n")
        calls = tuple(
            CallShape(
                tool.name,
                f'{invoke}"{tool.name}">\n',
                body_shape(Signature(tool), _opening, close, tuple(_SAID.values())),
                f"</{_MARK}invoke>\n",
            )
            for tool in tools
        )
        return CallsShape(section, f"{section}\n", calls, "", self.closes)


def _invoked(region: Region) -> Reading[None]:
    source = region.source
    name = yield from _quoted(region)
    yield from source.literal(">")
    written = Arguments(region, region.start(name), newlines=False)
    end, tags = f"</{_MARK}invoke>", (f"<{_MARK}parameter name=", f"</{_MARK}invoke>")
    while True:
        yield from source.skip()
        tag = yield from source.choice(tags, ends=tags[1:])
        if tag is None:
            raise MalformedOutput
        if tag == end:
            break
        parameter = yield from _quoted(region)
        attribute = (yield from source.word(">", "<\n")).strip()
        said = _SAID.get(attribute, frozenset())
        yield from written.read(parameter, f"</{_MARK}parameter>", tags, said=said)
    written.end()
    region.end()


def _quoted(region: Region) -> Reading[str]:
    """Read a name in quotes."""
    yield from region.source.literal('"')
    name = yield from region.source.word('"', "<>\n")
    if not name:
        raise MalformedOutput
    return name


def _opening(name: str, types: Types) -> tuple[str]:
    return (f'<{_MARK}parameter name="{name}" string="{"true" if may_be_text(types) else "false"}">',)


V3 = DeepSeekCalls(fenced=True)
V31 = DeepSeekCalls(fenced=False)
V32 = DsmlCalls("function_calls")
V4 = DsmlCalls("tool_calls")
