"""Calls of DeepSeek-V3.2 and V4: each argument in a tag of its own that says whether it is a string.

https://huggingface.co/deepseek-ai/DeepSeek-V3.2/blob/main/encoding/encoding_dsv32.py; V4 names the outer tag anew.
"""

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar
from orchard.formats.calls import CallEmitter, SectionSyntax
from orchard.formats.schema import Signature
from orchard.formats.text_reader import MalformedOutput, Reading
from orchard.formats.xml_values import OTHERS, TEXT, TaggedArguments, Types, arguments_grammar, may_be_text

_MARK = "｜DSML｜"
_EACH, _END_CALL = f"<{_MARK}invoke name=", f"</{_MARK}invoke>"
_PARAMETER, _END_PARAMETER = f"<{_MARK}parameter name=", f"</{_MARK}parameter>"
_SAID = {'string="true"': TEXT, 'string="false"': OTHERS}


class DsmlCalls(SectionSyntax, frozen=True, kw_only=True):
    """Calls as tags."""

    def read_call(self, calls: CallEmitter) -> Reading[None]:
        """Read a call from behind what opens it, over the tag that ends it."""
        source = calls.source
        name = yield from _quoted(calls)
        yield from source.literal(">")
        written = TaggedArguments(calls, calls.start(name), _PARAMETER, (_END_CALL,))
        while (yield from written.tag()) == _PARAMETER:
            parameter = yield from _quoted(calls)
            attribute = (yield from source.word(">", "<\n")).strip()
            yield from written.read(parameter, _END_PARAMETER, said=_SAID.get(attribute, frozenset()))
        calls.end()

    def call(self, tool: Tool) -> CallGrammar:
        """Return what one call of a tool looks like."""
        body = arguments_grammar(Signature(tool), _opening, (_END_PARAMETER, "\n"), tuple(_SAID.values()))
        return CallGrammar(tool.name, f'{_EACH}"{tool.name}">\n', body, f"{_END_CALL}\n")


def _quoted(calls: CallEmitter) -> Reading[str]:
    """Read a name in quotes."""
    yield from calls.source.literal('"')
    name = yield from calls.source.word('"', "<>\n")
    if not name:
        raise MalformedOutput
    return name


def _opening(name: str, types: Types) -> tuple[str]:
    return (f'{_PARAMETER}"{name}" string="{"true" if may_be_text(types) else "false"}">',)


def _dsml(section: str) -> DsmlCalls:
    opening, closing = f"<{_MARK}{section}>", f"</{_MARK}{section}>"
    # V3.2 leaves the outer tag out now and then.
    return DsmlCalls(opens=(opening, _EACH), each=_EACH, closes=closing, prefix=f"{opening}\n", suffix=closing)


V32 = _dsml("function_calls")
V4 = _dsml("tool_calls")
