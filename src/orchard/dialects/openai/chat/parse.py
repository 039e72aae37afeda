"""Parse Chat Completions: turn a body into a `core.request.Request`, and reject what can't be served, with a reason."""

from typing import Any, TypeVar

from orchard.core.tasks.generate import Generate, Grammar, Tool
from orchard.dialects.common.fields import header_priority, make_request
from orchard.dialects.common.json_body import FreeForm, invalid, refuse_set, required
from orchard.dialects.common.media import media_options
from orchard.dialects.common.tools import Tools
from orchard.dialects.openai.chat import schema as wire
from orchard.dialects.openai.chat.encode import ChatCall
from orchard.dialects.openai.chat.messages import MessageReader
from orchard.dialects.openai.fields import grammar, include_usage, json_schema, limit, sampling, stops, template_args
from orchard.dialects.openai.tools import add_custom

T = TypeVar("T")

_UNSUPPORTED = {
    "audio": "this server answers with text only",
    "moderation": "this server runs no moderation",
    "web_search_options": "this server does not search the web",
}


def parse(
    body: bytes, request_id: str, priority: str | None = None, *, model: str | None = None, default: str | None = None
) -> ChatCall:
    """Read the body of a request; `priority` is from its header.

    The model is `model`, which the URL names, else the body's, else `default`. Raise OrchardError (invalid_request),
    whose `param` names the field to blame.
    """
    decoded = wire.BODY.decode(body, model, default)
    turn = decoded.priority or header_priority(priority)
    return ChatCall(
        request=make_request(decoded, request_id, _task(decoded), turn, decoded.context_overflow),
        stream=bool(decoded.stream),
        stored=bool(decoded.store),
        include_usage=include_usage(decoded.stream, decoded.stream_options),
        legacy_functions=bool(decoded.functions),
        custom_tools=frozenset(
            tool.custom.name for tool in decoded.tools or () if tool.type == "custom" and tool.custom
        ),
    )


def _task(body: wire.Body) -> Generate:
    refuse_set(body, _UNSUPPORTED)
    if body.modalities is not None and set(body.modalities) != {"text"}:
        raise invalid("modalities", "must be ['text']: this server answers with text only.")
    if body.top_logprobs and not body.logprobs:
        raise invalid("top_logprobs", "is only allowed when `logprobs` is true.")
    free_form = FreeForm()
    messages = MessageReader(free_form, media_options(body)).read(body.messages)
    tools, must_call = _tools(body, free_form)
    form = grammar(body, _response_format(body.response_format, free_form), free_form)
    variables, budget, hidden = _thinking(body, free_form)
    return Generate(
        messages=messages,
        continue_last=_continues(body),
        tools=tools,
        must_call=must_call,
        # The legacy form of an answer has room for only one call.
        parallel_tool_calls=body.parallel_tool_calls is not False and not body.functions,
        # An answer that must be a call has no text to match a grammar.
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
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        template_args=variables,
        thinking_budget=budget,
        hide_reasoning=hidden,
        speculates=body.speculation is not False,
        prediction=_predicted(body.prediction),
    )


def _predicted(prediction: wire.Prediction | None) -> str:
    """Return the text that the caller expects."""
    content = prediction.content if prediction else ""
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _thinking(body: wire.Body, free_form: FreeForm) -> tuple[dict[str, Any], int | None, bool]:
    """Return the variables for the chat template, the thinking budget in tokens, and whether reasoning is hidden."""
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
    """Return the value of two fields with the same meaning. Raise OrchardError if their values differ."""
    if value is not None and other is not None and value != other:
        raise invalid(other_name, f"and `{name}` are two names of one field: give only one of them.")
    return other if value is None else value


def _continues(body: wire.Body) -> bool:
    """Return whether the answer continues the last message."""
    flag = body.continue_final_message
    if flag and body.add_generation_prompt:
        raise invalid("add_generation_prompt", "and `continue_final_message` can't both be true.")
    if body.add_generation_prompt is False and not flag:
        raise invalid("add_generation_prompt", "may only be false when `continue_final_message` is true.")
    last = body.messages[-1]
    if not flag and not last.prefix:
        return False
    param = "continue_final_message" if flag else f"messages[{len(body.messages) - 1}].prefix"
    if last.role != "assistant":
        raise invalid(param, "is only allowed when the last message is the assistant's.")
    if last.tool_calls or last.function_call:
        raise invalid(param, "is not allowed when the last message calls a tool: a call can't be continued.")
    return True


def _tools(body: wire.Body, free_form: FreeForm) -> tuple[tuple[Tool, ...], bool]:
    """Return the tools that the model may call, and whether it must call one."""
    if body.tools and body.functions:
        raise invalid("functions", "is the old name of `tools`: give only one of them.")
    tools = Tools(free_form)
    for i, entry in enumerate(body.tools or ()):
        if entry.type == "custom":
            _add_custom(tools, required(entry.custom, f"tools[{i}].custom"), f"tools[{i}].custom")
        else:
            _add(tools, required(entry.function, f"tools[{i}].function"), f"tools[{i}].function")
    for i, function in enumerate(body.functions or ()):
        _add(tools, function, f"functions[{i}]")
    new, old = body.tool_choice, body.function_call
    for param, choice, given in (("tool_choice", new, body.tools), ("function_call", old, body.functions)):
        if choice not in (None, "none", "auto") and not given:
            raise invalid(param, "is only allowed when tools are given.")
    if "none" in (new, old):
        return (), False
    if isinstance(new, wire.ToolChoice) and new.type == "allowed_tools":
        allowed = required(new.allowed_tools, "tool_choice.allowed_tools")
        where = "tool_choice.allowed_tools.tools"
        names = [_name(tool, f"{where}[{i}]") for i, tool in enumerate(allowed.tools)]
        return tools.pick(names, where), allowed.mode == "required"
    if isinstance(new, wire.ToolChoice):
        return tools.pick([_name(new, "tool_choice")], "tool_choice"), True
    if isinstance(old, wire.FunctionName):
        return tools.pick([old.name], "function_call"), True
    return tools.all(), new == "required"


def _add(tools: Tools, function: wire.Function, where: str) -> None:
    tools.add(where, function.name, function.description, function.parameters, function.strict)


def _add_custom(tools: Tools, custom: wire.Custom, where: str) -> None:
    wanted = None
    if custom.format and custom.format.type == "grammar":
        wanted = required(custom.format.grammar, f"{where}.format.grammar")
    add_custom(tools, where, custom.name, custom.description, wanted)


def _name(named: wire.ToolName | wire.ToolChoice, where: str) -> str:
    if named.type == "custom":
        return required(named.custom, f"{where}.custom").name
    return required(named.function, f"{where}.function").name


def _response_format(wanted: wire.ResponseFormat | None, free_form: FreeForm) -> Grammar | None:
    if wanted is None or wanted.type == "text":
        return None
    own, bare = wanted.json_schema or wire.JsonSchema(), wanted.bare_schema
    if wanted.type == "json_schema" and not wanted.json_schema and bare is None:
        raise invalid("response_format.json_schema", "is required.")
    fields = "response_format.json_schema.schema", "response_format.schema"
    schema = _same(fields[0], own.json_schema, fields[1], bare)
    return json_schema(schema, "response_format", fields[bare is not None], free_form, strict=bool(own.strict))
