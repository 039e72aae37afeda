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
_NOTHING_SAID = "..."
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The efforts of thinking that requests may ask for, the least first."""


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
    taken: tuple[str, ...]


class TemplateCapabilities(Struct, frozen=True):
    """What a chat template can express. Anything else is written in another way, at the same place.

    `system`: a system message at the beginning; `lone_system`: one without other messages; `later_system`: one after
    other messages. `repeats`: two messages of the same role in a row. `tools`: a list of tools. `calls`: calls and
    their results; `lone_results`: results, although calls are written as text. The next six are about calls: several in
    one message; text beside them; reasoning and text beside them; arguments as JSON text, not as an object; ids of any
    form, of nine characters (Mistral), or of the function's name and a number (Kimi); results in the message of the
    calls, not in their own messages (Gemma 4).

    `thinking_blocks`: reasoning is a block of the content. `undescribed`: tools without a description; `unlisted`:
    without properties; `listed_null`: parameters whose type is a list with null. `switch`: another variable than
    `enable_thinking`; `thinking_off`: `enable_thinking` may be false. `thinking_budget`: the template has this
    variable. `efforts`: another variable than `reasoning_effort`, or one with fewer values.
    """

    system: bool = True
    lone_system: bool = True
    later_system: bool = True
    repeats: bool = True
    tools: bool = True
    calls: bool = True
    lone_results: bool = False
    several_calls: bool = True
    text_beside_calls: bool = True
    reasoning_beside_text: bool = True
    text_arguments: bool = False
    ids: Literal["any", "short", "numbered"] = "any"
    results_within: bool = False
    thinking_blocks: bool = False
    undescribed: bool = True
    unlisted: bool = True
    listed_null: bool = True
    switch: Switch | None = None
    thinking_off: bool = True
    thinking_budget: bool = True
    efforts: Efforts | None = None


def turns_of(messages: tuple[Message, ...], takes: TemplateCapabilities, tools: tuple[Tool, ...] = ()) -> list[Turn]:
    """Return the turns of a conversation; they describe `tools` if the template can't.

    Several text parts are joined by a newline, so that the words of two blocks don't run together. System messages at
    the beginning become one. A later one keeps its place, as a user's message if necessary. An assistant's message
    without content is left out.
    """
    count = sum(1 for _ in itertools.takewhile(lambda message: message.role == "system", messages))
    rules = [text for message in messages[:count] if (text := _joined(message, TextPart))]
    if tools and not takes.tools:
        rules.append(_described(tools))
    opener: Literal["system", "user"] = "system" if takes.lone_system or count < len(messages) else "user"
    turns = [_turn(opener, _PARAGRAPH.join(rules))] if rules or count else []
    writer = _Writer(takes)
    for message in messages[count:]:
        turns += writer.turns(message)
    if takes.results_within:
        turns = _with_results_within(turns)
    if not takes.several_calls:
        turns = _one_call_each(turns)
    if not (takes.system and takes.repeats):
        turns = _folded(turns, takes)
    for turn in turns if takes.thinking_blocks else ():
        if reasoning := turn.get("reasoning_content"):
            thought = {"type": "thinking", "thinking": reasoning}
            turn["content"] = [thought, {"type": "text", "text": turn["content"] or ""}]
    return turns


class _Writer:
    """Writes messages one after the other, and remembers the calls that later results refer to."""

    def __init__(self, takes: TemplateCapabilities) -> None:
        self._takes = takes
        self._calls: dict[str, tuple[str, str]] = {}  # the name and the id in the template, by the caller's id
        self._count = itertools.count()

    def turns(self, message: Message) -> list[Turn]:
        turns = [self._result(part) for part in message.parts if isinstance(part, ToolResultPart)]
        if turns and len(turns) == len(message.parts):
            return turns
        if message.role == "assistant":
            return [*turns, *self._assistant(message)]
        role = "user" if message.role == "system" and not self._takes.later_system else message.role
        return [*turns, _named(_turn(role, _joined(message, TextPart)), message)]

    def _assistant(self, message: Message) -> list[Turn]:
        text, reasoning = _joined(message, TextPart), _joined(message, ReasoningPart)
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        if calls and not self._takes.calls:
            self._calls.update((call.id, (call.name, call.id)) for call in calls)
            text, calls = "\n".join(filter(None, [text, *map(_written, calls)])), []
        if not (text or reasoning or calls):
            return []
        before: list[Turn] = []
        if calls and text and not self._takes.text_beside_calls:
            before, text = [_turn("assistant", text)], ""
        if calls and text and reasoning and not self._takes.reasoning_beside_text:
            text, reasoning = "", f"{reasoning}{_PARAGRAPH}{text}"
        turn = _named(_turn("assistant", text), message)
        if reasoning:
            # Solar's template reads "reasoning"; transformers adds "thinking", which gpt-oss's templates read.
            turn |= {"reasoning_content": reasoning, "reasoning": reasoning}
        if calls:
            turn["tool_calls"] = [self._call(call) for call in calls]
            if self._takes.text_arguments and not text:
                turn["content"] = None  # DeepSeek's templates write an empty turn for an empty text
        return [*before, turn]

    def _call(self, part: ToolCallPart) -> dict[str, Any]:
        """Return a call as the template takes it; wrap arguments that are not a JSON object in one if necessary."""
        arguments: Any = part.arguments or "{}"
        if not self._takes.text_arguments:
            try:
                found = json.loads(arguments)
            except (ValueError, RecursionError):
                found = None
            arguments = found if isinstance(found, dict) else {"INVALID_JSON": arguments}
        id_ = part.id
        if self._takes.ids == "short":
            id_ = hashlib.sha256(id_.encode()).hexdigest()[:_SHORT_ID_CHARS]
        elif self._takes.ids == "numbered":
            id_ = f"functions.{part.name}:{next(self._count)}"
        self._calls[part.id] = part.name, id_
        return {"id": id_, "type": "function", "function": {"name": part.name, "arguments": arguments}}

    def _result(self, part: ToolResultPart) -> Turn:
        texts = [piece.text for piece in part.parts if isinstance(piece, TextPart)]
        content = ("Error: " if part.is_error else "") + "\n".join(texts)
        taken = self._takes.calls or self._takes.lone_results
        if part.call_id not in self._calls or not taken:  # no template expects a result without its call
            return _turn("user", f"<tool_response>\n{content}\n</tool_response>")
        name, id_ = self._calls[part.call_id]
        return _turn("tool", content) | {"tool_call_id": id_, "name": name}


def _with_results_within(turns: list[Turn]) -> list[Turn]:
    """Move results into the message of their calls, and the answer after them into its text."""
    moved: list[Turn] = []
    for turn in turns:
        last = moved[-1] if moved else {}
        if turn["role"] == "tool" and "tool_calls" in last:
            result = {"name": turn.get("name", ""), "response": turn["content"]}
            last.setdefault("tool_responses", []).append(result)
        elif turn["role"] == "assistant" and "tool_responses" in last and "tool_calls" not in turn:
            last["content"] = turn["content"]
        else:
            moved.append(turn)
    return moved


def _one_call_each(turns: list[Turn]) -> list[Turn]:
    """Give each call its own message, followed by its result."""
    split: list[Turn] = []
    for is_result, group in itertools.groupby(turns, lambda turn: turn["role"] == "tool"):
        own = list(group)
        calls = split[-1].get("tool_calls", []) if split else []
        if not is_result or len(calls) < 2:
            split += own
            continue
        turn = split.pop()
        for call in calls:
            split.append(turn | {"tool_calls": [call]})
            split += [result for result in own if result["tool_call_id"] == call["id"]]
            turn = _turn("assistant", "")
        known = {call["id"] for call in calls}
        split += [result for result in own if result["tool_call_id"] not in known]
    return split


def _folded(turns: list[Turn], takes: TemplateCapabilities) -> list[Turn]:
    """Join a system message with the user's, and messages of one role in a row, if the template rejects them."""
    if turns and turns[0]["role"] == "system" and not takes.system:
        turns = [_turn("user", turns[0]["content"]), *turns[1:]]
        if len(turns) > 1 and turns[1]["role"] == "user":
            turns[:2] = [_merged(turns[0], turns[1])]
    if takes.repeats:
        return turns
    folded: list[Turn] = []
    for turn in turns:
        last = folded[-1] if folded else {"role": ""}
        apart = "tool_calls" in last or ("tool_calls" in turn and not takes.text_beside_calls)
        if last["role"] == turn["role"] and turn["role"] in ("user", "assistant") and not apart:
            folded[-1] = _merged(last, turn)
        else:
            folded.append(turn)
    return _alternating(folded)


def _alternating(turns: list[Turn]) -> list[Turn]:
    """Insert turns so that user and assistant alternate; calls and results don't count as turns.

    A call still follows a user's turn, so that an answer may follow its result.
    """
    said: list[Turn] = []
    others = {"user": "assistant", "assistant": "user"}
    last = "assistant"
    for turn in turns:
        role = turn["role"]
        if role == last:
            said.append(_turn(others[role], _NOTHING_SAID))
            last = others[role]
        if role in others and "tool_calls" not in turn:
            last = role
        said.append(turn)
    return said


def _merged(first: Turn, second: Turn) -> Turn:
    return first | second | {"content": _PARAGRAPH.join(filter(None, [first["content"], second["content"]]))}


def _turn(role: str, content: str) -> Turn:
    return {"role": role, "content": content}


def _named(turn: Turn, message: Message) -> Turn:
    return turn | {"name": message.name} if message.name else turn


def _joined(message: Message, kind: type[TextPart] | type[ReasoningPart]) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, kind))


def _written(call: ToolCallPart) -> str:
    return f'<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {call.arguments or "{}"}}}\n</tool_call>'


def _described(tools: tuple[Tool, ...]) -> str:
    """Return Hermes' description of tools (https://github.com/NousResearch/Hermes-Function-Calling)."""
    listed = "\n".join(json.dumps(_tool(tool, TemplateCapabilities()), ensure_ascii=False) for tool in tools)
    return (
        "You may call these functions:\n"
        f"<tools>\n{listed}\n</tools>\n"
        "To call one, answer with a JSON object of its name and its arguments within tags:\n"
        '<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>'
    )


def variables_of(given: Mapping[str, Any], takes: TemplateCapabilities) -> dict[str, Any]:
    """Return a request's variables under the template's names; the caller's own override derived ones."""
    variables, thinks = dict(given), given.get("enable_thinking")
    if thinks is False and not takes.thinking_off:
        del variables["enable_thinking"]
    if not takes.thinking_budget:
        variables.pop("thinking_budget", None)
    efforts, switch, effort = takes.efforts, takes.switch, given.get("reasoning_effort")
    if efforts and effort in EFFORTS:
        del variables["reasoning_effort"]
        switched = thinks is False and switch and switch.name == efforts.name
        # If thinking can't be turned off, the effort "none" gets the nearest one, too. Of two, the greater one is used.
        if not switched and (effort != "none" or "none" in efforts.taken or not takes.thinking_off):
            place = EFFORTS.index(effort)
            nearest = min(reversed(efforts.taken), key=lambda one: abs(EFFORTS.index(one) - place), default=None)
            if nearest:
                variables.setdefault(efforts.name, nearest)
    if switch and thinks is not None:
        variables = switch.set(on=bool(thinks)) | variables
    return variables


def tools_of(tools: tuple[Tool, ...], takes: TemplateCapabilities) -> list[dict[str, Any]] | None:
    """Return the tools in OpenAI's form; None if there are none or the template can't show them."""
    return [_tool(tool, takes) for tool in tools] if tools and takes.tools else None


def _tool(tool: Tool, takes: TemplateCapabilities) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None or not takes.undescribed:
        function["description"] = tool.description or ""
    parameters = tool.parameters or {"type": "object", "properties": {}}
    if not takes.unlisted:
        parameters = {"properties": {}} | parameters
    if not takes.listed_null:
        listed = parameters.get("properties", {})
        parameters = parameters | {"properties": {name: _without_listed_null(one) for name, one in listed.items()}}
    function["parameters"] = parameters
    return {"type": "function", "function": function}


def _without_listed_null(schema: Any) -> Any:
    """Return a schema whose `type` is a list with null as one with `anyOf`."""
    if not isinstance(schema, dict) or "anyOf" in schema:
        return schema
    types = schema.get("type")
    if not isinstance(types, list) or "null" not in types:
        return schema
    alternatives = [{"type": name} for name in types]
    return {key: value for key, value in schema.items() if key != "type"} | {"anyOf": alternatives}
