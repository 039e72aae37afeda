"""From a decoded Chat Completions body to a `core.Request`; what can't be served is refused with the reason."""

from collections.abc import Sequence
from typing import Any, TypeVar

from orchard.core.request import Request
from orchard.core.tasks.generate import Generate, Grammar, Tool
from orchard.dialects.common.fields import adapter, limit, model_of, priority, sampling, stops
from orchard.dialects.common.json_body import FreeForm, invalid
from orchard.dialects.openai.chat import schema as wire
from orchard.dialects.openai.chat.messages import MessageReader, required
from orchard.dialects.openai.grammar import grammar, json_schema
from orchard.dialects.openai.thinking import template_args
from orchard.dialects.openai.tools import Tools

T = TypeVar("T")


def translate(body: wire.Body, request_id: str, header: str | None = None) -> Request:
    """Make the request that a body asks for; `header` is the priority that its header gives.

    Raises OrchardError (invalid_request) where it can't be served.
    """
    _refuse_unsupported(body)
    if body.stream_options and not body.stream:
        raise invalid("stream_options", "`stream_options` is only allowed when `stream` is true.")
    free_form = FreeForm()
    messages = MessageReader(free_form).read(body.messages)
    tools, must_call = _tools(body, free_form)
    form = grammar(body, _response_format(body.response_format, free_form), free_form)
    variables, budget, hidden = _thinking(body, free_form)
    task = Generate(
        messages=messages,
        continue_last=_continues(body),
        tools=tools,
        must_call=must_call,
        # The old form of an answer has room for one call.
        parallel_tool_calls=body.parallel_tool_calls is not False and not body.functions,
        # An answer that is nothing but calls has no text that could break its form.
        grammar=None if must_call else form,
        sampling=sampling(body),
        max_tokens=_same(
            "max_completion_tokens",
            limit("max_completion_tokens", body.max_completion_tokens, 1),
            "max_tokens",
            limit("max_tokens", body.max_tokens, 1),
        ),
        stop=stops(body),
        n=body.n or 1,
        top_logprobs=_top_logprobs(body),
        template_args=variables,
        thinking_budget=budget,
        hide_reasoning=hidden,
    )
    turn = priority(body, header)
    return Request(request_id, model_of(body), task, turn, adapter(body), body.ttl, body.context_overflow)


def _thinking(body: wire.Body, free_form: FreeForm) -> tuple[dict[str, Any], int | None, bool]:
    """Give the variables for the chat template, the budget of the thinking, and whether it is hidden."""
    own = body.reasoning if isinstance(body.reasoning, wire.Reasoning) else wire.Reasoning()
    budget = _same("thinking_budget", body.thinking_budget, "reasoning.max_tokens", own.max_tokens)
    variables = template_args(
        body,
        free_form,
        effort=_same("reasoning_effort", body.reasoning_effort, "reasoning.effort", own.effort),
        thinking=_same("enable_thinking", body.enable_thinking, "reasoning.enabled", own.enabled),
        budget=budget,
    )
    return variables, budget, body.reasoning == "hide" or bool(own.exclude) or body.include_reasoning is False


def _same(name: str, value: T | None, other_name: str, other: T | None) -> T | None:
    """Give what two fields for one thing say."""
    if value is not None and other is not None and value != other:
        raise invalid(other_name, f"`{name}` and `{other_name}` say the same thing: give only one of them.")
    return other if value is None else value


def _continues(body: wire.Body) -> bool:
    """Whether the answer goes on with the last message."""
    flag = body.continue_final_message
    if flag and body.add_generation_prompt:
        param = "add_generation_prompt"
        raise invalid(param, f"`{param}` and `continue_final_message` contradict each other: one begins a new message.")
    if body.add_generation_prompt is False and not flag:
        param = "add_generation_prompt"
        raise invalid(param, f"`{param}` may only be false when `continue_final_message` is true.")
    last = body.messages[-1]
    place = f"messages[{len(body.messages) - 1}]"
    if not flag and not last.prefix:
        return False
    param = "continue_final_message" if flag else f"{place}.prefix"
    if last.role != "assistant":
        raise invalid(param, f"`{param}` is only allowed when the last message is the assistant's.")
    if last.tool_calls or last.function_call:
        raise invalid(param, f"`{param}` is not allowed when the last message calls a tool: a call can't be continued.")
    return True


def _tools(body: wire.Body, free_form: FreeForm) -> tuple[tuple[Tool, ...], bool]:
    """Give the tools that the model may call, and whether it must."""
    if body.tools and body.functions:
        raise invalid("functions", "`functions` is the old name of `tools`: give only one of them.")
    tools = Tools(free_form)
    for i, entry in enumerate(body.tools or ()):
        if entry.type == "custom":
            _add_custom(tools, required(entry.custom, f"tools[{i}].custom"), f"tools[{i}].custom")
        else:
            _add(tools, required(entry.function, f"tools[{i}].function"), f"tools[{i}].function")
    for i, function in enumerate(body.functions or ()):
        _add(tools, function, f"functions[{i}]")
    new, old = body.tool_choice, body.function_call
    _need_tools("tool_choice", new, body.tools)
    _need_tools("function_call", old, body.functions)
    if "none" in (new, old):
        return (), False
    if isinstance(new, wire.ToolChoice):
        return _chosen(tools, new)
    if isinstance(old, wire.FunctionName):
        return tools.pick([old.name], "function_call"), True
    return tools.all(), new == "required"


def _add(tools: Tools, function: wire.Function, where: str) -> None:
    tools.add(where, function.name, function.description, function.parameters, function.strict)


def _add_custom(tools: Tools, custom: wire.Custom, where: str) -> None:
    if custom.format is None or custom.format.type == "text":
        tools.add_custom(where, custom.name, custom.description)
        return
    wanted = required(custom.format.grammar, f"{where}.format.grammar")
    tools.add_custom(where, custom.name, custom.description, syntax=wanted.syntax, definition=wanted.definition)


def _need_tools(param: str, choice: object, given: Sequence[object] | None) -> None:
    if choice not in (None, "none", "auto") and not given:
        raise invalid(param, f"`{param}` is only allowed when tools are given.")


def _chosen(tools: Tools, choice: wire.ToolChoice) -> tuple[tuple[Tool, ...], bool]:
    if choice.type == "allowed_tools":
        allowed = required(choice.allowed_tools, "tool_choice.allowed_tools")
        where = "tool_choice.allowed_tools.tools"
        names = [_name(tool, f"{where}[{i}]") for i, tool in enumerate(allowed.tools)]
        return tools.pick(names, where), allowed.mode == "required"
    return tools.pick([_name(choice, "tool_choice")], "tool_choice"), True


def _name(named: wire.ToolName | wire.ToolChoice, where: str) -> str:
    if named.type == "custom":
        return required(named.custom, f"{where}.custom").name
    return required(named.function, f"{where}.function").name


def _response_format(wanted: wire.ResponseFormat | None, free_form: FreeForm) -> Grammar | None:
    if wanted is None or wanted.type == "text":
        return None
    own, bare = wanted.json_schema or wire.JsonSchema(), wanted.bare_schema
    if wanted.type == "json_schema" and not wanted.json_schema and bare is None:
        raise invalid("response_format.json_schema", "`response_format.json_schema` is required.")
    fields = "response_format.json_schema.schema", "response_format.schema"
    schema = _same(fields[0], own.json_schema, fields[1], bare)
    return json_schema(schema, "response_format", fields[bare is not None], free_form, strict=bool(own.strict))


def _top_logprobs(body: wire.Body) -> int | None:
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs:
        raise invalid("top_logprobs", "`top_logprobs` is only allowed when `logprobs` is true.")
    return None


def _refuse_unsupported(body: wire.Body) -> None:
    if body.modalities is not None and set(body.modalities) != {"text"}:
        raise invalid("modalities", "`modalities` must be ['text']: this server answers with text only.")
    refused: dict[str, tuple[Any, str]] = {
        "audio": (body.audio, "this server answers with text only"),
        "moderation": (body.moderation, "this server runs no moderation"),
        "web_search_options": (body.web_search_options, "this server does not search the web"),
    }
    for param, (value, reason) in refused.items():
        if value is not None:
            raise invalid(param, f"`{param}` is not supported: {reason}.")
