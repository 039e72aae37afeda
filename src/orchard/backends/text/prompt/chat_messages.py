"""Turns messages into the form that Hugging Face's chat templates expect, and that a template can express."""

import hashlib
import itertools
import json
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from orchard.core.tasks.generate import Message, ReasoningPart, TextPart, Tool, ToolCallPart, ToolResultPart

Turn = dict[str, Any]

_PARAGRAPH = "\n\n"
_SHORT_ID_CHARS = 9
_PLACEHOLDER_TEXT = "..."
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The efforts of thinking that requests may ask for, from the least to the greatest."""


class Switch(Struct, frozen=True):
    """A template's variable that says whether the model thinks, and its two values; None: leave the variable out."""

    name: str
    on: Any
    off: Any

    def set(self, *, on: bool) -> dict[str, Any]:
        """Return the variable that turns thinking on or off."""
        value = self.on if on else self.off
        return {} if value is None else {self.name: value}


class Efforts(Struct, frozen=True):
    """A template's variable that says how much the model thinks, and the values of EFFORTS that it may have."""

    name: str
    values: tuple[str, ...]


class TemplateCapabilities(Struct, frozen=True):
    """What a chat template can express. Anything else is written in another way, at the same place."""

    system: bool = True  # a system message at the beginning
    lone_system: bool = True  # a system message without other messages
    later_system: bool = True  # a system message after other messages
    repeated_roles: bool = True  # two messages of the same role in a row
    tools: bool = True  # a list of tools
    calls: bool = True  # calls and their results
    lone_results: bool = False  # results, although calls are written as text
    several_calls: bool = True  # several calls in one message
    text_beside_calls: bool = True  # text in the message of a call
    reasoning_beside_text: bool = True  # reasoning and text in the message of a call
    text_arguments: bool = False  # the arguments of a call are JSON text, not an object
    # The ids of calls: of any form, of nine characters (Mistral), or of the function's name and a number (Kimi).
    ids: Literal["any", "short", "numbered"] = "any"
    results_beside_calls: bool = False  # results are in the message of the calls, not in their own messages (Gemma 4)
    thinking_blocks: bool = False  # reasoning is a block of the content
    missing_descriptions: bool = True  # tools without a description
    missing_properties: bool = True  # tools without properties
    null_in_type_lists: bool = True  # parameters whose type is a list with null
    switch: Switch | None = None  # another variable than `enable_thinking`
    thinking_off: bool = True  # the variable `enable_thinking` may be false
    thinking_budget: bool = True  # the variable `thinking_budget`
    efforts: Efforts | None = None  # another variable than `reasoning_effort`, or one with fewer values


def turns_of(
    messages: tuple[Message, ...], capabilities: TemplateCapabilities, tools: tuple[Tool, ...] = ()
) -> list[Turn]:
    """Return the turns of a conversation; they describe `tools` if the template can't.

    Several text parts are joined by a newline, so that the words of two blocks don't run together. System messages at
    the beginning become one. A later one keeps its place, as a user's message if necessary. An assistant's message
    without content is left out.
    """
    leading = sum(1 for _ in itertools.takewhile(lambda message: message.role == "system", messages))
    system_texts = [text for message in messages[:leading] if (text := _text_of_parts(message, TextPart))]
    if tools and not capabilities.tools:
        system_texts.append(_hermes_tools(tools))
    first_role: Literal["system", "user"] = "system" if capabilities.lone_system or leading < len(messages) else "user"
    turns = [_turn(first_role, _PARAGRAPH.join(system_texts))] if system_texts or leading else []
    writer = _TurnWriter(capabilities)
    for message in messages[leading:]:
        turns += writer.turns(message)
    if capabilities.results_beside_calls:
        turns = _move_results_beside_calls(turns)
    if not capabilities.several_calls:
        turns = _split_calls(turns)
    if not (capabilities.system and capabilities.repeated_roles):
        turns = _merge_turns(turns, capabilities)
    for turn in turns if capabilities.thinking_blocks else ():
        if reasoning := turn.get("reasoning_content"):
            thinking_block = {"type": "thinking", "thinking": reasoning}
            turn["content"] = [thinking_block, {"type": "text", "text": turn["content"] or ""}]
    return turns


class _TurnWriter:
    """Writes messages one after the other, and remembers the calls that later results refer to."""

    def __init__(self, capabilities: TemplateCapabilities) -> None:
        self._capabilities = capabilities
        self._calls: dict[str, tuple[str, str]] = {}  # the name and the id in the template, by the caller's id
        self._count = itertools.count()

    def turns(self, message: Message) -> list[Turn]:
        turns = [self._result_turn(part) for part in message.parts if isinstance(part, ToolResultPart)]
        if turns and len(turns) == len(message.parts):
            return turns
        if message.role == "assistant":
            return [*turns, *self._assistant_turns(message)]
        role = "user" if message.role == "system" and not self._capabilities.later_system else message.role
        return [*turns, _add_name(_turn(role, _text_of_parts(message, TextPart)), message)]

    def _assistant_turns(self, message: Message) -> list[Turn]:
        text, reasoning = _text_of_parts(message, TextPart), _text_of_parts(message, ReasoningPart)
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        if calls and not self._capabilities.calls:
            self._calls.update((call.id, (call.name, call.id)) for call in calls)
            text, calls = "\n".join(filter(None, [text, *map(_hermes_call, calls)])), []
        if not (text or reasoning or calls):
            return []
        before: list[Turn] = []
        if calls and text and not self._capabilities.text_beside_calls:
            before, text = [_turn("assistant", text)], ""
        if calls and text and reasoning and not self._capabilities.reasoning_beside_text:
            text, reasoning = "", f"{reasoning}{_PARAGRAPH}{text}"
        turn = _add_name(_turn("assistant", text), message)
        if reasoning:
            # Solar's template reads "reasoning"; transformers adds "thinking", which gpt-oss's templates read.
            turn |= {"reasoning_content": reasoning, "reasoning": reasoning}
        if calls:
            turn["tool_calls"] = [self._template_call(call) for call in calls]
            if self._capabilities.text_arguments and not text:
                turn["content"] = None  # DeepSeek's templates write an empty turn for an empty text
        return [*before, turn]

    def _template_call(self, part: ToolCallPart) -> dict[str, Any]:
        """Return a call as the template takes it; wrap arguments that are not a JSON object in one if necessary."""
        arguments: Any = part.arguments or "{}"
        if not self._capabilities.text_arguments:
            try:
                parsed = json.loads(arguments)
            except (ValueError, RecursionError):
                parsed = None
            arguments = parsed if isinstance(parsed, dict) else {"INVALID_JSON": arguments}
        id_ = part.id
        if self._capabilities.ids == "short":
            id_ = hashlib.sha256(id_.encode()).hexdigest()[:_SHORT_ID_CHARS]
        elif self._capabilities.ids == "numbered":
            id_ = f"functions.{part.name}:{next(self._count)}"
        self._calls[part.id] = part.name, id_
        return {"id": id_, "type": "function", "function": {"name": part.name, "arguments": arguments}}

    def _result_turn(self, part: ToolResultPart) -> Turn:
        texts = [piece.text for piece in part.parts if isinstance(piece, TextPart)]
        content = ("Error: " if part.is_error else "") + "\n".join(texts)
        shows_results = self._capabilities.calls or self._capabilities.lone_results
        if part.call_id not in self._calls or not shows_results:  # no template expects a result without its call
            return _turn("user", f"<tool_response>\n{content}\n</tool_response>")
        name, id_ = self._calls[part.call_id]
        return _turn("tool", content) | {"tool_call_id": id_, "name": name}


def _move_results_beside_calls(turns: list[Turn]) -> list[Turn]:
    """Move results into the message of their calls, and the answer after them into its text."""
    merged: list[Turn] = []
    for turn in turns:
        last = merged[-1] if merged else {}
        if turn["role"] == "tool" and "tool_calls" in last:
            result = {"name": turn.get("name", ""), "response": turn["content"]}
            last.setdefault("tool_responses", []).append(result)
        elif turn["role"] == "assistant" and "tool_responses" in last and "tool_calls" not in turn:
            last["content"] = turn["content"]
        else:
            merged.append(turn)
    return merged


def _split_calls(turns: list[Turn]) -> list[Turn]:
    """Give each call its own message, followed by its result."""
    split_turns: list[Turn] = []
    for is_result, group in itertools.groupby(turns, lambda turn: turn["role"] == "tool"):
        group_turns = list(group)
        calls = split_turns[-1].get("tool_calls", []) if split_turns else []
        if not is_result or len(calls) < 2:
            split_turns += group_turns
            continue
        turn = split_turns.pop()
        for call in calls:
            split_turns.append(turn | {"tool_calls": [call]})
            split_turns += [result for result in group_turns if result["tool_call_id"] == call["id"]]
            turn = _turn("assistant", "")
        call_ids = {call["id"] for call in calls}
        split_turns += [result for result in group_turns if result["tool_call_id"] not in call_ids]
    return split_turns


def _merge_turns(turns: list[Turn], capabilities: TemplateCapabilities) -> list[Turn]:
    """Join a system message with the user's, and messages of one role in a row, if the template rejects them."""
    if turns and turns[0]["role"] == "system" and not capabilities.system:
        turns = [_turn("user", turns[0]["content"]), *turns[1:]]
        if len(turns) > 1 and turns[1]["role"] == "user":
            turns[:2] = [_merge_pair(turns[0], turns[1])]
    if capabilities.repeated_roles:
        return turns
    merged: list[Turn] = []
    for turn in turns:
        last = merged[-1] if merged else {"role": ""}
        is_separate = "tool_calls" in last or ("tool_calls" in turn and not capabilities.text_beside_calls)
        if last["role"] == turn["role"] and turn["role"] in ("user", "assistant") and not is_separate:
            merged[-1] = _merge_pair(last, turn)
        else:
            merged.append(turn)
    return _alternate_roles(merged)


def _alternate_roles(turns: list[Turn]) -> list[Turn]:
    """Insert turns so that user and assistant alternate; calls and results don't count as turns.

    A call still follows a user's turn, so that an answer may follow its result.
    """
    alternating: list[Turn] = []
    others = {"user": "assistant", "assistant": "user"}
    last = "assistant"
    for turn in turns:
        role = turn["role"]
        if role == last:
            alternating.append(_turn(others[role], _PLACEHOLDER_TEXT))
            last = others[role]
        if role in others and "tool_calls" not in turn:
            last = role
        alternating.append(turn)
    return alternating


def _merge_pair(first: Turn, second: Turn) -> Turn:
    return first | second | {"content": _PARAGRAPH.join(filter(None, [first["content"], second["content"]]))}


def _turn(role: str, content: str) -> Turn:
    return {"role": role, "content": content}


def _add_name(turn: Turn, message: Message) -> Turn:
    return turn | {"name": message.name} if message.name else turn


def _text_of_parts(message: Message, kind: type[TextPart] | type[ReasoningPart]) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, kind))


def _hermes_call(call: ToolCallPart) -> str:
    return f'<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {call.arguments or "{}"}}}\n</tool_call>'


def _hermes_tools(tools: tuple[Tool, ...]) -> str:
    """Return Hermes' description of tools (https://github.com/NousResearch/Hermes-Function-Calling)."""
    listing = "\n".join(json.dumps(_openai_tool(tool, TemplateCapabilities()), ensure_ascii=False) for tool in tools)
    return (
        "You may call these functions:\n"
        f"<tools>\n{listing}\n</tools>\n"
        "To call one, answer with a JSON object of its name and its arguments within tags:\n"
        '<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>'
    )


def variables_of(args: Mapping[str, Any], capabilities: TemplateCapabilities) -> dict[str, Any]:
    """Return a request's variables under the template's names; the caller's own override derived ones."""
    variables, thinking = dict(args), args.get("enable_thinking")
    if thinking is False and not capabilities.thinking_off:
        del variables["enable_thinking"]
    if not capabilities.thinking_budget:
        variables.pop("thinking_budget", None)
    efforts, switch, effort = capabilities.efforts, capabilities.switch, args.get("reasoning_effort")
    if efforts and effort in EFFORTS:
        del variables["reasoning_effort"]
        switch_decides = thinking is False and switch and switch.name == efforts.name
        # If thinking can't be turned off, "none" becomes the nearest effort, too. Of two, use the greater.
        if not switch_decides and (effort != "none" or "none" in efforts.values or not capabilities.thinking_off):
            place = EFFORTS.index(effort)
            nearest = min(reversed(efforts.values), key=lambda value: abs(EFFORTS.index(value) - place), default=None)
            if nearest:
                variables.setdefault(efforts.name, nearest)
    if switch and thinking is not None:
        variables = switch.set(on=bool(thinking)) | variables
    return variables


def tools_of(tools: tuple[Tool, ...], capabilities: TemplateCapabilities) -> list[dict[str, Any]] | None:
    """Return the tools in OpenAI's form; None if there are none or the template can't show them."""
    return [_openai_tool(tool, capabilities) for tool in tools] if tools and capabilities.tools else None


def _openai_tool(tool: Tool, capabilities: TemplateCapabilities) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None or not capabilities.missing_descriptions:
        function["description"] = tool.description or ""
    parameters = tool.parameters or {"type": "object", "properties": {}}
    if not capabilities.missing_properties:
        parameters = {"properties": {}} | parameters
    if not capabilities.null_in_type_lists:
        properties = parameters.get("properties", {})
        parameters = parameters | {"properties": {name: _null_as_any_of(schema) for name, schema in properties.items()}}
    function["parameters"] = parameters
    return {"type": "function", "function": function}


def _null_as_any_of(schema: Any) -> Any:
    """Return a schema whose `type` is a list with null as one with `anyOf`."""
    if not isinstance(schema, dict) or "anyOf" in schema:
        return schema
    types = schema.get("type")
    if not isinstance(types, list) or "null" not in types:
        return schema
    alternatives = [{"type": name} for name in types]
    return {key: value for key, value in schema.items() if key != "type"} | {"anyOf": alternatives}
