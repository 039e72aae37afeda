"""Calls as a name, and sometimes an id, with JSON arguments behind it.

- DeepSeek-V3, R1: `function`, the name, and arguments in a fenced block:
  https://huggingface.co/deepseek-ai/DeepSeek-V3-0324/blob/main/tokenizer_config.json
- DeepSeek-V3.1: https://huggingface.co/deepseek-ai/DeepSeek-V3.1/blob/main/tokenizer_config.json
- Functionary 3.1: https://github.com/MeetKai/functionary/blob/main/tests/prompt_test_v3-llama3.1.txt, and Llama 3.1
  where it is asked to: https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1
- Hunyuan: a fenced block: https://huggingface.co/tencent/Hunyuan-7B-Instruct; Jamba and MiniMax M1 have the same
  section, and JSON objects in it
- Kimi K2: an id that has the name in it:
  https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/tool_call_guidance.md
- Mistral, since its tokenizer's version 11; before, a list as JSON:
  https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/tokens/tokenizers/instruct.py
- PLaMo 3: a name and arguments in tags of their own:
  https://github.com/vllm-project/vllm/blob/main/vllm/parser/plamo3.py
- Solar Open: an id and a name: https://huggingface.co/upstage/Solar-Open-100B/blob/main/chat_template.jinja

Where a call has an id, the chat template shows it to the model again, so it is kept.
"""

import re
from collections.abc import Callable

from msgspec.structs import replace

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, Node, Terminal, concatenation, json_arguments
from orchard.formats.calls import CallEmitter, CallSyntax, SectionSyntax
from orchard.formats.families.json_calls import TOOL_CALLS, JsonCalls, read_call_arguments
from orchard.formats.json_text import read_json_arguments
from orchard.formats.text_reader import MalformedOutput, Parser, TextReader

_KIMI_ID = re.compile(r"(?:functions\.)?(.+?)(?::[0-9]+)?", re.DOTALL)


class NamedCalls(SectionSyntax, frozen=True, kw_only=True):
    """Calls as names. `head` reads what stands between `call_opener` and the arguments; it returns the name and the id.

    `begin` is what the model writes before the arguments, with `{}` in the name's place, or before the id; `id_grammar`
    is that of the rest of the head, by the name. `end_call` is the tag behind the arguments, and `fence` what the model
    writes before it.
    """

    head: Callable[[TextReader], Parser[tuple[str, str | None]]]
    begin: str
    end_call: str
    fence: str = ""
    id_grammar: Callable[[str], Node] | None = None

    def read_call(self, calls: CallEmitter) -> Parser[None]:
        """Read a call from after its opening text to the tag that ends it, inclusive."""
        reader = calls.reader
        name, id_ = yield from self.head(reader)
        if not self.id_grammar:
            yield from read_call_arguments(calls, name, self.end_call)
            return
        yield from read_json_arguments(reader, calls.start(name, id_), calls.add_arguments, (self.end_call,))
        yield from calls.close(self.end_call)

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool; the model chooses its id."""
        head = self.id_grammar(tool.name) if self.id_grammar else ""
        body = concatenation(head, json_arguments(tool))
        return CallGrammar(tool.name, self.begin.format(tool.name), body, f"{self.fence}{self.end_call}")


class HunyuanCalls(NamedCalls, frozen=True, kw_only=True):
    """Calls of Hunyuan, or JSON objects in the same section; both are read."""

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read calls, and the tag that ends them all."""
        if (yield from calls.reader.skip()) == "<":
            yield from NamedCalls.read(self, calls, opener)
        else:
            yield from TOOL_CALLS.read(calls, opener)


def _read_deepseek_head(reader: TextReader) -> Parser[tuple[str, None]]:
    name = (yield from reader.read_word(_SEPARATOR, "\n{")).strip()
    if (yield from reader.skip()) != "{":
        name = (yield from reader.read_word("\n", "{<")).strip()
    return name, None


def _read_functionary_head(reader: TextReader) -> Parser[tuple[str, None]]:
    return (yield from reader.read_name_before(">", "<\n{")), None


def _read_hunyuan_head(reader: TextReader) -> Parser[tuple[str, None]]:
    return (yield from reader.read_word("\n", "{<")).strip(), None


def _read_kimi_head(reader: TextReader) -> Parser[tuple[str, str]]:
    id_ = (yield from reader.read_word(_KIMI_ARGUMENTS, "\n{")).strip()
    found = _KIMI_ID.fullmatch(id_)
    if not found or found[1].isdecimal():  # a number names no tool
        raise MalformedOutput
    return found[1], id_


def _read_plamo_head(reader: TextReader) -> Parser[tuple[str, None]]:
    yield from reader.expect_spaced(_PLAMO_NAME)
    name = (yield from reader.read_word(_PLAMO_END_NAME, "\n{<")).strip()
    yield from reader.expect_spaced(_PLAMO_ARGUMENTS)
    yield from reader.accept_spaced((_PLAMO_KIND,))
    yield from reader.expect_spaced(_PLAMO_TEXT)
    return name, None


def _read_solar_head(reader: TextReader) -> Parser[tuple[str, str | None]]:
    id_ = (yield from reader.read_word(_SOLAR_NAME, "\n{")).strip()
    name = (yield from reader.read_word(_SOLAR_ARGUMENTS, "\n{")).strip()
    if not name:
        raise MalformedOutput
    return name, id_ or None


_SECTION, _CALL_OPENER, _END_CALL = "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
_SEPARATOR = "<｜tool▁sep｜>"
V31 = NamedCalls(
    opens=(_SECTION, _CALL_OPENER),
    call_opener=_CALL_OPENER,
    end_call=_END_CALL,
    closes="<｜tool▁calls▁end｜>",
    head=_read_deepseek_head,
    prefix=_SECTION,
    begin=f"{_CALL_OPENER}{{}}{_SEPARATOR}",
    suffix="<｜tool▁calls▁end｜>",
)
V3 = replace(V31, begin=f"{_CALL_OPENER}function{_SEPARATOR}{{}}\n```json\n", fence="\n```", separator="\n")
FUNCTIONARY = NamedCalls(
    opens=("<function=",),
    call_opener="<function=",
    end_call="</function>",
    closes="</function>",
    head=_read_functionary_head,
    begin="<function={}>",
)
HUNYUAN = HunyuanCalls(
    opens=("<tool_calls>",),
    call_opener="<tool_call>",
    end_call="</tool_call>",
    closes="</tool_calls>",
    head=_read_hunyuan_head,
    prefix="<tool_calls>",
    begin="<tool_call>{}\n```json\n",
    fence="\n```",
    separator="\n",
    suffix="</tool_calls>",
)
HUNYUAN_LIST = replace(HUNYUAN, writes=TOOL_CALLS)
_KIMI_ARGUMENTS = "<|tool_call_argument_begin|>"
KIMI = NamedCalls(
    opens=("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
    call_opener="<|tool_call_begin|>",
    end_call="<|tool_call_end|>",
    closes="<|tool_calls_section_end|>",
    head=_read_kimi_head,
    prefix="<|tool_calls_section_begin|>",
    begin="<|tool_call_begin|>functions.{}:",
    id_grammar=lambda name: concatenation(Terminal("/[0-9]{1,4}/"), _KIMI_ARGUMENTS),
    suffix="<|tool_calls_section_end|>",
)


def _plamo_tag(tag: str) -> str:
    return f"<|plamo:{tag}:plamo|>"


_PLAMO_NAME, _PLAMO_END_NAME = _plamo_tag("begin_tool_name"), _plamo_tag("end_tool_name")
_PLAMO_ARGUMENTS, _PLAMO_END_ARGUMENTS = _plamo_tag("begin_tool_arguments"), _plamo_tag("end_tool_arguments")
_PLAMO_KIND, _PLAMO_TEXT = "<|plamo:constrain|>json", "<|plamo:msg|>"
PLAMO = NamedCalls(
    opens=(_plamo_tag("begin_tool_requests"), _plamo_tag("begin_tool_request")),
    call_opener=_plamo_tag("begin_tool_request"),
    end_call=_PLAMO_END_ARGUMENTS + _plamo_tag("end_tool_request"),
    closes=_plamo_tag("end_tool_requests"),
    head=_read_plamo_head,
    prefix=_plamo_tag("begin_tool_requests"),
    begin=_plamo_tag("begin_tool_request")
    + f"{_PLAMO_NAME}{{}}{_PLAMO_END_NAME}{_PLAMO_ARGUMENTS}{_PLAMO_KIND}{_PLAMO_TEXT}",
    suffix=_plamo_tag("end_tool_requests"),
)
_SOLAR_NAME, _SOLAR_ARGUMENTS = "<|tool_call:name|>", "<|tool_call:args|>"
SOLAR = NamedCalls(
    opens=("<|tool_calls|>", "<|tool_call:begin|>"),
    call_opener="<|tool_call:begin|>",
    end_call="<|tool_call:end|>",
    closes="<|calls|>",
    head=_read_solar_head,
    prefix="<|tool_calls|>",
    begin="<|tool_call:begin|>",
    id_grammar=lambda name: concatenation(Terminal(r"/[0-9A-Za-z_\-]{1,40}/"), _SOLAR_NAME, name, _SOLAR_ARGUMENTS),
)

_CALLS, _ID, _ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"

_MISTRAL_JSON = JsonCalls(opens=(_CALLS,), prefix=f"{_CALLS}[", separator=", ", suffix="]")


class MistralCalls(CallSyntax, frozen=True, kw_only=True):
    """Mistral's calls as names with arguments. A list is read as well."""

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read the calls after one opener."""
        reader = calls.reader
        if (yield from reader.skip()) in "[{":
            yield from _MISTRAL_JSON.read(calls, opener)
            return
        while True:
            name = yield from reader.read_name()
            id_ = None
            yield from reader.skip()
            if (yield from reader.accept((_ID,))):
                yield from reader.skip()
                id_ = yield from reader.read_name()
            yield from reader.accept_spaced((_ARGUMENTS,))
            if (yield from reader.skip()) != "{":
                raise MalformedOutput
            yield from read_json_arguments(reader, calls.start(name, id_), calls.add_arguments, (_CALLS,))
            calls.end()
            if not (yield from calls.read_following_tag(_CALLS)):
                return

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""
        return CallGrammar(tool.name, f"{_CALLS}{tool.name}{_ARGUMENTS}", json_arguments(tool), "")


MISTRAL = MistralCalls(opens=(_CALLS,))
MISTRAL_LIST = replace(MISTRAL, writes=_MISTRAL_JSON)
