"""Calls that are JSON objects: with a name and arguments, in tags, in lists, or bare; Apertus' with the name as a key.

- Nemotron: https://huggingface.co/nvidia/NVIDIA-Nemotron-Nano-9B-v2/blob/main/tokenizer_config.json
- Granite: https://huggingface.co/ibm-granite/granite-3.3-8b-instruct/blob/main/tokenizer_config.json
- Granite 20B for function calling: https://huggingface.co/ibm-granite/granite-20b-functioncalling
- Cohere: https://huggingface.co/CohereLabs/c4ai-command-r7b-12-2024/blob/main/tokenizer_config.json
- Command R and R+: https://huggingface.co/CohereLabs/c4ai-command-r-plus/blob/main/tokenizer_config.json
- InternLM 2.5: https://github.com/InternLM/InternLM/blob/main/agent/README.md
- GigaChat 3: https://huggingface.co/ai-sage/GigaChat3-10B-A1.8B/blob/main/chat_template.jinja; 3.1 has a token for it
- Llama 3: https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1
- Apertus: a list of objects, each with the tool's name as its one key and the arguments as its value:
  https://github.com/swiss-ai/apertus_format/blob/main/docs/format.md
"""

import json
from collections.abc import Sequence

from msgspec.structs import replace

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, json_arguments
from orchard.formats.calls import MAX_HELD_CHARS, CallEmitter, CallSyntax
from orchard.formats.json_text import (
    parse_json_arguments,
    read_decoded_string,
    read_json_arguments,
    read_json_value,
    read_member_end,
)
from orchard.formats.schema import Signature
from orchard.formats.text_reader import MalformedOutput, Parser, TextReader

_NAMES = ("name", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args")
_FENCE = "```"
_FENCE_OPENS = (f"{_FENCE}json", _FENCE)


class JsonCalls(CallSyntax, frozen=True, kw_only=True):
    """Calls as JSON. `name` and `key`: what this family calls a function's name and arguments; others are read, too.

    `begin` and `end` are how the family itself writes what stands around each call. The parser reads one call or
    several, in a list or not. After a lead, a call counts only if the request has its tool.
    """

    separator: str = "\n"
    name: str = "name"
    key: str = "arguments"
    begin: str = ""
    end: str = ""

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read the calls after an opener, which may itself be the beginning of the JSON."""
        reader = calls.reader
        reader.at -= len(opener) - len(opener.rstrip("[{"))
        only_known = opener in self.leads
        ends = (_FENCE,) if opener.startswith(_FENCE) else (self.closes,) if self.closes else ()
        fenced = (yield from reader.skip()) == "`"
        if fenced:
            yield from _read_fence(reader)
            ends = (_FENCE, *ends)
        in_list = (yield from reader.skip()) == "["
        reader.at += in_list
        while True:
            yield from read_call(calls, ("]", *ends) if in_list else ends, only_known=only_known)
            if in_list:
                calls.end()
                tag = yield from calls.read_following_tag(",", "]")
                if tag == "]":
                    tag = yield from reader.accept_spaced(ends)
            elif not (tag := (yield from calls.close(*ends))):
                # Another one may follow, Llama's behind a semicolon or a comma.
                tag = yield from reader.accept_spaced(("{", ";", ","))
                reader.at -= tag == "{"
            if tag in (None, *ends):
                break
        if fenced:
            yield from reader.accept_spaced(ends)

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""
        begin = f'{self.begin}{{"{self.name}": {json.dumps(tool.name)}, "{self.key}": '
        return CallGrammar(tool.name, begin, json_arguments(tool), f"}}{self.end}")


def _read_fence(reader: TextReader) -> Parser[None]:
    """Read what opens a code block."""
    if not (reader.allows("a code block") and (yield from reader.accept(_FENCE_OPENS))):
        raise MalformedOutput("JSON is missing")


def read_call(calls: CallEmitter, ends: Sequence[str], *, only_known: bool = False) -> Parser[None]:
    """Read one call's object, all but the one of `ends` that follows it.

    Raise MalformedOutput where it has no name or, with `only_known`, there is no such tool.
    """
    reader = calls.reader
    yield from reader.expect_spaced("{")
    name, id_, late, started = "", None, "", False
    before = 0  # characters of other members before the name
    while True:
        yield from reader.skip()
        key = yield from read_decoded_string(reader)
        yield from reader.expect_spaced(":")
        first = yield from reader.skip()
        if key in _NAMES:
            name = yield from read_decoded_string(reader)
            if not name or (only_known and name not in calls.tools):
                raise MalformedOutput("the request has no tool of this name")
        elif key == "id" and first == '"':
            id_ = yield from read_decoded_string(reader)
        elif key in _ARGUMENTS and name and not started:
            started = True
            signature = calls.start(name, id_)
            if first == "{":
                yield from read_json_arguments(reader, signature, calls.add_arguments, ends)
            else:
                calls.add_arguments(_arguments_json((yield from _collect_value(reader)), signature))
        elif key in _ARGUMENTS and not started:
            late = yield from _collect_value(reader)
        else:
            # An answer in JSON is not held back to its end.
            most = MAX_HELD_CHARS - before if only_known and not name else None
            before += len((yield from _collect_value(reader, most)))
        if (yield from read_member_end(reader, ends, complete=started or late != "")).endswith("}"):
            break
    if not name:
        raise MalformedOutput("the name is missing")
    if not started:
        calls.add_arguments(_arguments_json(late, calls.start(name, id_)))


def read_call_arguments(calls: CallEmitter, name: str, end: str) -> Parser[None]:
    """Read the rest of a call whose name stands before it: JSON arguments, in a fenced block or not, and `end`."""
    reader = calls.reader
    if not name:
        raise MalformedOutput
    yield from reader.skip()
    fence = yield from reader.accept(_FENCE_OPENS)
    yield from reader.skip()
    yield from read_json_arguments(reader, calls.start(name), calls.add_arguments, (_FENCE, end))
    if fence:
        yield from reader.accept_spaced((_FENCE,))
    yield from calls.close(end)


def _collect_value(reader: TextReader, most: int | None = None) -> Parser[str]:
    """Read a value of any kind. Raise MalformedOutput where it has more than `most` characters."""
    found: list[str] = []
    left = most

    def take(text: str) -> None:
        nonlocal left
        found.append(text)
        if left is not None and (left := left - len(text)) < 0:
            raise MalformedOutput

    yield from read_json_value(reader, take)
    return "".join(found)


def _arguments_json(text: str, signature: Signature | None) -> str:
    """Return a call's arguments as an object's text. Some models write a string, or null if there are none."""
    found = json.loads(text) if text and text[0] != "{" else text
    if not found:
        return "{}"
    if not isinstance(found, str):
        raise MalformedOutput("the arguments are no object")
    return parse_json_arguments(found, signature)


def _list_syntax(begin: str, end: str, name: str = "name", key: str = "arguments") -> JsonCalls:
    """Return the syntax of calls that stand as a list between two tags."""
    prefix, suffix = f"{begin}[", f"]{end}"
    return JsonCalls(opens=(begin,), closes=end, name=name, key=key, prefix=prefix, separator=", ", suffix=suffix)


NEMOTRON = _list_syntax("<TOOLCALL>", "</TOOLCALL>")
TOOL_CALLS = _list_syntax("<tool_calls>", "</tool_calls>")
COHERE = _list_syntax("<|START_ACTION|>", "<|END_ACTION|>", "tool_name", "parameters")
GRANITE = replace(_list_syntax("<|tool_call|>", ""), opens=("<|tool_call|>", "<tool_call>"), closes="</tool_call>")
PHI = JsonCalls(
    opens=("functools[", "<|tool_call|>"),
    closes="<|/tool_call|>",
    prefix="functools[",
    separator=", ",
    suffix="]",
)
COMMAND_R = JsonCalls(
    opens=("Action:\n```json", "Action: ```json", "Action:```json"),
    closes=_FENCE,
    name="tool_name",
    key="parameters",
    prefix="Action:\n```json\n[\n    ",
    separator=",\n    ",
    suffix="\n]```",
)
_GIGACHAT_ROLE = "function call<|role_sep|>\n"
GIGACHAT = JsonCalls(
    opens=(f"<|message_sep|>\n\n{_GIGACHAT_ROLE}", _GIGACHAT_ROLE),
    closes="<|message_sep|>",
    begin=f"<|message_sep|>\n\n{_GIGACHAT_ROLE}",
    separator="",
)
GIGACHAT_3_1 = replace(GIGACHAT, opens=("<|function_call|>",), begin="<|function_call|>")
GRANITE_20B = JsonCalls(opens=("<function_call>",), closes="</function_call>", begin="<function_call> ", separator="")
INTERN = JsonCalls(
    opens=("<|action_start|><|plugin|>",),
    closes="<|action_end|>",
    key="parameters",
    begin="<|action_start|><|plugin|>\n",
    end="<|action_end|>",
    separator="",
)
_BRACKETS = tuple(f"{fence}{bracket}" for fence in ("", "```json\n", "```\n") for bracket in ("{", "[{"))
LLAMA = JsonCalls(opens=("<|python_tag|>",), leads=_BRACKETS, key="parameters", separator="; ")
BARE = JsonCalls(leads=_BRACKETS)


class ApertusCalls(CallSyntax, frozen=True, kw_only=True):
    """Apertus' calls."""

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read a list of calls, and the tag that ends it."""
        reader = calls.reader
        yield from reader.expect_spaced("[")
        while True:
            yield from reader.expect_spaced("{")
            yield from reader.skip()
            name = yield from read_decoded_string(reader)
            if not name:
                raise MalformedOutput
            yield from reader.expect_spaced(":")
            yield from reader.skip()
            yield from read_json_arguments(reader, calls.start(name), calls.add_arguments)
            yield from calls.close("}")
            mark = yield from calls.read_following_tag(",", "]")
            if mark == "]":
                yield from reader.accept_spaced((self.closes,))
            if mark != ",":
                return

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""
        return CallGrammar(tool.name, f"{{{json.dumps(tool.name)}: ", json_arguments(tool), "}")


APERTUS = ApertusCalls(
    opens=("<|tools_prefix|>",),
    closes="<|tools_suffix|>",
    prefix="<|tools_prefix|>[",
    separator=", ",
    suffix="]<|tools_suffix|>",
)
