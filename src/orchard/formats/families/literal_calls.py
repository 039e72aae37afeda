"""Calls with arguments in notations that are not JSON.

Python's: `[f(a=1, b="x"), g()]`, bare, in tags or in a fenced block.

- Llama 3.2 and 4: https://github.com/meta-llama/llama-models/blob/main/models/llama3_2/text_prompt_format.md (a list,
  mostly bare, sometimes in `<|python_start|>`)
- Olmo 3: https://huggingface.co/allenai/Olmo-3-7B-Instruct/blob/main/chat_template.jinja (one call a line, in tags)
- LFM2: https://huggingface.co/LiquidAI/LFM2-1.2B/blob/main/chat_template.jinja (a list, in tags)
- Gemma 3: https://ai.google.dev/gemma/docs/capabilities/function-calling (a fenced block called `tool_code`)

Gemma's: `call:name{key:value,…}` in tags, with strings between tags of their own.

- FunctionGemma: https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices
- Gemma 4: https://ai.google.dev/gemma/docs/core/prompt-formatting-gemma4
"""

import re
from functools import partial

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar
from orchard.formats.calls import CallEmitter, CallSyntax
from orchard.formats.families.json_calls import JsonCalls
from orchard.formats.literals import (
    PYTHON,
    Notation,
    gemma_value_grammar,
    keywords_grammar,
    python_value_grammar,
    read_literal_arguments,
)
from orchard.formats.text_reader import MalformedOutput, Parser

_NAME_CHARS = re.compile(r"[\w.\-]*")
_NAME = re.compile(r"[^\W\d][\w.\-]*")


class PythonicCalls(CallSyntax, frozen=True, kw_only=True):
    """Calls as Python. The parser reads one call or several, in a list or not, and also JSON between tags.

    In a list without a tag, a call counts only if the request has its tool. `wrapper` is a function that a call may
    stand in, `module` what may stand before its name.
    """

    prefix: str = "["
    separator: str = ", "
    suffix: str = "]"
    wrapper: str = ""
    module: str = ""

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read the calls after an opener, which may itself be a list's bracket."""
        reader = calls.reader
        bare = opener.endswith("[")
        lead = None if bare else (yield from reader.accept_spaced(("[{", "{")))
        if lead or (not bare and (yield from reader.skip()) == "`"):
            yield from JsonCalls(closes=self.closes).read(calls, lead or "")
            return
        in_list = bare or (yield from reader.accept_spaced(("[",))) is not None
        ends = (self.closes,) if self.closes and not bare else ()
        while True:
            yield from self._read_call(calls, only_known=bare)
            tag = yield from calls.close(",", "]") if in_list else calls.close(",", *ends)
            if tag == "]" or (tag and in_list and (yield from reader.accept_spaced(("]",)))):
                yield from reader.accept_spaced(ends)
            elif tag == "," or (tag is None and not in_list and reader.at < len(reader.text)):
                continue
            return

    def _read_call(self, calls: CallEmitter, *, only_known: bool) -> Parser[None]:
        """Read a call, all but its end."""
        reader = calls.reader
        name = yield from self._read_name(calls)
        wrapped = name == self.wrapper and name not in calls.tools
        if wrapped:
            name = yield from self._read_name(calls)
        if (short := name.removeprefix(self.module)) in calls.tools:
            name = short
        if not _NAME.fullmatch(name) or (only_known and name not in calls.tools):
            raise MalformedOutput
        signature = calls.start(name)
        yield from read_literal_arguments(reader, PYTHON, signature, calls.add_arguments)
        if wrapped:
            yield from reader.expect_spaced(")")

    def _read_name(self, calls: CallEmitter) -> Parser[str]:
        """Read a name and the bracket behind it."""
        reader = calls.reader
        yield from reader.skip()
        name = yield from reader.read_run(_NAME_CHARS)
        yield from reader.expect_spaced("(")
        return name

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""
        return CallGrammar(tool.name, f"{tool.name}(", keywords_grammar(tool, "=", ", ", python_value_grammar), ")")


PYTHONIC = PythonicCalls(opens=("<|python_start|>", "\n["), leads=("[",), closes="<|python_end|>")
OLMO = PythonicCalls(
    opens=("<function_calls>",),
    closes="</function_calls>",
    prefix="<function_calls>",
    separator="\n",
    suffix="</function_calls>",
)
LFM = PythonicCalls(
    opens=("<|tool_call_start|>",),
    closes="<|tool_call_end|>",
    prefix="<|tool_call_start|>[",
    suffix="]<|tool_call_end|>",
)
GEMMA3 = PythonicCalls(
    opens=("```tool_code",),
    closes="```",
    prefix="```tool_code\n",
    separator="\n",
    suffix="\n```",
    wrapper="print",
    module="default_api.",
)

_CALL = "call:"


class GemmaCalls(CallSyntax, frozen=True, kw_only=True):
    """One call between tags; `quote` stands around strings. Strings as in JSON are read as well."""

    quote: str

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read a call and its end tag."""
        reader = calls.reader
        yield from reader.expect_spaced(_CALL)
        name = (yield from reader.read_word("{", "\n<}")).strip()
        if not name:
            raise MalformedOutput
        notation = Notation((self.quote, '"'), ":", "}", words=True)
        yield from read_literal_arguments(reader, notation, calls.start(name), calls.add_arguments)
        yield from calls.close(self.closes)

    def call_grammar(self, tool: Tool) -> CallGrammar:
        """Return the grammar of one call of a tool."""
        body = keywords_grammar(tool, ":", ",", partial(gemma_value_grammar, self.quote))
        return CallGrammar(tool.name, f"{self.opens[0]}{_CALL}{tool.name}{{", body, f"}}{self.closes}")


FUNCTION_GEMMA = GemmaCalls(opens=("<start_function_call>",), closes="<end_function_call>", quote="<escape>")
GEMMA4 = GemmaCalls(opens=("<|tool_call>",), closes="<tool_call|>", quote='<|"|>')
