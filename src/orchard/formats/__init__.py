"""Model output formats: how reasoning, text and tool calls are told apart in what a model writes.

A format is one file with a class that keeps `Format`'s law, and one line in `choose`.
"""

from collections.abc import Callable

from orchard.formats.pieces import Format
from orchard.formats.plain import Plain
from orchard.formats.qwen3 import Qwen3

_TAIL = 64  # characters of a prompt that are looked at


def choose(chat_template: str) -> Callable[[str, bool], Format]:
    """Find a model's format by its chat template.

    What comes back makes a fresh format for one answer, from the rendered prompt that the answer continues and from
    whether the request has tools.
    """
    thinks, calls = "<think>" in chat_template, "<tool_call>" in chat_template
    if not (thinks or calls):
        return lambda prompt, tools: Plain()

    def begin(prompt: str, tools: bool) -> Format:
        tail = prompt[-_TAIL:].rstrip()
        # A template that turns thinking off writes an empty block itself; the model doesn't open another.
        may_think = thinks and not tail.endswith("</think>")
        return Qwen3(thinking=thinks and tail.endswith("<think>"), may_think=may_think, may_call=calls and tools)

    return begin
