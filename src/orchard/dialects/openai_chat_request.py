"""From a decoded Chat Completions body to a `core.Request`; what can't be served is refused with the reason."""

import itertools
import re
from collections.abc import Sequence
from typing import Any, get_args

from orchard.core.request import (
    Generate,
    Message,
    Part,
    Priority,
    ReasoningPart,
    Request,
    Role,
    Sampling,
    TextPart,
    Tool,
    ToolCallPart,
    ToolResultPart,
)
from orchard.dialects import openai_chat_body as wire
from orchard.dialects.decoding import FreeForm, invalid

MAX_SCHEMA_BYTES = 256 * 1024
MAX_TEMPLATE_BYTES = 256 * 1024
MAX_ARGUMENTS_BYTES = 1024 * 1024
MAX_ITEMS = 32_768
"""How many content parts and tool calls all messages may have together."""

PRIORITY_HEADER = "X-Priority"
_PRIORITIES: tuple[Priority, ...] = get_args(Priority)
_XTC_THRESHOLD = Sampling().xtc_threshold
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def translate(body: wire.Body, request_id: str, priority: str | None = None) -> Request:
    """Make the request that a body asks for; `priority` is that of the header, which the body's goes before.

    Raises OrchardError (invalid_request) where it can't be served.
    """
    _refuse_unsupported(body)
    if body.stream_options and not body.stream:
        raise invalid("stream_options", "`stream_options` is only allowed when `stream` is true.")
    stops = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    free_form = FreeForm()
    task = Generate(
        messages=_Conversation(free_form).read(body.messages),
        tools=_tools(body, free_form),
        # The old form of an answer has room for one call.
        parallel_tool_calls=body.parallel_tool_calls is not False and not body.functions,
        sampling=_sampling(body),
        max_tokens=_max_tokens(body),
        stop=stops,
        n=body.n or 1,
        top_logprobs=_top_logprobs(body),
        template_args=_template_args(body, free_form),
        thinking_budget=body.thinking_budget,
    )
    return Request(request_id, body.model, task, body.priority or _header_priority(priority))


class _Conversation:
    """Reads messages in order and remembers the calls that later results refer to."""

    def __init__(self, free_form: FreeForm) -> None:
        self._free_form = free_form
        self._call_ids: set[str] = set()
        self._legacy_ids: dict[str, str] = {}
        self._numbers = itertools.count()

    def read(self, messages: Sequence[wire.Message]) -> tuple[Message, ...]:
        items = sum(map(_items, messages))
        if items > MAX_ITEMS:
            raise invalid(
                "messages",
                f"`messages` hold {items} content parts and tool calls; at most {MAX_ITEMS} are allowed in all.",
            )
        return tuple(self._message(message, f"messages[{i}]") for i, message in enumerate(messages))

    def _message(self, message: wire.Message, where: str) -> Message:
        match message.role:
            case "assistant":
                parts = self._assistant(message, where)
            case "tool":
                parts = (self._tool_result(message, where),)
            case "function":
                parts = (self._function_result(message, where),)
            case _:
                parts = _text_parts(message, where)
        return Message(_ROLES[message.role], parts, message.name or None)

    def _assistant(self, message: wire.Message, where: str) -> tuple[Part, ...]:
        if message.audio is not None:
            raise invalid(f"{where}.audio", f"`{where}.audio` is not supported: this server takes text only.")
        reasoning = message.reasoning_content or message.reasoning
        parts: list[Part] = [ReasoningPart(reasoning)] if reasoning else []
        parts += _text_parts(message, where)
        if message.refusal:
            parts.append(TextPart(message.refusal))
        for i, call in enumerate(message.tool_calls or ()):
            parts.append(self._tool_call(call, f"{where}.tool_calls[{i}]"))
        if message.function_call:
            parts.append(self._function_call(message.function_call, where))
        return tuple(parts)

    def _tool_call(self, call: wire.ToolCall, where: str) -> ToolCallPart:
        _function_type(call.type, where)
        if call.function is None:
            raise invalid(f"{where}.function", f"`{where}.function` is required.")
        self._call_ids.add(call.id)
        return ToolCallPart(call.id, call.function.name, self._arguments(call.function, f"{where}.function"))

    def _function_call(self, call: wire.FunctionCall, where: str) -> ToolCallPart:
        # The old form has no ids: a result refers to the latest call of its name.
        call_id = f"call_function_{next(self._numbers)}"
        self._legacy_ids[call.name] = call_id
        return ToolCallPart(call_id, call.name, self._arguments(call, f"{where}.function_call"))

    def _arguments(self, call: wire.FunctionCall, where: str) -> str:
        param = f"{where}.arguments"
        if isinstance(call.arguments, dict):
            return self._free_form.check(call.arguments, param, MAX_ARGUMENTS_BYTES).decode()
        text = call.arguments or "{}"
        self._free_form.check_text(text, param, MAX_ARGUMENTS_BYTES)
        return text

    def _tool_result(self, message: wire.Message, where: str) -> ToolResultPart:
        param = f"{where}.tool_call_id"
        if not message.tool_call_id:
            raise invalid(param, f"`{param}` is required in a message of role 'tool'.")
        if message.tool_call_id not in self._call_ids:
            raise invalid(param, f"`{param}` must be the id of a tool call in an earlier assistant message.")
        return ToolResultPart(message.tool_call_id, _text_parts(message, where))

    def _function_result(self, message: wire.Message, where: str) -> ToolResultPart:
        param = f"{where}.name"
        if message.name not in self._legacy_ids:
            raise invalid(param, f"`{param}` must be the name of a function call in an earlier assistant message.")
        return ToolResultPart(self._legacy_ids[message.name], _text_parts(message, where))


def _items(message: wire.Message) -> int:
    parts = len(message.content) if isinstance(message.content, list) else 0
    return parts + len(message.tool_calls or ())


def _text_parts(message: wire.Message, where: str) -> tuple[TextPart, ...]:
    if isinstance(message.content, str):
        texts = [message.content]
    else:
        parts = enumerate(message.content or ())
        texts = [_part_text(part, message.role, f"{where}.content[{i}]") for i, part in parts]
    return tuple(TextPart(text) for text in texts if text)


def _part_text(part: wire.ContentPart, role: str, where: str) -> str:
    allowed = ("text", "refusal") if role == "assistant" else ("text",)
    if part.type not in allowed:
        names = " or ".join(repr(name) for name in allowed)
        raise invalid(where, f"`{where}.type` must be {names}: this server takes text only.")
    text = part.text if part.type == "text" else part.refusal
    if text is None:
        raise invalid(f"{where}.{part.type}", f"`{where}.{part.type}` is required.")
    return text


def _function_type(kind: str | None, where: str) -> None:
    if kind not in (None, "function"):
        raise invalid(f"{where}.type", f"`{where}.type` must be 'function': other kinds of tools are not supported.")


def _tools(body: wire.Body, free_form: FreeForm) -> tuple[Tool, ...]:
    """Give the tools that the model is to see."""
    if body.tools and body.functions:
        raise invalid("functions", "`functions` is the old name of `tools`: give only one of them.")
    functions = [_function(entry, f"tools[{i}]") for i, entry in enumerate(body.tools or ())]
    functions += [(function, f"functions[{i}]") for i, function in enumerate(body.functions or ())]
    tools: dict[str, Tool] = {}
    for function, where in functions:
        if function.name in tools:
            raise invalid(f"{where}.name", f"`{where}.name` must be unique: another tool has the same name.")
        tools[function.name] = _tool(function, where, free_form)
    _check_tool_choice(body.tool_choice, "tool_choice", set(tools) if body.tools else set())
    _check_tool_choice(body.function_call, "function_call", set(tools) if body.functions else set())
    return () if "none" in (body.tool_choice, body.function_call) else tuple(tools.values())


def _function(entry: wire.ToolEntry, where: str) -> tuple[wire.Function, str]:
    _function_type(entry.type, where)
    if entry.function is None:
        raise invalid(f"{where}.function", f"`{where}.function` is required.")
    return entry.function, f"{where}.function"


def _tool(function: wire.Function, where: str, free_form: FreeForm) -> Tool:
    if not _TOOL_NAME.fullmatch(function.name):
        param = f"{where}.name"
        raise invalid(param, f"`{param}` must be 1 to 128 characters long: letters, digits, '_', '.' and '-'.")
    free_form.check(function.parameters, f"{where}.parameters", MAX_SCHEMA_BYTES)
    return Tool(function.name, function.description, function.parameters)


def _check_tool_choice(
    choice: str | wire.NamedToolChoice | wire.FunctionName | None, param: str, names: set[str]
) -> None:
    """Refuse what can't be kept: nothing can force a call yet."""
    if choice is None or choice == "none":
        return
    if not names:
        raise invalid(param, f"`{param}` is only allowed when tools are given.")
    if choice == "auto":
        return
    named = choice.function if isinstance(choice, wire.NamedToolChoice) else choice
    if isinstance(named, wire.FunctionName) and named.name not in names:
        raise invalid(param, f"`{param}` names a function that is not among the given tools.")
    raise invalid(param, f"`{param}` must be 'none' or 'auto': a call can't be forced or tools picked out yet.")


def _sampling(body: wire.Body) -> Sampling:
    return Sampling(
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=0 if body.top_k == -1 else body.top_k,
        min_p=body.min_p,
        repetition_penalty=body.repetition_penalty,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        logit_bias=body.logit_bias or {},
        seed=body.seed,
        xtc_probability=body.xtc_probability or 0.0,
        xtc_threshold=_XTC_THRESHOLD if body.xtc_threshold is None else body.xtc_threshold,
        repetition_context=body.repetition_context_size or 0,
        presence_context=body.presence_context_size or 0,
        frequency_context=body.frequency_context_size or 0,
    )


def _header_priority(priority: str | None) -> Priority:
    for known in _PRIORITIES:
        if priority == known:
            return known
    if priority is None:
        return "normal"
    names = ", ".join(map(repr, _PRIORITIES))
    raise invalid(PRIORITY_HEADER, f"The header `{PRIORITY_HEADER}` must be one of {names}.")


def _max_tokens(body: wire.Body) -> int | None:
    new, old = body.max_completion_tokens, body.max_tokens
    if new is not None and old is not None and new != old:
        raise invalid("max_tokens", "`max_tokens` is the old name of `max_completion_tokens`: give one of them.")
    return old if new is None else new


def _top_logprobs(body: wire.Body) -> int | None:
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs:
        raise invalid("top_logprobs", "`top_logprobs` is only allowed when `logprobs` is true.")
    return None


def _template_args(body: wire.Body, free_form: FreeForm) -> dict[str, Any]:
    args = body.chat_template_kwargs or {}
    free_form.check(args, "chat_template_kwargs", MAX_TEMPLATE_BYTES)
    for name in ("enable_thinking", "reasoning_effort", "thinking_budget"):
        value = getattr(body, name)
        if value is not None and args.setdefault(name, value) != value:
            raise invalid(name, f"`{name}` and `chat_template_kwargs` contradict each other.")
    if body.reasoning_effort is not None:
        args.setdefault("enable_thinking", body.reasoning_effort != "none")
    if body.thinking_budget is not None:
        args.setdefault("enable_thinking", body.thinking_budget > 0)
    return args


def _refuse_unsupported(body: wire.Body) -> None:
    if body.response_format and body.response_format.type != "text":
        raise invalid("response_format", "`response_format` must be of type 'text': JSON output is not supported yet.")
    if body.modalities is not None and set(body.modalities) != {"text"}:
        raise invalid("modalities", "`modalities` must be ['text']: this server answers with text only.")
    refused = {
        "audio": (body.audio, "this server answers with text only"),
        "moderation": (body.moderation, "this server runs no moderation"),
        "web_search_options": (body.web_search_options, "this server does not search the web"),
    }
    for param, (value, reason) in refused.items():
        if value is not None:
            raise invalid(param, f"`{param}` is not supported: {reason}.")
