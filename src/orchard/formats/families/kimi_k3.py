"""Calls of Kimi K3: tags that are written as a token, text and a token, one for each argument, which says its type.

https://github.com/ggml-org/llama.cpp/blob/master/models/templates/Kimi-K3.jinja
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallShape, CallsShape, literal
from orchard.formats.calls import Region, read_section
from orchard.formats.json_text import arguments
from orchard.formats.schema import Signature
from orchard.formats.text_reader import MalformedOutput, Reading
from orchard.formats.typed_value import Types
from orchard.formats.xml_values import TEXT, Arguments, body_shape, may_be_text

_OPEN, _CLOSE, _SEP = "<|open|>", "<|close|>", "<|sep|>"
_SECTION, _END_SECTION = f"{_OPEN}tools{_SEP}", f"{_CLOSE}tools{_SEP}"
_CALL, _END_CALL = f"{_OPEN}call", f"{_CLOSE}call{_SEP}"
_ARGUMENT, _END_ARGUMENT = f"{_OPEN}argument", f"{_CLOSE}argument{_SEP}"
_JSON, _END_JSON = f"{_OPEN}json", f"{_CLOSE}json{_SEP}"
_KINDS = {"string": TEXT, "number": Types({"number", "integer"})} | {
    kind: Types({kind}) for kind in ("boolean", "null", "array", "object")
}
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


class KimiK3Calls(Struct, frozen=True):
    """Kimi K3's calls."""

    opens: tuple[str, ...] = (_SECTION,)
    leads: tuple[str, ...] = ()
    closes: str = _END_SECTION

    def read(self, region: Region, opener: str) -> Reading[None]:
        """Read calls, and the tag that ends them all."""
        yield from read_section(region, opener, (_SECTION, _CALL, _END_SECTION), _call)

    def shape(self, tools: Sequence[Tool]) -> CallsShape:
        """Say what the model would write for one or more calls of these tools; it counts its calls itself."""
        close, kinds = (_CLOSE, "argument", _SEP), tuple(_KINDS.values())
        calls = tuple(
            CallShape(
                tool.name,
                f'{_CALL} tool="{tool.name}" index="',
                f'/[0-9]{{1,4}}/ "\\"" {literal(_SEP)} {body_shape(Signature(tool), _opening, close, kinds)}',
                _END_CALL,
                (_OPEN, _CLOSE, _SEP),
            )
            for tool in tools
        )
        return CallsShape(_SECTION, _SECTION, calls, "", _END_SECTION)


def _opening(name: str, types: Types) -> tuple[str, ...]:
    known = "string" if may_be_text(types) else min(types - {"null"} or types)
    return _OPEN, f'argument key="{name}" type="{"number" if known == "integer" else known}"', _SEP


def _call(region: Region) -> Reading[None]:
    source = region.source
    name = (yield from _attributes(region, "tool"))["tool"]
    signature = region.start(name)
    yield from source.skip()
    if (yield from source.choice((_JSON,))):
        yield from source.word(_SEP, "<\n")
        yield from source.skip()
        yield from arguments(source, signature, region.arguments)
        yield from source.skip()
        yield from source.literal(_END_JSON)
        yield from source.skip()
        yield from source.literal(_END_CALL)
        region.end()
        return
    written, follows = Arguments(region, signature, newlines=False), (_ARGUMENT, _END_CALL)
    while True:
        yield from source.skip()
        tag = yield from source.choice(follows, ends=follows[1:])
        if tag is None:
            raise MalformedOutput
        if tag == _END_CALL:
            break
        told = yield from _attributes(region, "key")
        said = _KINDS.get(told.get("type", ""), frozenset())
        yield from written.read(told["key"], _END_ARGUMENT, follows, said=said)
    written.end()
    region.end()


def _attributes(region: Region, wanted: str) -> Reading[dict[str, str]]:
    """Read the rest of a tag; gives its attributes, which have the one that is wanted."""
    found: dict[str, str] = dict(_ATTRIBUTE.findall((yield from region.source.word(_SEP, "\n"))))
    if not found.get(wanted):
        raise MalformedOutput
    return {name: value.replace("&quot;", '"').replace("&amp;", "&") for name, value in found.items()}


KIMI_K3 = KimiK3Calls()
