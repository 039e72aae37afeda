"""Calls with each argument in a tag that says its name and its type.

- DeepSeek-V3.2: https://huggingface.co/deepseek-ai/DeepSeek-V3.2/blob/main/encoding/encoding_dsv32.py; its tags say
  whether an argument is a string. V4 names the outer tag anew. V4.1 does, too, and writes a space in each tag:
  https://huggingface.co/deepseek-ai/DeepSeek-V4.1-Flash/blob/main/encoding/encoding.py
- GigaChat 3.5 writes V4's tags with a mark of its own:
  https://github.com/ggml-org/llama.cpp/blob/master/models/templates/GigaChat3.5.jinja
- Kimi K3, whose tags are written as a token, text and a token:
  https://github.com/ggml-org/llama.cpp/blob/master/models/templates/Kimi-K3.jinja
"""

import re

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, Terminal, concatenation
from orchard.formats.calls import CallEmitter, SectionSyntax
from orchard.formats.json_text import read_json_arguments
from orchard.formats.schema import Signature
from orchard.formats.text_reader import MalformedOutput, Parser
from orchard.formats.xml_values import (
    NON_TEXT_TYPES,
    TEXT_TYPES,
    TaggedArguments,
    Types,
    arguments_grammar,
    may_be_text,
)

_TYPES_OF_ATTRIBUTE = {'string="true"': TEXT_TYPES, 'string="false"': NON_TEXT_TYPES}


class DsmlCalls(SectionSyntax, frozen=True, kw_only=True):
    """Calls as tags. `end_call` ends a call; `parameter` opens a parameter up to its name, `end_parameter` ends it."""

    end_call: str
    parameter: str
    end_parameter: str

    def read_call(self, calls: CallEmitter) -> Parser[None]:
        """Read a call from after its opening text to the tag that ends it, inclusive."""
        reader = calls.reader
        name = yield from _read_quoted_name(calls)
        yield from reader.expect(">")
        written = TaggedArguments(calls, calls.start(name), self.parameter, (self.end_call,), line="\n")
        without = (self.end_call, self.closes, self.opens[0])
        while (yield from written.read_tag()) == self.parameter:
            parameter = yield from _read_quoted_name(calls)
            attribute = (yield from reader.read_word(">", "<\n")).strip()
            yield from written.read_value(
                parameter, self.end_parameter, without, _TYPES_OF_ATTRIBUTE.get(attribute, frozenset())
            )
        calls.end()

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""

        def opening(name: str, types: Types) -> tuple[str]:
            return (f'{self.parameter}"{name}" string="{"true" if may_be_text(types) else "false"}">',)

        body = arguments_grammar(
            Signature(tool), opening, (self.end_parameter, "\n"), tuple(_TYPES_OF_ATTRIBUTE.values())
        )
        return CallGrammar(tool.name, f'{self.call_opener}"{tool.name}">\n', body, f"{self.end_call}\n")


def _read_quoted_name(calls: CallEmitter) -> Parser[str]:
    """Read a name in quotes."""
    yield from calls.reader.expect('"')
    name = yield from calls.reader.read_word('"', "<>\n")
    if not name:
        raise MalformedOutput
    return name


def _dsml_syntax(section: str, mark: str = "｜DSML｜") -> DsmlCalls:
    """Return the syntax of calls whose tags have a mark before their names."""
    opening, closing, each = f"<{mark}{section}>", f"</{mark}{section}>", f"<{mark}invoke name="
    return DsmlCalls(
        opens=(opening, each),  # V3.2 leaves the outer tag out now and then
        call_opener=each,
        end_call=f"</{mark}invoke>",
        parameter=f"<{mark}parameter name=",
        end_parameter=f"</{mark}parameter>",
        closes=closing,
        prefix=f"{opening}\n",
        suffix=closing,
    )


V32 = _dsml_syntax("function_calls")
V4 = _dsml_syntax("tool_calls")
V41 = _dsml_syntax("calls", "｜DSML｜ ")
GIGACHAT_3_5 = _dsml_syntax("tool_calls", "｜GCML｜")

_OPEN, _CLOSE, _SEP = "<|open|>", "<|close|>", "<|sep|>"
_SECTION, _END_SECTION = f"{_OPEN}tools{_SEP}", f"{_CLOSE}tools{_SEP}"
_K3_CALL, _K3_END_CALL = f"{_OPEN}call", f"{_CLOSE}call{_SEP}"
_ARGUMENT, _END_ARGUMENT = f"{_OPEN}argument", f"{_CLOSE}argument{_SEP}"
_JSON, _END_JSON = f"{_OPEN}json", f"{_CLOSE}json{_SEP}"
_KINDS = {"string": TEXT_TYPES, "number": Types({"number", "integer"})} | {
    kind: Types({kind}) for kind in ("boolean", "null", "array", "object")
}
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


class KimiK3Calls(SectionSyntax, frozen=True, kw_only=True):
    """Kimi K3's calls."""

    def read_call(self, calls: CallEmitter) -> Parser[None]:
        """Read a call from after its opening text to the tag that ends it, inclusive."""
        reader = calls.reader
        name = (yield from _read_attributes(calls, "tool"))["tool"]
        signature = calls.start(name)
        yield from reader.skip()
        if (yield from reader.accept((_JSON,))):
            yield from reader.read_word(_SEP, "<\n")
            yield from read_json_arguments(reader, signature, calls.add_arguments, (_END_JSON,))
            for tag in (_END_JSON, _K3_END_CALL):
                yield from reader.expect_spaced(tag)
        else:
            written = TaggedArguments(calls, signature, _ARGUMENT, (_K3_END_CALL,), head=_SEP)
            without = (_K3_END_CALL, self.closes, self.opens[0])
            while (yield from written.read_tag()) == _ARGUMENT:
                told = yield from _read_attributes(calls, "key")
                said = _KINDS.get(told.get("type", ""), frozenset())
                yield from written.read_value(told["key"], _END_ARGUMENT, without, said)
        calls.end()

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool; the model numbers its calls."""

        def opening(name: str, types: Types) -> tuple[str, ...]:
            known = "string" if may_be_text(types) else min(types - {"null"} or types)
            return _OPEN, f'argument key="{name}" type="{"number" if known == "integer" else known}"', _SEP

        close, kinds = (_CLOSE, "argument", _SEP), tuple(_KINDS.values())
        body = arguments_grammar(Signature(tool), opening, close, kinds)
        number = Terminal("/[0-9]{1,4}/")
        begin = f'{_K3_CALL} tool="{tool.name}" index="'
        return CallGrammar(tool.name, begin, concatenation(number, '"', _SEP, body), _K3_END_CALL)


def _read_attributes(calls: CallEmitter, wanted: str) -> Parser[dict[str, str]]:
    """Read the rest of a tag. Return its attributes, among them the one that is wanted."""
    found: dict[str, str] = dict(_ATTRIBUTE.findall((yield from calls.reader.read_word(_SEP, "\n"))))
    if not found.get(wanted):
        raise MalformedOutput
    return {name: value.replace("&quot;", '"').replace("&amp;", "&") for name, value in found.items()}


KIMI_K3 = KimiK3Calls(
    opens=(_SECTION,), call_opener=_K3_CALL, closes=_END_SECTION, prefix=_SECTION, suffix=_END_SECTION
)
