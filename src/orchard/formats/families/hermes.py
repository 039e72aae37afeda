"""Hermes' calls: JSON objects in tags; and families that may also write them.

https://huggingface.co/Qwen/Qwen3-8B/blob/main/tokenizer_config.json
"""

from orchard.formats.calls import CallEmitter, CallSyntax
from orchard.formats.families.json_calls import JsonCalls
from orchard.formats.families.xml_calls import QWEN
from orchard.formats.text_reader import MalformedOutput, OutputEnded, Parser


class HermesCalls(JsonCalls, frozen=True, kw_only=True):
    """Hermes' calls. Some models write Qwen3-Coder's tags in place of the JSON."""

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read the calls after an opener."""
        if (yield from calls.reader.skip()) == "<" and calls.reader.allows("tags of another model"):
            yield from QWEN.read(calls, opener)
        else:
            yield from JsonCalls.read(self, calls, opener)


HERMES = HermesCalls(opens=("<tool_call>",), closes="</tool_call>", begin="<tool_call>\n", end="\n</tool_call>")


class OwnOrHermesCalls(CallSyntax, frozen=True, kw_only=True):
    """A family's own calls and Hermes'.

    `closes` is the family's own: Hermes' broken calls are read to their end in `read`.
    """

    own: CallSyntax

    def read(self, calls: CallEmitter, opener: str) -> Parser[None]:
        """Read calls; if both kinds open in the same way, JSON is Hermes'."""
        reader = calls.reader
        shared = opener in self.own.opens
        if opener not in HERMES.opens or (shared and (yield from reader.skip()) not in "{["):
            yield from self.own.read(calls, opener)
            return
        try:
            yield from HERMES.read(calls, opener)
        except MalformedOutput as broken:
            if isinstance(broken, OutputEnded) or not calls.is_certain:
                raise
            yield from calls.read_rest(HERMES.closes)
