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
_OTHER_CALL = ToolCallPart("call_Qother", "Qfurther", '{"Qname": "Qlast"}')
_PARAMETERS = {"type": "object", "properties": {"Qname": {"type": "string"}}}
_TOOLS = tuple(Tool(name, "", _PARAMETERS) for name in (_CALL.name, _OTHER_CALL.name))
_UNDESCRIBED_TOOLS = (Tool(_CALL.name, None, _PARAMETERS),)
_UNLISTED_TOOLS = (Tool(_CALL.name, "", {"type": "object"}),)
_NULLABLE_TOOLS = (Tool(_CALL.name, "", {"type": "object", "properties": {"Qname": {"type": ["string", "null"]}}}),)
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
_UNKNOWN_EFFORT = "Qeffort"


def _message(role: Literal["system", "user", "assistant", "tool"], *parts: str | Part) -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def _result_message(call: ToolCallPart, text: str) -> Message:
    return _message("tool", ToolResultPart(call.id, (TextPart(text),)))


# Gemma 4's field of a message; a tag of that name doesn't count.
_RESULTS_FIELD = re.compile(r"""\.tool_responses\b|['"]tool_responses['"]""")
# The type of a content block.
_THINKING_BLOCK = re.compile(r"""['"]thinking['"]""")

# A tag that opens reasoning, at the end of a prompt.
_REASONING_TAG = re.compile(r"[<\[](?!\S*end)[^<>\[\]/]*think[^<>\[\]/]*[>\]]\s*\Z", re.IGNORECASE)

_SYSTEM = _message("system", "Qrules")
_QUESTION = _message("user", "Qasked")
_SECOND_QUESTION = _message("user", "Qmore")
_ANSWER = _message("assistant", "Qsaid")
_CALL_MESSAGE = _message("assistant", _CALL)
_RESULT_MESSAGE = _result_message(_CALL, "Qresult")
_TEXTS = re.compile("Qrules|Qasked|Qsaid|Qmore|Qvalue|Qresult")


def _shows(
    render: Render,
    capabilities: TemplateCapabilities,
    messages: list[Message],
    *needles: str,
    forbidden: Sequence[str] = (),
    tools: tuple[Tool, ...] = (),
) -> bool:
    """Return whether the template renders these messages with all needles, in this order, without `forbidden`."""
    template_tools = tools_of(tools, capabilities)
    text = _try_render(
        render, turns_of(tuple(messages), capabilities), add_generation_prompt=False, tools=template_tools
    )
    if text is None:
        return False
    places = [text.rfind(needle) for needle in needles]
    return -1 not in places and places == sorted(places) and not any(needle in text for needle in forbidden)


def _probe_thinking(render: Render, capabilities: TemplateCapabilities, source: str) -> TemplateCapabilities:
    """Find out which variables tell the template whether and how much the model thinks."""
    turns = turns_of((_QUESTION,), capabilities)  # Granite reads them only if there is no system message
    prompt = partial(_try_render, render, turns, add_generation_prompt=True, tools=None)
    if prompt() is None:
        return capabilities
    switch = next((switch for switch in _SWITCHES if _has_switch(prompt, switch, source)), None)
    return replace(
        capabilities,
        switch=None if switch == _SWITCHES[0] else switch,
        thinking_off=prompt(enable_thinking=False) is not None,
        thinking_budget=prompt(thinking_budget=100) is not None,
        efforts=_probe_efforts(prompt, source, switch.set(on=True) if switch else {}),
    )


def _has_switch(prompt: Callable[..., str | None], switch: Switch, source: str) -> bool:
    if isinstance(switch.off, str) and not _is_quoted(switch.off, source):
        return False  # the template only copies the value into the prompt
    on, off = prompt(**switch.set(on=True)), prompt(**switch.set(on=False))
    return on is not None and off is not None and on != off


def _probe_efforts(prompt: Callable[..., str | None], source: str, thinking: dict[str, object]) -> Efforts | None:
    """Find the efforts that the template distinguishes; None: it takes all of them under the usual name."""
    name = next((name for name in _EFFORTS if re.search(rf"\b{name}\b", source)), _EFFORTS[0])
    prompts = {effort: prompt(**thinking | {name: effort}) for effort in (*EFFORTS, _UNKNOWN_EFFORT)}
    unknown_prompt = prompts.pop(_UNKNOWN_EFFORT)
    values = tuple(effort for effort, text in prompts.items() if text is not None)
    # Does an unknown effort have the effect of a known one?
    if unknown_prompt is not None and _UNKNOWN_EFFORT not in unknown_prompt:
        distinct = tuple(effort for effort in values if prompts[effort] != unknown_prompt or _is_quoted(effort, source))
        equal = {prompts[effort] == unknown_prompt for effort in distinct if effort != "none"}
        values = distinct if equal == {True, False} else values
    return None if name == _EFFORTS[0] and values == EFFORTS else Efforts(name, values)


def _is_quoted(text: str, source: str) -> bool:
    return f"'{text}'" in source or f'"{text}"' in source


def _try_render(render: Render, turns: list[Turn], **variables: object) -> str | None:
    try:
        return render(turns, **variables)
    except OrchardError as error:  # it took too long, which is not a rejection
        raise OrchardError("model_failed", error.message) from error
    except Exception:  # templates raise all kinds of errors to reject messages
        return None


def probe_template(render: Render, source: str) -> TemplateCapabilities:
    """Return what a template can express; `render` takes turns and variables, `source` is the template's source."""
    shows = partial(_shows, render)
    capabilities = TemplateCapabilities()
    system = shows(capabilities, [_SYSTEM, _QUESTION], "Qrules", "Qasked")
    capabilities = replace(capabilities, system=system)
    capabilities = replace(capabilities, lone_system=not system or shows(capabilities, [_SYSTEM], "Qrules"))
    lead = [_SYSTEM] if system else []
    later = [*lead, _QUESTION, _ANSWER, _message("system", "Qlater"), _SECOND_QUESTION]
    capabilities = replace(
        capabilities,
        later_system=system and shows(capabilities, later, "Qsaid", "Qlater", "Qmore"),
        repeated_roles=shows(capabilities, [*lead, _QUESTION, _SECOND_QUESTION], "Qasked", "Qmore"),
        tools=shows(capabilities, [*lead, _QUESTION], "Qfunction", tools=_TOOLS),
    )
    capabilities = _probe_thinking(render, capabilities, source)
    if _THINKING_BLOCK.search(source):
        capabilities = _probe_thinking_blocks(shows, capabilities)
    if not capabilities.tools:  # then the prompt describes the tools and calls as Hermes does
        return replace(capabilities, calls=False)
    capabilities = replace(
        capabilities,
        missing_descriptions=shows(capabilities, [*lead, _QUESTION], "Qfunction", tools=_UNDESCRIBED_TOOLS),
        missing_properties=shows(capabilities, [*lead, _QUESTION], "Qfunction", tools=_UNLISTED_TOOLS),
        null_in_type_lists=shows(capabilities, [*lead, _QUESTION], "Qfunction", tools=_NULLABLE_TOOLS),
    )
    with_call = [_QUESTION, _CALL_MESSAGE, _RESULT_MESSAGE]
    needles = ["Qvalue", "response:Qfunction", "Qresult"] if _RESULTS_FIELD.search(source) else ["Qvalue", "Qresult"]
    # The ways to write a call, the most common first.
    ids = ("numbered" if "<|tool_calls_section_begin|>" in source else "any", "short")
    for beside, id_form, as_text in itertools.product((False, True), ids, (False, True)):
        form = replace(capabilities, results_beside_calls=beside, ids=id_form, text_arguments=as_text)
        # The arguments must not be written as a Python dict.
        if shows(form, with_call, *needles, forbidden=("'Qname': 'Qvalue'",), tools=_TOOLS):
            # Older templates of Mistral leave out the system message if the last message is a result.
            keeps_system = form.system and shows(form, [_SYSTEM, *with_call], "Qrules", tools=_TOOLS)
            result = _probe_call_messages(partial(shows, tools=_TOOLS), form)
            return replace(result, system=keeps_system, later_system=form.later_system and keeps_system)
    capabilities = replace(capabilities, calls=False)
    results = shows(replace(capabilities, lone_results=True), [*with_call, _ANSWER], "Qresult", "Qsaid")
    return replace(capabilities, lone_results=results)


def block_text(render: Render, capabilities: TemplateCapabilities, block: Turn, role: Role) -> str | None:
    """Return what a template writes for a block of the content of a role's message; None: it can't write the block."""
    messages = {
        "user": (_QUESTION,),
        "system": (_SYSTEM, _QUESTION),
        "tool": (_QUESTION, _CALL_MESSAGE, _RESULT_MESSAGE),
    }
    turns = turns_of(messages[role], capabilities)
    render_messages = partial(_try_render, render, add_generation_prompt=False, tools=tools_of(_TOOLS, capabilities))
    first, second = ({"type": "text", "text": text} for text in ("Qone", "Qtwo"))
    without, text = (
        render_messages([turn | {"content": content} if turn["role"] == role else turn for turn in turns])
        for content in ([first, second], [first, block, second])
    )
    if without is None or text is None:
        return None
    start = common_prefix_length(without, text)
    end = common_prefix_length(reversed(without[start:]), reversed(text[start:]))
    return text[start : len(text) - end] if start + end == len(without) else None


def message_gaps(render: Render, capabilities: TemplateCapabilities) -> list[str]:
    """Return what a template writes between the texts of small conversations, and between the last one and an answer.

    A conversation that the template rejects is left out.
    """
    gaps: list[str] = []
    with_call = (_QUESTION, _CALL_MESSAGE, _RESULT_MESSAGE, _ANSWER, _SECOND_QUESTION)
    for messages, tools in (((_SYSTEM, _QUESTION, _ANSWER, _SECOND_QUESTION), ()), (with_call, _TOOLS)):
        if tools and not capabilities.calls:
            continue
        turns = turns_of(messages, capabilities)
        text = _try_render(render, turns, add_generation_prompt=True, tools=tools_of(tools, capabilities))
        gaps += _TEXTS.split(text or "")[1:]
    return gaps


def common_prefix_length(first: Iterable[object], second: Iterable[object]) -> int:
    """Return the length of the longest common prefix of two sequences."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def unread_parts(render: Render, capabilities: TemplateCapabilities, family: Family) -> list[str]:
    """Return the parts of answers (reasoning, tool calls) that a template writes and the family can't read."""
    parts = []
    reasoning_pieces = [
        *_read_answers(render, capabilities, family, _message("assistant", ReasoningPart("Qthought"), "Qsaid"))
    ]
    is_unread = [
        any("Qthought" in piece.text for piece in pieces if isinstance(piece, Content)) for pieces in reasoning_pieces
    ]
    prompt = _try_render(render, turns_of((_QUESTION,), capabilities), add_generation_prompt=True, tools=None) or ""
    if (is_unread and all(is_unread)) or (_REASONING_TAG.search(prompt) and not family.begin(prompt).thinking):
        parts.append("reasoning")
    calls = (
        [*_read_answers(render, capabilities, family, _message("assistant", _CALL), _result_message(_CALL, "Qresult"))]
        if capabilities.calls
        else []
    )
    is_read = [any(isinstance(piece, CallStart) and piece.name == _CALL.name for piece in pieces) for pieces in calls]
    if capabilities.calls and is_read and not any(is_read):
        parts.append("tool calls")
    return parts


def _read_answers(
    render: Render, capabilities: TemplateCapabilities, family: Family, *messages: Message
) -> Iterator[list[Piece]]:
    """Yield what a family reads of messages after a prompt, for each place where an answer may begin.

    An answer may begin where the rendered messages differ from the prompt, before a tag in which they differ, or after
    the whole prompt. Yield nothing if the template rejects the messages.
    """
    tools = tools_of(_TOOLS, capabilities) if capabilities.calls else None
    prompt = _try_render(render, turns_of((_QUESTION,), capabilities), add_generation_prompt=True, tools=tools)
    text = _try_render(render, turns_of((_QUESTION, *messages), capabilities), add_generation_prompt=False, tools=tools)
    if prompt is None or text is None:
        return
    prefix = text[: common_prefix_length(prompt, text)]
    for start_text, start in ((prefix, len(prefix)), (prompt, len(prefix)), *_cut_tag(prefix)):
        format_ = family.begin(start_text, _TOOLS)
        yield [*format_.feed(text[start:]), *format_.finish()]


def _cut_tag(prefix: str) -> list[tuple[str, int]]:
    """Return a text without the unfinished tag at its end, and the length of that; nothing if it has no such tag."""
    place = prefix.rfind("<")
    return [(prefix[:place], place)] if place >= 0 and ">" not in prefix[place:] else []


def _probe_thinking_blocks(shows: Callable[..., bool], capabilities: TemplateCapabilities) -> TemplateCapabilities:
    """Find out whether the template shows reasoning only as a content block."""
    messages = [_QUESTION, _message("assistant", ReasoningPart("Qthought"), "Qsaid")]
    if shows(capabilities, messages, "Qthought"):
        return capabilities
    blocks = replace(capabilities, thinking_blocks=True)
    as_python = ("'Qthought'", '"Qthought"')
    return blocks if shows(blocks, messages, "Qthought", "Qsaid", forbidden=as_python) else capabilities


def _probe_call_messages(shows: Callable[..., bool], capabilities: TemplateCapabilities) -> TemplateCapabilities:
    """Find out what a message may contain besides a call."""
    messages = [
        _QUESTION,
        _message("assistant", _CALL, _OTHER_CALL),
        _RESULT_MESSAGE,
        _result_message(_OTHER_CALL, "Qend"),
    ]
    capabilities = replace(capabilities, several_calls=shows(capabilities, messages, "Qvalue", "Qlast", "Qend"))
    with_text = [_QUESTION, _message("assistant", "Qtext", _CALL), _RESULT_MESSAGE]
    capabilities = replace(capabilities, text_beside_calls=shows(capabilities, with_text, "Qtext", "Qvalue"))
    with_reasoning = [_QUESTION, _message("assistant", ReasoningPart("Qthought"), "Qtext", _CALL), _RESULT_MESSAGE]
    return replace(capabilities, reasoning_beside_text=shows(capabilities, with_reasoning, "Qvalue"))
