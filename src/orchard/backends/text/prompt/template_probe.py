"""Finds out what a chat template can express by rendering small conversations with it."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Literal, get_args

from msgspec.structs import replace

from orchard.backends.text.prompt.chat_messages import (
    EFFORTS,
    Efforts,
    Switch,
    TemplateCapabilities,
    Turn,
    tools_of,
    turns_of,
)
from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import Message, Part, ReasoningPart, TextPart, Tool, ToolCallPart, ToolResultPart
from orchard.formats.format import CallStart, Content, Piece
from orchard.formats.registry import Family

Render = Callable[..., str]

_CALL = ToolCallPart("call_Qid", "Qfunction", '{"Qname": "Qvalue"}')
_OTHER = ToolCallPart("call_Qother", "Qfurther", '{"Qname": "Qlast"}')
_PARAMETERS = {"type": "object", "properties": {"Qname": {"type": "string"}}}
_TOOLS = tuple(Tool(name, "", _PARAMETERS) for name in (_CALL.name, _OTHER.name))
_UNDESCRIBED = (Tool(_CALL.name, None, _PARAMETERS),)
_UNLISTED = (Tool(_CALL.name, "", {"type": "object"}),)
_LISTED_NULL = (Tool(_CALL.name, "", {"type": "object", "properties": {"Qname": {"type": ["string", "null"]}}}),)
Role = Literal["user", "system", "tool"]
ROLES: tuple[Role, ...] = get_args(Role)
"""The roles of messages that may have media."""

_SWITCHES = (
    Switch("enable_thinking", True, False),
    Switch("thinking", True, False),
    Switch("thinking_mode", "enabled", "disabled"),
    Switch("thinking_mode", "on", "off"),
    Switch("reasoning", True, False),
    Switch("reasoning_effort", "high", "no_think"),
    Switch("reasoning_effort", "high", "minimal"),
    Switch("thinking_budget", None, 0),
)
_EFFORTS = ("reasoning_effort", "thinking_effort", "reasoning_strength")
_NO_EFFORT = "Qeffort"


def _said(role: Literal["system", "user", "assistant", "tool"], *parts: str | Part) -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def _told(call: ToolCallPart, text: str) -> Message:
    return _said("tool", ToolResultPart(call.id, (TextPart(text),)))


# Gemma 4's field of a message; a tag of that name doesn't count.
_WITHIN = re.compile(r"""\.tool_responses\b|['"]tool_responses['"]""")
# The type of a content block.
_BLOCKS = re.compile(r"""['"]thinking['"]""")

# A tag that opens reasoning, at the end of a prompt.
_OPENED = re.compile(r"[<\[](?!\S*end)[^<>\[\]/]*think[^<>\[\]/]*[>\]]\s*\Z", re.IGNORECASE)

_RULES, _ASKED, _MORE = _said("system", "Qrules"), _said("user", "Qasked"), _said("user", "Qmore")
_CALLED, _RESULT = _said("assistant", _CALL), _told(_CALL, "Qresult")


def _shows(
    render: Render,
    takes: TemplateCapabilities,
    messages: list[Message],
    *needles: str,
    never: Sequence[str] = (),
    tools: tuple[Tool, ...] = (),
) -> bool:
    """Return whether the template renders these messages with all needles, in this order, and with none of `never`."""
    given = tools_of(tools, takes)
    text = _rendered(render, turns_of(tuple(messages), takes), add_generation_prompt=False, tools=given)
    if text is None:
        return False
    places = [text.rfind(needle) for needle in needles]
    return -1 not in places and places == sorted(places) and not any(one in text for one in never)


def _thinking(render: Render, takes: TemplateCapabilities, source: str) -> TemplateCapabilities:
    """Find out which variables tell the template whether and how much the model thinks."""
    turns = turns_of((_ASKED,), takes)  # Granite reads them only if there is no system message
    prompt = partial(_rendered, render, turns, add_generation_prompt=True, tools=None)
    if prompt() is None:
        return takes
    found = next((switch for switch in _SWITCHES if _switched(prompt, switch, source)), None)
    return replace(
        takes,
        switch=None if found == _SWITCHES[0] else found,
        thinking_off=prompt(enable_thinking=False) is not None,
        thinking_budget=prompt(thinking_budget=100) is not None,
        efforts=_efforts(prompt, source, found.set(on=True) if found else {}),
    )


def _switched(prompt: Callable[..., str | None], switch: Switch, source: str) -> bool:
    if isinstance(switch.off, str) and not _quoted(switch.off, source):
        return False  # the template only copies the value into the prompt
    on, off = prompt(**switch.set(on=True)), prompt(**switch.set(on=False))
    return on is not None and off is not None and on != off


def _efforts(prompt: Callable[..., str | None], source: str, thinking: dict[str, object]) -> Efforts | None:
    """Find the efforts that the template distinguishes; None: it takes all of them under the usual name."""
    name = next((name for name in _EFFORTS if re.search(rf"\b{name}\b", source)), _EFFORTS[0])
    prompts = {effort: prompt(**thinking | {name: effort}) for effort in (*EFFORTS, _NO_EFFORT)}
    other = prompts.pop(_NO_EFFORT)
    taken = tuple(effort for effort, text in prompts.items() if text is not None)
    if other is not None and _NO_EFFORT not in other:  # an unknown effort has the effect of a known one
        named = tuple(effort for effort in taken if prompts[effort] != other or _quoted(effort, source))
        same = {prompts[effort] == other for effort in named if effort != "none"}
        taken = named if same == {True, False} else taken
    return None if name == _EFFORTS[0] and taken == EFFORTS else Efforts(name, taken)


def _quoted(text: str, source: str) -> bool:
    return f"'{text}'" in source or f'"{text}"' in source


def _rendered(render: Render, turns: list[Turn], **variables: object) -> str | None:
    try:
        return render(turns, **variables)
    except OrchardError as error:  # it took too long, which is not a rejection
        raise OrchardError("model_failed", error.message) from error
    except Exception:  # templates raise all kinds of errors to reject messages
        return None


def probe(render: Render, source: str) -> TemplateCapabilities:
    """Return what a template can express; `render` takes turns and variables, `source` is the template's source."""
    shows = partial(_shows, render)
    takes = TemplateCapabilities()
    takes = replace(takes, system=shows(takes, [_RULES, _ASKED], "Qrules", "Qasked"))
    takes = replace(takes, lone_system=not takes.system or shows(takes, [_RULES], "Qrules"))
    lead = [_RULES] if takes.system else []
    later = [*lead, _ASKED, _said("assistant", "Qsaid"), _said("system", "Qlater"), _MORE]
    takes = replace(
        takes,
        later_system=takes.system and shows(takes, later, "Qsaid", "Qlater", "Qmore"),
        repeats=shows(takes, [*lead, _ASKED, _MORE], "Qasked", "Qmore"),
        tools=shows(takes, [*lead, _ASKED], "Qfunction", tools=_TOOLS),
    )
    takes = _thinking(render, takes, source)
    if _BLOCKS.search(source):
        takes = _in_blocks(shows, takes)
    if not takes.tools:  # then the prompt describes the tools and calls as Hermes does
        return replace(takes, calls=False)
    takes = replace(
        takes,
        undescribed=shows(takes, [*lead, _ASKED], "Qfunction", tools=_UNDESCRIBED),
        unlisted=shows(takes, [*lead, _ASKED], "Qfunction", tools=_UNLISTED),
        listed_null=shows(takes, [*lead, _ASKED], "Qfunction", tools=_LISTED_NULL),
    )
    called = [_ASKED, _CALLED, _RESULT]
    needles = ["Qvalue", "response:Qfunction", "Qresult"] if _WITHIN.search(source) else ["Qvalue", "Qresult"]
    # The ways to write a call, the most common one first.
    ids = ("numbered" if "<|tool_calls_section_begin|>" in source else "any", "short")
    for within, own_ids, as_text in itertools.product((False, True), ids, (False, True)):
        form = replace(takes, results_within=within, ids=own_ids, text_arguments=as_text)
        # The arguments must not be written as a Python dict.
        if shows(form, called, *needles, never=("'Qname': 'Qvalue'",), tools=_TOOLS):
            # Older templates of Mistral leave out the system message if the last message is a result.
            kept = form.system and shows(form, [_RULES, *called], "Qrules", tools=_TOOLS)
            found = _beside(partial(shows, tools=_TOOLS), form)
            return replace(found, system=kept, later_system=form.later_system and kept)
    takes = replace(takes, calls=False)
    results = shows(replace(takes, lone_results=True), [*called, _said("assistant", "Qsaid")], "Qresult", "Qsaid")
    return replace(takes, lone_results=results)


def inserted(render: Render, takes: TemplateCapabilities, block: Turn, role: Role) -> str | None:
    """Return what a template writes for a block of the content of a role's message; None: it can't write the block."""
    messages = {"user": (_ASKED,), "system": (_RULES, _ASKED), "tool": (_ASKED, _CALLED, _RESULT)}
    turns = turns_of(messages[role], takes)
    shown = partial(_rendered, render, add_generation_prompt=False, tools=tools_of(_TOOLS, takes))
    before, after = ({"type": "text", "text": text} for text in ("Qone", "Qtwo"))
    without, text = (
        shown([turn | {"content": content} if turn["role"] == role else turn for turn in turns])
        for content in ([before, after], [before, block, after])
    )
    if without is None or text is None:
        return None
    start = common_length(without, text)
    end = common_length(reversed(without[start:]), reversed(text[start:]))
    return text[start : len(text) - end] if start + end == len(without) else None


def common_length(one: Iterable[object], other: Iterable[object]) -> int:
    """Return the length of the longest common prefix of two sequences."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def unread(render: Render, takes: TemplateCapabilities, family: Family) -> list[str]:
    """Return what of an answer a template writes in a way that the family doesn't read: reasoning, tool calls."""
    found = []
    thoughts = [*_readings(render, takes, family, _said("assistant", ReasoningPart("Qthought"), "Qsaid"))]
    told = [any("Qthought" in piece.text for piece in pieces if isinstance(piece, Content)) for pieces in thoughts]
    prompt = _rendered(render, turns_of((_ASKED,), takes), add_generation_prompt=True, tools=None) or ""
    if (told and all(told)) or (_OPENED.search(prompt) and not family.begin(prompt).thinking):
        found.append("reasoning")
    calls = (
        [*_readings(render, takes, family, _said("assistant", _CALL), _told(_CALL, "Qresult"))] if takes.calls else []
    )
    named = [any(isinstance(piece, CallStart) and piece.name == _CALL.name for piece in pieces) for pieces in calls]
    if takes.calls and named and not any(named):
        found.append("tool calls")
    return found


def _readings(render: Render, takes: TemplateCapabilities, family: Family, *messages: Message) -> Iterator[list[Piece]]:
    """Yield what a family reads in messages behind a prompt, where an answer may begin; nothing if they are rejected.

    That is where the template's prompt for an answer and its earlier answers part, before a tag in which they part, or
    behind the whole prompt.
    """
    tools = tools_of(_TOOLS, takes) if takes.calls else None
    prompt = _rendered(render, turns_of((_ASKED,), takes), add_generation_prompt=True, tools=tools)
    text = _rendered(render, turns_of((_ASKED, *messages), takes), add_generation_prompt=False, tools=tools)
    if prompt is None or text is None:
        return
    shared = text[: common_length(prompt, text)]
    for begun, start in ((shared, len(shared)), (prompt, len(shared)), *_before_tag(shared)):
        format_ = family.begin(begun, _TOOLS)
        yield [*format_.feed(text[start:]), *format_.finish()]


def _before_tag(shared: str) -> list[tuple[str, int]]:
    """Return the text before a tag that it ends in, and its length; nothing where it ends in none."""
    place = shared.rfind("<")
    return [(shared[:place], place)] if place >= 0 and ">" not in shared[place:] else []


def _in_blocks(shows: Callable[..., bool], takes: TemplateCapabilities) -> TemplateCapabilities:
    """Find out whether the template shows reasoning only as a content block."""
    thought = [_ASKED, _said("assistant", ReasoningPart("Qthought"), "Qsaid")]
    blocks = replace(takes, thinking_blocks=True)
    printed = ("'Qthought'", '"Qthought"')
    if shows(takes, thought, "Qthought") or not shows(blocks, thought, "Qthought", "Qsaid", never=printed):
        return takes
    return blocks


def _beside(shows: Callable[..., bool], takes: TemplateCapabilities) -> TemplateCapabilities:
    """Find out what a message with a call may have besides it."""
    both = [_ASKED, _said("assistant", _CALL, _OTHER), _RESULT, _told(_OTHER, "Qend")]
    takes = replace(takes, several_calls=shows(takes, both, "Qvalue", "Qlast", "Qend"))
    texts = [_ASKED, _said("assistant", "Qtext", _CALL), _RESULT]
    takes = replace(takes, text_beside_calls=shows(takes, texts, "Qtext", "Qvalue"))
    all_three = [_ASKED, _said("assistant", ReasoningPart("Qthought"), "Qtext", _CALL), _RESULT]
    return replace(takes, reasoning_beside_text=shows(takes, all_three, "Qvalue"))
