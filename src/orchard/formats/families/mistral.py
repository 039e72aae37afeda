"""Mistral's calls: a list as JSON, or, since the tokenizer's version 11, one name with its arguments after the other.

https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/tokens/tokenizers/instruct.py
"""

from msgspec.structs import replace

from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, json_arguments
from orchard.formats.calls import CallEmitter, CallSyntax
from orchard.formats.families.json_calls import JsonCalls
from orchard.formats.json_text import arguments
from orchard.formats.text_reader import MalformedOutput, Reading

_CALLS, _ID, _ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"

_LIST = JsonCalls(opens=(_CALLS,), prefix=f"{_CALLS}[", separator=", ", suffix="]")


class MistralCalls(CallSyntax, frozen=True, kw_only=True):
    """Mistral's calls as names with arguments. A list is read as well."""

    def read(self, calls: CallEmitter, opener: str) -> Reading[None]:
        """Read the calls behind one opener."""
        source = calls.source
        if (yield from source.skip()) in "[{":
            yield from _LIST.read(calls, opener)
            return
        while True:
            name = yield from source.name()
            id_ = None
            yield from source.skip()
            if (yield from source.choice((_ID,))):
                yield from source.skip()
                id_ = yield from source.name()
            yield from source.leading((_ARGUMENTS,))
            if (yield from source.skip()) != "{":
                raise MalformedOutput
            yield from arguments(source, calls.start(name, id_), calls.arguments)
            calls.end()
            if not (yield from source.leading((_CALLS,))):
                return

    def call(self, tool: Tool) -> CallGrammar:
        """Return what one call of a tool looks like."""
        return CallGrammar(tool.name, f"{_CALLS}{tool.name}{_ARGUMENTS}", json_arguments(tool), "")


MISTRAL = MistralCalls(opens=(_CALLS,))
MISTRAL_LIST = replace(MISTRAL, writes=_LIST)
