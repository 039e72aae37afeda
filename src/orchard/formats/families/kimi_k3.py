"""Calls of Kimi K3: tags that are written as a token, text and a token, one for each argument, which says its type.

https://github.com/ggml-org/llama.cpp/blob/master/models/templates/Kimi-K3.jinja
"""

import re

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, Terminal, concatenated
from orchard.formats.calls import CallEmitter, SectionSyntax
from orchard.formats.json_text import arguments
from orchard.formats.schema import Signature
from orchard.formats.text_reader import MalformedOutput, Reading
from orchard.formats.xml_values import TEXT, TaggedArguments, Types, arguments_grammar, may_be_text

_OPEN, _CLOSE, _SEP = "<|open|>", "<|close|>", "<|sep|>"
_SECTION, _END_SECTION = f"{_OPEN}tools{_SEP}", f"{_CLOSE}tools{_SEP}"
_CALL, _END_CALL = f"{_OPEN}call", f"{_CLOSE}call{_SEP}"
_ARGUMENT, _END_ARGUMENT = f"{_OPEN}argument", f"{_CLOSE}argument{_SEP}"
_JSON, _END_JSON = f"{_OPEN}json", f"{_CLOSE}json{_SEP}"
_KINDS = {"string": TEXT, "number": Types({"number", "integer"})} | {
    kind: Types({kind}) for kind in ("boolean", "null", "array", "object")
}
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


class KimiK3Calls(SectionSyntax, frozen=True, kw_only=True):
    """Kimi K3's calls."""

    def read_call(self, calls: CallEmitter) -> Reading[None]:
        """Read a call from behind what opens it, over the tag that ends it."""
        source = calls.source
        name = (yield from _attributes(calls, "tool"))["tool"]
        signature = calls.start(name)
        yield from source.skip()
        if (yield from source.choice((_JSON,))):
            yield from source.word(_SEP, "<\n")
            yield from arguments(source, signature, calls.arguments)
            for tag in (_END_JSON, _END_CALL):
                yield from source.expect(tag)
        else:
            written = TaggedArguments(calls, signature, _ARGUMENT, (_END_CALL,))
            while (yield from written.tag()) == _ARGUMENT:
                told = yield from _attributes(calls, "key")
                said = _KINDS.get(told.get("type", ""), frozenset())
                yield from written.read(told["key"], _END_ARGUMENT, said=said)
        calls.end()

    def call(self, tool: Tool) -> CallGrammar:
        """Return what one call of a tool looks like; the model counts its calls itself."""
        close, kinds = (_CLOSE, "argument", _SEP), tuple(_KINDS.values())
        body = arguments_grammar(Signature(tool), _opening, close, kinds)
        number = Terminal("/[0-9]{1,4}/")
        begin = f'{_CALL} tool="{tool.name}" index="'
        return CallGrammar(tool.name, begin, concatenated(number, '"', _SEP, body), _END_CALL)


def _opening(name: str, types: Types) -> tuple[str, ...]:
    known = "string" if may_be_text(types) else min(types - {"null"} or types)
    return _OPEN, f'argument key="{name}" type="{"number" if known == "integer" else known}"', _SEP


def _attributes(calls: CallEmitter, wanted: str) -> Reading[dict[str, str]]:
    """Read the rest of a tag. Return its attributes, which have the one that is wanted."""
    found: dict[str, str] = dict(_ATTRIBUTE.findall((yield from calls.source.word(_SEP, "\n"))))
    if not found.get(wanted):
        raise MalformedOutput
    return {name: value.replace("&quot;", '"').replace("&amp;", "&") for name, value in found.items()}


KIMI_K3 = KimiK3Calls(opens=(_SECTION,), each=_CALL, closes=_END_SECTION, prefix=_SECTION, suffix=_END_SECTION)
