"""Finds out what a chat template takes, by rendering small conversations: templates differ more than their names do."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from msgspec.structs import replace

from orchard.core.request import Message, Part, ReasoningPart, TextPart, Tool, ToolCallPart, ToolResultPart
from orchard.formats.converters import converter
from orchard.worker.conversation import Takes, tools_of, turns_of

Render = Callable[..., str]

_CALL = ToolCallPart("call_Qid", "Qfunction", '{"Qname": "Qvalue"}')
_OTHER = ToolCallPart("call_Qother", "Qfurther", '{"Qname": "Qlast"}')
_TOOLS = tuple(
    Tool(name, "", {"type": "object", "properties": {"Qname": {"type": "string"}}})
    for name in (_CALL.name, _OTHER.name)
)


def _said(role: Literal["system", "user", "assistant", "tool"], *parts: str | Part) -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def _told(call: ToolCallPart, text: str) -> Message:
    return _said("tool", ToolResultPart(call.id, (TextPart(text),)))


# Gemma 4's field of a message; a tag of that name is another thing.
_WITHIN = re.compile(r"""\.tool_responses\b|['"]tool_responses['"]""")

_RULES, _ASKED, _MORE = _said("system", "Qrules"), _said("user", "Qasked"), _said("user", "Qmore")


class _Probe:
    def __init__(self, render: Render) -> None:
        self._render = render

    def shows(self, takes: Takes, messages: list[Message], *needles: str, never: str = "", tools: bool = False) -> bool:
        """Whether the template renders these messages, with the needles in this order."""
        given = tools_of(_TOOLS, takes) if tools else None
        try:
            text = self._render(turns_of(tuple(messages), takes), add_generation_prompt=False, tools=given)
        except Exception:  # templates refuse by raising whatever they like
            return False
        places = [text.rfind(needle) for needle in needles]
        return -1 not in places and places == sorted(places) and not (never and never in text)


def converted(takes: Takes, name: str | None) -> Takes:
    """Let the converter of that name have its way. Raises ValueError that lists those known."""
    return takes if name is None else replace(takes, **converter(name))


def probe(render: Render, source: str) -> Takes:
    """Say what a template takes; `render` takes turns and variables, `source` is the template's text."""
    shows = _Probe(render).shows
    takes = Takes()
    takes = replace(takes, system=shows(takes, [_RULES, _ASKED], "Qrules", "Qasked"))
    takes = replace(takes, lone_system=not takes.system or shows(takes, [_RULES], "Qrules"))
    lead = [_RULES] if takes.system else []
    later = [*lead, _ASKED, _said("assistant", "Qsaid"), _said("system", "Qlater"), _MORE]
    takes = replace(
        takes,
        later_system=takes.system and shows(takes, later, "Qsaid", "Qlater", "Qmore"),
        repeats=shows(takes, [*lead, _ASKED, _MORE], "Qasked", "Qmore"),
        tools=shows(takes, [*lead, _ASKED], "Qfunction", tools=True),
    )
    if not takes.tools:  # the model gets to know of them in Hermes' way, and its calls are written so as well
        return replace(takes, calls=False)
    called = [_ASKED, _said("assistant", _CALL), _told(_CALL, "Qresult")]
    needles = ["Qvalue", "response:Qfunction", "Qresult"] if _WITHIN.search(source) else ["Qvalue", "Qresult"]
    for form in _forms(takes, source):
        # The object must not be written as Python would write it.
        if shows(form, called, *needles, never="'Qname': 'Qvalue'", tools=True):
            # Mistral's older ones leave the system message out while the last message is a result.
            kept = form.system and shows(form, [_RULES, *called], "Qrules", tools=True)
            found = _beside(partial(shows, tools=True), form)
            return replace(found, system=kept, later_system=form.later_system and kept)
    takes = replace(takes, calls=False)
    results = shows(replace(takes, lone_results=True), [*called, _said("assistant", "Qsaid")], "Qresult", "Qsaid")
    return replace(takes, lone_results=results)


def _forms(takes: Takes, source: str) -> Iterator[Takes]:
    """The ways to write a call, the commonest first."""
    if "<|tool_calls_section_begin|>" in source:
        takes = replace(takes, ids="numbered")
    for results_within in (False, True):
        for ids in (takes.ids, "short"):
            for text_arguments in (False, True):
                yield replace(takes, results_within=results_within, ids=ids, text_arguments=text_arguments)


def _beside(shows: Callable[..., bool], takes: Takes) -> Takes:
    """Find out what may stand beside a call."""
    both = [_ASKED, _said("assistant", _CALL, _OTHER), _told(_CALL, "Qresult"), _told(_OTHER, "Qend")]
    takes = replace(takes, several_calls=shows(takes, both, "Qvalue", "Qlast", "Qend"))
    texts = [_ASKED, _said("assistant", "Qtext", _CALL), _told(_CALL, "Qresult")]
    takes = replace(takes, text_beside_calls=shows(takes, texts, "Qtext", "Qvalue"))
    all_three = [_ASKED, _said("assistant", ReasoningPart("Qthought"), "Qtext", _CALL), _told(_CALL, "Qresult")]
    return replace(takes, reasoning_beside_text=shows(takes, all_three, "Qvalue"))
