"""Calls with each argument in a tag that says its name, or as a pair of a tagged key and a tagged value.

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
from orchard.formats.call_grammar import (
    CallGrammar,
    JsonValue,
    Node,
    Repetition,
    TextValue,
    concatenation,
    optional_part,
)
from orchard.formats.calls import CallEmitter, CallSyntax, SectionSyntax
from orchard.formats.families.json_calls import JsonCalls, read_call
from orchard.formats.schema import DEFINITIONS, Signature, definitions, standalone_schema
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Parser
from orchard.formats.xml_values import (
    NON_TEXT_TYPES,
    TEXT_TYPES,
    UNSPECIFIED_TYPES,
    TaggedArguments,
    Types,
    arguments_grammar,
    may_be_text,
    read_typed_value,
)

_CDATA, _END_CDATA = "<![CDATA[", "]]>"


class XmlCalls(CallSyntax, frozen=True, kw_only=True):
    """Calls as tags. `call_opener` and `parameter` open a call and a parameter, up to its name, which ">" ends.

    The first of `opens` opens one or more calls. Some models leave it out, so `call_opener` opens calls, too; if both
    are the same, `closes` ends a call. `quote` stands around names. `newlines`: each value stands on lines of its own.
    `begin` and `end`: what the model writes around each call. `line`: what it writes between tags. `cdata`: a value may
    stand in a CDATA section.
    """

    call_opener: str
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
        if opener != self.call_opener:
            if (yield from reader.skip()) in "{`":  # as in Hermes' format, which the template may not show
                yield from JsonCalls(closes=self.closes).read(calls, opener)
                return
            yield from reader.expect(self.call_opener)
        while True:
            if (yield from self._read_call(calls)) == self.closes:
                calls.end()
                return
            if (yield from calls.close(self.closes)) or not (yield from reader.accept_spaced((self.call_opener,))):
                return

    def _read_call(self, calls: CallEmitter) -> Parser[str]:
        """Read a call from behind what opens it, and the tag that ends it, which may be the section's. Return it."""
        signature = calls.start((yield from calls.reader.read_name_before(">", "<\n")))
        ends = (self.end_call, self.closes)
        arguments = TaggedArguments(calls, signature, self.parameter, ends, line=self.line, newlines=self.newlines)
        # Qwen's models forget the last parameter's end tag now and then.
        in_section = self.opens[0] != self.call_opener
        without = (self.end_call, *([self.closes] if in_section else []), self.opens[0])
        while (tag := (yield from arguments.read_tag())) == self.parameter:
            name = yield from calls.reader.read_name_before(">", "<\n")
            close = self.end_parameter
            if self.cdata and (yield from calls.reader.accept((_CDATA,))):
                close = f"{_END_CDATA}{close}"
            yield from arguments.read_value(name, close, without)
        return tag

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""
        line = "\n" if self.newlines else ""

        def opening(name: str, _: frozenset[str]) -> tuple[str]:
            return (f"{self.parameter}{self.quote}{name}{self.quote}>{line}",)

        body = arguments_grammar(Signature(tool), opening, (f"{line}{self.end_parameter}{self.line}",))
        begin = f"{self.begin}{self.call_opener}{self.quote}{tool.name}{self.quote}>{self.line}"
        return CallGrammar(tool.name, begin, body, f"{self.end_call}{self.end}")


QWEN = XmlCalls(
    opens=("<tool_call>", "<function="),
    closes="</tool_call>",
    call_opener="<function=",
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
    call_opener="<function name=",
    end_call="</function>",
    parameter="<param name=",
    end_parameter="</param>",
    quote='"',
    line="",
    cdata=True,
    separator="\n",
)


def _invoke_syntax(section: str, closes: str, prefix: str = "", before: str = "", behind: str = "") -> XmlCalls:
    """Return the syntax of models that write several calls a section, called `invoke`.

    `prefix` stands before the names of tags; `before` and `behind` are tokens around a call.
    """
    each = f"{before}<{prefix}invoke name="
    return XmlCalls(
        opens=(section, each),
        closes=closes,
        call_opener=each,
        end_call=f"</{prefix}invoke>{behind}",
        parameter=f"<{prefix}parameter name=",
        end_parameter=f"</{prefix}parameter>",
        quote='"',
        prefix=f"{section}\n",
        # A separator and a suffix that begin alike can't be told apart letter by letter: each call ends its own line.
        end="\n",
        suffix=closes,
    )


MINIMAX = _invoke_syntax("<minimax:tool_call>", "</minimax:tool_call>")
STEP = _invoke_syntax(
    "<｜tool_calls_begin｜>",
    "<｜tool_calls_end｜>",
    "steptml:",
    "<｜tool_call_begin｜>function<｜tool_sep｜>",
    "<｜tool_call_end｜>",
)
ATEM = _invoke_syntax("<atem:function_calls>", "</atem:function_calls>", "atem:")


class PairCalls(SectionSyntax, frozen=True, kw_only=True):
    """Calls as pairs. `key` and `value` are the tags around each; `line` is what the model writes between tags.

    `name_end`: a tag behind the name of each call. `kind`: the tags around a value's type, where the model says it.
    """

    end_call: str
    key: tuple[str, str]
    value: tuple[str, str]
    kind: tuple[str, str] | None = None
    line: str = "\n"
    name_end: str = ""

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
        name = yield from reader.read_name()
        if self.name_end:
            yield from reader.accept_spaced((self.name_end,))
        signature, head = calls.start(name), self.value[0]
        arguments = TaggedArguments(calls, signature, self.key[0], (self.end_call,), head=head, line=self.line)
        without = (self.end_call, *([self.closes] if self.section else []), self.opens[0])
        while (yield from arguments.read_tag()) == self.key[0]:
            parameter = yield from reader.read_word(self.key[1], "<\n")
            said = Types()
            if self.kind and (yield from reader.accept_spaced(self.kind[:1])):
                kind = yield from reader.read_word(self.kind[1], "<\n")
                said = (TEXT_TYPES | NON_TEXT_TYPES) & {kind.partition("[")[0].strip()}
            yield from reader.expect_spaced(self.value[0])
            yield from arguments.read_value(parameter.strip(), self.value[1], without, said)
        calls.end()

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""

        def opening(name: str, _: frozenset[str]) -> tuple[str, ...]:
            return self.key[0], name, self.key[1], self.line, self.value[0]

        body = arguments_grammar(Signature(tool), opening, (self.value[1], self.line))
        begin = f"{self.call_opener}{tool.name}{self.name_end}{self.line}"
        return CallGrammar(tool.name, begin, body, f"{self.end_call}{self.line if self.section else ''}")


def _pair_syntax(tag: str = "", line: str = "\n") -> PairCalls:
    """Return the syntax of calls without a section; `tag` stands before the names of all tags."""
    key, value = ((f"<{tag}arg_{part}>", f"</{tag}arg_{part}>") for part in ("key", "value"))
    each, end = f"<{tag}tool_call>", f"</{tag}tool_call>"
    return PairCalls(
        opens=(each,), call_opener=each, end_call=end, closes=end, key=key, value=value, line=line, separator="\n"
    )


GLM = _pair_syntax()
GLM_4_7 = _pair_syntax(line="")
LONGCAT = _pair_syntax("longcat_")


def _hunyuan_syntax(suffix: str, line: str, separator: str = "") -> PairCalls:
    """Return the syntax of Hy3 and Hy4; `suffix` stands behind the names of all tags."""

    def pair(tag: str) -> tuple[str, str]:
        return f"<{tag}{suffix}>", f"</{tag}{suffix}>"

    (section, closes), (each, end_call) = pair("tool_calls"), pair("tool_call")
    return PairCalls(
        opens=(section, each),
        call_opener=each,
        end_call=end_call,
        closes=closes,
        key=pair("arg_key"),
        value=pair("arg_value"),
        line=line,
        name_end=separator and f"<{separator}{suffix}>",
        prefix=f"{section}{line}",
        suffix=closes,
    )


def hy3_syntax(suffix: str) -> PairCalls:
    """Return Hy3's syntax; `suffix` is the checkpoint's own."""
    return _hunyuan_syntax(suffix, "\n", "tool_sep")


def hy4_syntax(suffix: str) -> PairCalls:
    """Return Hy4's syntax; `suffix` is the checkpoint's own."""
    return _hunyuan_syntax(suffix, "")


def _ifm_tags(tag: str) -> tuple[str, str]:
    return f"<ifm|{tag}>", f"</ifm|{tag}>"


K2 = PairCalls(
    opens=("<ifm|tool_calls>", "<ifm|tool_call>"),
    call_opener="<ifm|tool_call>",
    end_call="</ifm|tool_call>",
    closes="</ifm|tool_calls>",
    key=_ifm_tags("arg_key"),
    kind=_ifm_tags("arg_type"),
    value=_ifm_tags("arg_value"),
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
_MAX_DEPTH = 32  # the deepest nesting of elements that is read
_MAX_GRAMMAR_DEPTH = 5  # the deepest nesting in a grammar; deeper values are JSON
_NOTES = {"title", "description", "default", "examples", "additionalProperties", *DEFINITIONS}
_OBJECT = {"type", "properties", "required"}


class MiniMaxM3Calls(SectionSyntax, frozen=True, kw_only=True):
    """MiniMax M3's calls."""

    def read_call(self, calls: CallEmitter) -> Parser[None]:
        """Read a call from after its opening text to the tag that ends it, inclusive."""
        name = yield from calls.reader.read_name_before(">", "<\n")
        signature = calls.start(name) or Signature(Tool(name))
        calls.between_values = True
        yield from _read_elements(calls, signature, "object", _MAX_DEPTH)
        yield from calls.close(_END_CALL)

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""
        body = _members_grammar(Signature(tool), _MAX_GRAMMAR_DEPTH)
        return CallGrammar(tool.name, f'{_CALL}"{tool.name}">', body, f"{_END_CALL}\n")


def _read_elements(calls: CallEmitter, signature: Signature, kind: str, depth: int) -> Parser[None]:
    """Read the elements of an object or an array, up to the tag that closes it."""
    before, end = ("[", "]") if kind == "array" else ("{", "}")
    empty = before + end
    while (name := (yield from _read_open_tag(calls))) is not None:
        if kind == "array" and name != _ITEM:
            raise MalformedOutput
        key = "" if kind == "array" else f"{json.dumps(name, ensure_ascii=False)}: "
        calls.add_arguments(f"{before}{key}")
        before, empty = ", ", end
        yield from _read_element_value(calls, name, signature, depth)
    calls.add_arguments(empty)


def _read_open_tag(calls: CallEmitter) -> Parser[str | None]:
    """Read a tag that opens an element; return its name. If a tag closes here, read nothing and return None."""
    reader = calls.reader
    yield from reader.skip()
    tag = yield from reader.accept((_OPEN, _CLOSE))
    if tag == _OPEN:
        if not (name := (yield from reader.read_word(">", "<\n"))):
            raise MalformedOutput
        return name
    if tag is None:
        raise OutputEnded if reader.final and _CLOSE.startswith(reader.text[reader.at :]) else MalformedOutput
    reader.at -= len(tag)
    return None


def _read_element_value(calls: CallEmitter, name: str, signature: Signature, depth: int) -> Parser[None]:
    """Read the value of an element and the tag that closes it."""
    reader, types = calls.reader, signature.types(name) or UNSPECIFIED_TYPES
    close = f"{_CLOSE}{name}>"
    tag = (yield from reader.accept((_OPEN, _OPEN_ITEM, close))) if types & _NESTED else None
    if tag is None:
        yield from read_typed_value(calls, types, lambda emit: reader.read_until(close, emit))
    elif tag == close:
        calls.add_arguments('""' if "string" in types else "[]" if "array" in types else "{}")
    elif not depth:
        raise MalformedOutput
    else:
        reader.at -= len(tag)
        kind = "array" if "array" in types and ("object" not in types or tag == _OPEN_ITEM) else "object"
        found = _schema_branch(_element_schema(signature, name), kind)
        items = found.get("items", True)
        inner = _item_signature(items, found) if kind == "array" else Signature(Tool("", parameters=found))
        yield from _read_elements(calls, inner, kind, depth - 1)
        if not (yield from reader.accept((close,))):
            ended = reader.final and close.startswith(reader.text[reader.at :])
            raise OutputEnded if ended else MalformedOutput("an element has no end tag")


def _element_schema(signature: Signature, name: str) -> Any:
    return standalone_schema(signature.properties.get(name, signature.other_schema), signature.schema)


def _schema_branch(part: Any, kind: str, depth: int = _MAX_DEPTH) -> dict[str, Any]:
    """Return a schema, or the first of its alternatives that may be of a kind, with its reference resolved."""
    schema = Signature(Tool("", parameters=part)).schema if isinstance(part, dict) else {}
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    for one in alternatives if depth and isinstance(alternatives, list) else ():
        if kind in _item_signature(one, schema).types(_ITEM):
            return _schema_branch(standalone_schema(one, schema), kind, depth - 1)
    return schema


def _item_signature(part: Any, root: dict[str, Any]) -> Signature:
    """Return a signature whose one parameter, called `item`, has this schema, which is a part of another."""
    return Signature(Tool("", parameters={"properties": {_ITEM: part}} | definitions(root)))


def _members_grammar(signature: Signature, depth: int) -> Node:
    """Return the grammar of the elements that are listed, in their order."""
    found = []
    for name in signature.parameter_schemas():
        one = _element_grammar(name, signature, depth)
        found.append(one if name in signature.required else optional_part(one))
    return concatenation(*found)


def _element_grammar(name: str, signature: Signature, depth: int) -> Node:
    part, types = _element_schema(signature, name), signature.types(name)
    opened, closed = f"{_OPEN}{name}>", f"{_CLOSE}{name}>"
    if may_be_text(types):
        text = TextValue(_MARK, part, tuple(sorted(types or UNSPECIFIED_TYPES)))
        return concatenation(opened, text, closed.removeprefix(_MARK))
    found = _schema_branch(part, min(types, default=""))
    keys = found.keys() - _NOTES
    value: Node = JsonValue(part)
    if types == {"array"} and keys == {"type", "items"} and depth:
        value = Repetition(_element_grammar(_ITEM, _item_signature(found["items"], found), depth - 1))
    elif types == {"object"} and found.get("properties") and keys <= _OBJECT and depth:
        value = _members_grammar(Signature(Tool("", parameters=found)), depth - 1)
    return concatenation(opened, value, closed)


MINIMAX_M3 = MiniMaxM3Calls(
    opens=(_SECTION, _CALL),
    call_opener=_CALL,
    closes=_END_SECTION,
    prefix=f"{_SECTION}\n",
    suffix=_END_SECTION,
)
