"""Calls in the notation of Gemma: `call:name{key:value,…}` in tags, with strings between tags of their own.

- FunctionGemma: https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices
- Gemma 4: https://ai.google.dev/gemma/docs/core/prompt-formatting-gemma4
"""

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar
from orchard.formats.calls import CallEmitter, CallSyntax
from orchard.formats.literal_grammars import keywords, quoted_value
from orchard.formats.literals import Notation, arguments
from orchard.formats.text_reader import MalformedOutput, Reading

_CALL = "call:"


class GemmaCalls(CallSyntax, frozen=True, kw_only=True):
    """One call between tags; `quote` stands around strings. Strings as in JSON are read as well."""

    quote: str

    def read(self, calls: CallEmitter, opener: str) -> Reading[None]:
        """Read a call and its end tag."""
        source = calls.source
        yield from source.expect(_CALL)
        name = (yield from source.word("{", "\n<}")).strip()
        if not name:
            raise MalformedOutput
        notation = Notation((self.quote, '"'), ":", "}", words=True)
        yield from arguments(source, notation, calls.start(name), calls.arguments)
        yield from calls.close(self.closes)

    def call(self, tool: Tool) -> CallGrammar:
        """Return what one call of a tool looks like."""
        body = keywords(tool, ":", ",", quoted_value(self.quote))
        return CallGrammar(tool.name, f"{self.opens[0]}{_CALL}{tool.name}{{", body, f"}}{self.closes}")


FUNCTION_GEMMA = GemmaCalls(opens=("<start_function_call>",), closes="<end_function_call>", quote="<escape>")
GEMMA4 = GemmaCalls(opens=("<|tool_call>",), closes="<tool_call|>", quote='<|"|>')
