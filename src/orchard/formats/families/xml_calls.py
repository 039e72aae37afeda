"""Calls of which each argument stands in a tag that says its name, or is a pair of a tagged key and a tagged value.

- Qwen3-Coder, Qwen3.5, Nemotron 3: https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct/blob/main/chat_template.jinja
- MiniMax M2: https://huggingface.co/MiniMaxAI/MiniMax-M2/blob/main/docs/tool_calling_guide.md
- Step3: https://huggingface.co/stepfun-ai/step3/blob/main/chat_template.jinja
- MiniCPM5: https://huggingface.co/openbmb/MiniCPM5-1B/blob/main/chat_template.jinja
- Muse Glimmer: https://huggingface.co/meta-models/Muse-Glimmer-30B/blob/main/chat_template.jinja

Pairs:

- GLM-4.5 and 4.6: https://huggingface.co/zai-org/GLM-4.6/blob/main/chat_template.jinja; 4.7 leaves the newlines out
- LongCat: https://huggingface.co/meituan-longcat/LongCat-Flash-Chat/blob/main/chat_template.jinja
- Hy3: https://huggingface.co/tencent/Hy3/blob/main/chat_template.jinja; its calls stand in a section. Hy4 has other
  tags: https://github.com/vllm-project/vllm/blob/main/vllm/tool_parsers/hy_v4_tool_parser.py
- K2 Horizon, which also says types, or writes JSON, where it is asked to:
  https://github.com/vllm-project/vllm/blob/main/vllm/tool_parsers/k2_horizon_tool_parser.py

MiniMax M3 writes arguments as elements within each other. Before each tag stands a token, here written as `~`:
`~<tool_call>\\n~<invoke name="f">~<city>Paris~</city>~</invoke>\\n~</tool_call>`. The members of an object are elements
with their names, those of an array are called `item`, and what is null is left out:
https://huggingface.co/MiniMaxAI/MiniMax-M3/blob/main/chat_template.jinja
"""

import json
from typing import Any

from msgspec.structs import replace

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, JsonValue, Node, Repetition, TextValue, concatenated, optional
from orchard.formats.calls import CallEmitter, CallSyntax, SectionSyntax
from orchard.formats.families.json_calls import JsonCalls, read_call
from orchard.formats.schema import DEFINITIONS, Signature, definitions, within
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Parser
from orchard.formats.xml_values import (
    OTHERS,
    TEXT,
    UNTOLD,
    TaggedArguments,
    Types,
    arguments_grammar,
    may_be_text,
    typed_value,
)

_CDATA, _END_CDATA = "<![CDATA[", "]]>"


class XmlCalls(CallSyntax, frozen=True, kw_only=True):
    """Calls as tags. `each` and `parameter` are what opens a call and a parameter, up to its name; a ">" ends that.

    The first of `opens` opens one or more calls; some models leave it out, so `each` opens calls too. Where it is
    `each` itself, `closes` is what ends a call. `quote` stands around names. `newlines`: each value stands on lines of
    its own. `begin` and `end`: what the model writes around each call. `line`: what it writes between tags. `cdata`: a
    value may stand in a CDATA section.
    """

    each: str
    end_call: str
    parameter: str
    end_parameter: str
    quote: str = ""
    newlines: bool = False
    begin: str = ""
    end: str = ""
    line: str = "\n"
    cdata: bool = False

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read calls, and the tag that ends them all."""
        reader = calls.reader
        if opener != self.each:
            if (yield from reader.skip()) in "{`":  # as in Hermes' format, which the template may not show
                yield from JsonCalls(closes=self.closes).read(calls, opener)
                return
            yield from reader.literal(self.each)
        while True:
            if (yield from self._call(calls)) == self.closes:
                calls.end()
                return
            if (yield from calls.close(self.closes)) or not (yield from reader.leading((self.each,))):
                return

    def _call(self, calls: CallEmitter) -> Parser[str]:
        """Read a call from behind what opens it, and the tag that ends it, which may be the section's. Return it."""
        signature = calls.start((yield from calls.reader.name_before(">", "<\n")))
        ends = (self.end_call, self.closes)
        arguments = TaggedArguments(calls, signature, self.parameter, ends, line=self.line, newlines=self.newlines)
        # Qwen's models forget the last parameter's end tag now and then.
        in_section = self.opens[0] != self.each
        without = (self.end_call, *([self.closes] if in_section else []), self.opens[0])
        while (tag := (yield from arguments.tag())) == self.parameter:
            name = yield from calls.reader.name_before(">", "<\n")
            close = self.end_parameter
            if self.cdata and (yield from calls.reader.choice((_CDATA,))):
                close = f"{_END_CDATA}{close}"
            yield from arguments.read(name, close, without)
        return tag

    def call(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""
        line = "\n" if self.newlines else ""

        def opening(name: str, _: frozenset[str]) -> tuple[str]:
            return (f"{self.parameter}{self.quote}{name}{self.quote}>{line}",)

        body = arguments_grammar(Signature(tool), opening, (f"{line}{self.end_parameter}{self.line}",))
        begin = f"{self.begin}{self.each}{self.quote}{tool.name}{self.quote}>{self.line}"
        return CallGrammar(tool.name, begin, body, f"{self.end_call}{self.end}")


QWEN = XmlCalls(
    opens=("<tool_call>", "<function="),
    closes="</tool_call>",
    each="<function=",
    end_call="</function>",
    parameter="<parameter=",
    end_parameter="</parameter>",
    newlines=True,
    begin="<tool_call>\n",
    end="\n</tool_call>",
    separator="\n",
)
SEED = replace(
    QWEN,
    opens=("<seed:tool_call>", "<function="),
    closes="</seed:tool_call>",
    newlines=False,
    begin="<seed:tool_call>\n",
    end="\n</seed:tool_call>",
)
MINICPM = XmlCalls(
    opens=("<function name=",),
    closes="</function>",
    each="<function name=",
    end_call="</function>",
    parameter="<param name=",
    end_parameter="</param>",
    quote='"',
    line="",
    cdata=True,
    separator="\n",
)


def _invoked(section: str, closes: str, prefix: str = "", before: str = "", behind: str = "") -> XmlCalls:
    """Return the syntax of models that write several calls a section, called `invoke`.

    `prefix` stands before the names of tags; `before` and `behind` are tokens around a call.
    """
    each = f"{before}<{prefix}invoke name="
    return XmlCalls(
        opens=(section, each),
        closes=closes,
        each=each,
        end_call=f"</{prefix}invoke>{behind}",
        parameter=f"<{prefix}parameter name=",
        end_parameter=f"</{prefix}parameter>",
        quote='"',
        prefix=f"{section}\n",
        # A separator and a suffix that begin alike can't be told apart letter by letter: each call ends its own line.
        end="\n",
        suffix=closes,
    )


MINIMAX = _invoked("<minimax:tool_call>", "</minimax:tool_call>")
STEP = _invoked(
    "<｜tool_calls_begin｜>",
    "<｜tool_calls_end｜>",
    "steptml:",
    "<｜tool_call_begin｜>function<｜tool_sep｜>",
    "<｜tool_call_end｜>",
)
ATEM = _invoked("<atem:function_calls>", "</atem:function_calls>", "atem:")


class PairCalls(SectionSyntax, frozen=True, kw_only=True):
    """Calls as pairs. `key` and `value` are the tags around each; `line` is what the model writes between tags.

    `behind_name`: a tag behind the name of each call. `kind`: the tags around a value's type, where the model says it.
    """

    end_call: str
    key: tuple[str, str]
    value: tuple[str, str]
    kind: tuple[str, str] | None = None
    line: str = "\n"
    behind_name: str = ""

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read calls; LongCat's and some of GLM's are JSON."""
        if not self.section and (yield from calls.reader.skip()) in "{`":
            yield from JsonCalls(closes=self.closes).read(calls, opener)
        else:
            yield from SectionSyntax.read(self, calls, opener)

    def read_call(self, calls: CallEmitter) -> Parser[None]:
        """Read a call from after its opening text to the tag that ends it, inclusive."""
        reader = calls.reader
        if (yield from reader.skip()) == "{" and self.kind:
            yield from read_call(calls, (self.end_call,))
            yield from calls.close(self.end_call)
            return
        name = yield from reader.name()
        if self.behind_name:
            yield from reader.leading((self.behind_name,))
        signature, head = calls.start(name), self.value[0]
        arguments = TaggedArguments(calls, signature, self.key[0], (self.end_call,), head=head, line=self.line)
        without = (self.end_call, *([self.closes] if self.section else []), self.opens[0])
        while (yield from arguments.tag()) == self.key[0]:
            parameter = yield from reader.word(self.key[1], "<\n")
            said = Types()
            if self.kind and (yield from reader.leading(self.kind[:1])):
                kind = yield from reader.word(self.kind[1], "<\n")
                said = (TEXT | OTHERS) & {kind.partition("[")[0].strip()}
            yield from reader.expect(self.value[0])
            yield from arguments.read(parameter.strip(), self.value[1], without, said)
        calls.end()

    def call(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""

        def opening(name: str, _: frozenset[str]) -> tuple[str, ...]:
            return self.key[0], name, self.key[1], self.line, self.value[0]

        body = arguments_grammar(Signature(tool), opening, (self.value[1], self.line))
        begin = f"{self.each}{tool.name}{self.behind_name}{self.line}"
        return CallGrammar(tool.name, begin, body, f"{self.end_call}{self.line if self.section else ''}")


def _pairs(tag: str = "", line: str = "\n") -> PairCalls:
    """Return the syntax of calls without a section; `tag` stands before the names of all tags."""
    key, value = ((f"<{tag}arg_{part}>", f"</{tag}arg_{part}>") for part in ("key", "value"))
    each, end = f"<{tag}tool_call>", f"</{tag}tool_call>"
    return PairCalls(
        opens=(each,), each=each, end_call=end, closes=end, key=key, value=value, line=line, separator="\n"
    )


GLM = _pairs()
GLM_4_7 = _pairs(line="")
LONGCAT = _pairs("longcat_")


def _hunyuan(suffix: str, line: str, separator: str = "") -> PairCalls:
    """Return the syntax of Hy3 and Hy4; `suffix` stands behind the names of all tags."""

    def pair(tag: str) -> tuple[str, str]:
        return f"<{tag}{suffix}>", f"</{tag}{suffix}>"

    (section, closes), (each, end_call) = pair("tool_calls"), pair("tool_call")
    return PairCalls(
        opens=(section, each),
        each=each,
        end_call=end_call,
        closes=closes,
        key=pair("arg_key"),
        value=pair("arg_value"),
        line=line,
        behind_name=separator and f"<{separator}{suffix}>",
        prefix=f"{section}{line}",
        suffix=closes,
    )


def hy3(suffix: str) -> PairCalls:
    """Return Hy3's syntax; `suffix` is the checkpoint's own."""
    return _hunyuan(suffix, "\n", "tool_sep")


def hy4(suffix: str) -> PairCalls:
    """Return Hy4's syntax; `suffix` is the checkpoint's own."""
    return _hunyuan(suffix, "")


def _ifm(tag: str) -> tuple[str, str]:
    return f"<ifm|{tag}>", f"</ifm|{tag}>"


K2 = PairCalls(
    opens=("<ifm|tool_calls>", "<ifm|tool_call>"),
    each="<ifm|tool_call>",
    end_call="</ifm|tool_call>",
    closes="</ifm|tool_calls>",
    key=_ifm("arg_key"),
    kind=_ifm("arg_type"),
    value=_ifm("arg_value"),
    prefix="<ifm|tool_calls>\n",
    suffix="</ifm|tool_calls>",
)

_MARK = "]<]minimax[>["
_SECTION, _END_SECTION = f"{_MARK}<tool_call>", f"{_MARK}</tool_call>"
_CALL, _END_CALL = f"{_MARK}<invoke name=", f"{_MARK}</invoke>"
_OPEN, _CLOSE = f"{_MARK}<", f"{_MARK}</"
_ITEM = "item"
_OPEN_ITEM = f"{_OPEN}{_ITEM}>"
_NESTED = Types({"array", "object"})
_DEEPEST = 32  # elements within each other that are read
_DEEPEST_GRAMMAR = 5  # and that a grammar keeps; what is deeper is JSON
_NOTES = {"title", "description", "default", "examples", "additionalProperties", *DEFINITIONS}
_OBJECT = {"type", "properties", "required"}


class MiniMaxM3Calls(SectionSyntax, frozen=True, kw_only=True):
    """MiniMax M3's calls."""

    def read_call(self, calls: CallEmitter) -> Parser[None]:
        """Read a call from after its opening text to the tag that ends it, inclusive."""
        name = yield from calls.reader.name_before(">", "<\n")
        signature = calls.start(name) or Signature(Tool(name))
        calls.between = True
        yield from _elements(calls, signature, "object", _DEEPEST)
        yield from calls.close(_END_CALL)

    def call(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""
        body = _members_grammar(Signature(tool), _DEEPEST_GRAMMAR)
        return CallGrammar(tool.name, f'{_CALL}"{tool.name}">', body, f"{_END_CALL}\n")


def _elements(calls: CallEmitter, signature: Signature, kind: str, depth: int) -> Parser[None]:
    """Read the elements of an object or an array, up to the tag that closes it."""
    before, end = ("[", "]") if kind == "array" else ("{", "}")
    empty = before + end
    while (name := (yield from _opened(calls))) is not None:
        if kind == "array" and name != _ITEM:
            raise MalformedOutput
        key = "" if kind == "array" else f"{json.dumps(name, ensure_ascii=False)}: "
        calls.arguments(f"{before}{key}")
        before, empty = ", ", end
        yield from _value(calls, name, signature, depth)
    calls.arguments(empty)


def _opened(calls: CallEmitter) -> Parser[str | None]:
    """Read a tag that opens an element; return its name. None, and nothing is read, where one closes."""
    reader = calls.reader
    yield from reader.skip()
    tag = yield from reader.choice((_OPEN, _CLOSE))
    if tag == _OPEN:
        if not (name := (yield from reader.word(">", "<\n"))):
            raise MalformedOutput
        return name
    if tag is None:
        raise OutputEnded if reader.final and _CLOSE.startswith(reader.text[reader.at :]) else MalformedOutput
    reader.at -= len(tag)
    return None


def _value(calls: CallEmitter, name: str, signature: Signature, depth: int) -> Parser[None]:
    """Read the value of an element and the tag that closes it."""
    reader, types = calls.reader, signature.types(name) or UNTOLD
    close = f"{_CLOSE}{name}>"
    tag = (yield from reader.choice((_OPEN, _OPEN_ITEM, close))) if types & _NESTED else None
    if tag is None:
        yield from typed_value(calls, types, lambda emit: reader.until(close, emit))
    elif tag == close:
        calls.arguments('""' if "string" in types else "[]" if "array" in types else "{}")
    elif not depth:
        raise MalformedOutput
    else:
        reader.at -= len(tag)
        kind = "array" if "array" in types and ("object" not in types or tag == _OPEN_ITEM) else "object"
        found = _branch(_part(signature, name), kind)
        items = found.get("items", True)
        inner = _of_item(items, found) if kind == "array" else Signature(Tool("", parameters=found))
        yield from _elements(calls, inner, kind, depth - 1)
        if not (yield from reader.choice((close,))):
            ended = reader.final and close.startswith(reader.text[reader.at :])
            raise OutputEnded if ended else MalformedOutput("an element has no end tag")


def _part(signature: Signature, name: str) -> Any:
    return within(signature.properties.get(name, signature.others), signature.schema)


def _branch(part: Any, kind: str, depth: int = _DEEPEST) -> dict[str, Any]:
    """Return a schema, or the first of its alternatives that may be of a kind, with what it refers to put into it."""
    schema = Signature(Tool("", parameters=part)).schema if isinstance(part, dict) else {}
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    for one in alternatives if depth and isinstance(alternatives, list) else ():
        if kind in _of_item(one, schema).types(_ITEM):
            return _branch(within(one, schema), kind, depth - 1)
    return schema


def _of_item(part: Any, root: dict[str, Any]) -> Signature:
    """Return a signature whose one parameter, called `item`, has this schema, which is a part of another."""
    return Signature(Tool("", parameters={"properties": {_ITEM: part}} | definitions(root)))


def _members_grammar(signature: Signature, depth: int) -> Node:
    """Return the grammar of the elements that are listed, in their order."""
    found = []
    for name in signature.listed():
        one = _element_grammar(name, signature, depth)
        found.append(one if name in signature.required else optional(one))
    return concatenated(*found)


def _element_grammar(name: str, signature: Signature, depth: int) -> Node:
    part, types = _part(signature, name), signature.types(name)
    opened, closed = f"{_OPEN}{name}>", f"{_CLOSE}{name}>"
    if may_be_text(types):
        text = TextValue(_MARK, part, tuple(sorted(types or UNTOLD)))
        return concatenated(opened, text, closed.removeprefix(_MARK))
    found = _branch(part, min(types, default=""))
    keys = found.keys() - _NOTES
    value: Node = JsonValue(part)
    if types == {"array"} and keys == {"type", "items"} and depth:
        value = Repetition(_element_grammar(_ITEM, _of_item(found["items"], found), depth - 1))
    elif types == {"object"} and found.get("properties") and keys <= _OBJECT and depth:
        value = _members_grammar(Signature(Tool("", parameters=found)), depth - 1)
    return concatenated(opened, value, closed)


MINIMAX_M3 = MiniMaxM3Calls(
    opens=(_SECTION, _CALL),
    each=_CALL,
    closes=_END_SECTION,
    prefix=f"{_SECTION}\n",
    suffix=_END_SECTION,
)
