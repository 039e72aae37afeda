"""Parse Chat Completions: turn a body into a `core.request.Request`, and reject what can't be served, with a reason."""

from typing import Any, TypeVar

from orchard.core.tasks.generate import Generate, Grammar, Tool
from orchard.dialects.common.fields import header_priority, make_request
from orchard.dialects.common.json_body import FreeForm, invalid_field, refuse_fields, require
from orchard.dialects.common.media import media_options
from orchard.dialects.common.output import hex_id
from orchard.dialects.common.tools import Tools
from orchard.dialects.openai.chat import schema as wire
from orchard.dialects.openai.chat.audio import ChatAudio
from orchard.dialects.openai.chat.encode import ChatCall
from orchard.dialects.openai.chat.messages import FindTranscript, MessageReader, find_no_transcript
from orchard.dialects.openai.fields import (
    answer_grammar,
    answer_sampling,
    include_usage,
    json_schema_grammar,
    stop_texts,
    template_args,
    token_limit,
)
from orchard.dialects.openai.speech import voice_name
from orchard.dialects.openai.tools import add_custom_tool

T = TypeVar("T")

_UNSUPPORTED = {
    "moderation": "this server runs no moderation",
    "web_search_options": "this server does not search the web",
}


_JSON_GRAMMARS = ("json_object", "json_schema")


def parse(
    body: bytes,
    request_id: str,
    priority: str | None = None,
    *,
    model: str | None = None,
    default: str | None = None,
    find_transcript: FindTranscript = find_no_transcript,
) -> ChatCall:
    """Read the body of a request; `priority` is from its header, `find_transcript` finds what spoken answers said.

    The model is `model`, which the URL names, else the body's, else `default`. Raise OrchardError (invalid_request),
    whose `param` names the field to blame.
    """
    decoded = wire.BODY.decode(body, model, default)
    turn = decoded.priority or header_priority(priority)
    task = _chat_task(decoded, find_transcript)
    return ChatCall(
        request=make_request(decoded, request_id, task, turn, decoded.context_overflow),
        stream=bool(decoded.stream),
        stored=bool(decoded.store),
        audio=_chat_audio(decoded, task, f"audio_{hex_id(request_id)}"),
        include_usage=include_usage(decoded.stream, decoded.stream_options),
        legacy_functions=bool(decoded.functions),
        custom_tools=frozenset(
            tool.custom.name for tool in decoded.tools or () if tool.type == "custom" and tool.custom
        ),
    )


def _chat_audio(body: wire.Body, task: Generate, id_: str) -> ChatAudio | None:
    """Return how the answer is spoken; None: it isn't. Raise OrchardError if an answer like this can't be."""
    wanted = {"text"} if body.modalities is None else set(body.modalities)
    if wanted not in ({"text"}, {"text", "audio"}):
        raise invalid_field("modalities", "must be ['text'] or ['text', 'audio'].")
    if "audio" not in wanted:
        if body.audio is not None:
            raise invalid_field("audio", "is only allowed when `modalities` is ['text', 'audio'].")
        return None
    audio = require(body.audio, "audio")
    if body.stream and audio.format != "pcm16":
        raise invalid_field("audio.format", "must be 'pcm16' when `stream` is true.")
    if task.n > 1:
        raise invalid_field("n", "must be 1 when the answer is spoken.")
    if body.store:
        raise invalid_field("store", "must be false when the answer is spoken: sound is not stored.")
    if task.grammar and task.grammar.kind in _JSON_GRAMMARS:
        raise invalid_field(task.grammar.param, "can't ask for JSON when the answer is spoken.")
    return ChatAudio(id_, voice_name(audio.voice), "pcm" if audio.format == "pcm16" else audio.format)


def _chat_task(body: wire.Body, find_transcript: FindTranscript) -> Generate:
    refuse_fields(body, _UNSUPPORTED)
    if body.top_logprobs and not body.logprobs:
        raise invalid_field("top_logprobs", "is only allowed when `logprobs` is true.")
    free_form = FreeForm()
    messages = MessageReader(free_form, media_options(body), find_transcript).read(body.messages)
    tools, must_call = _choose_tools(body, free_form)
    form = answer_grammar(body, _response_grammar(body.response_format, free_form), free_form)
    variables, budget, hidden = _thinking_options(body, free_form)
    return Generate(
        messages=messages,
        continue_last=_continues_message(body),
        tools=tools,
        must_call=must_call,
        # The legacy form of an answer has room for only one call.
        parallel_tool_calls=body.parallel_tool_calls is not False and not body.functions,
        # An answer that must be a call has no text to match a grammar.
        grammar=None if must_call else form,
        sampling=answer_sampling(body),
        max_tokens=_merge_synonyms(
            "max_completion_tokens",
            token_limit("max_completion_tokens", body.max_completion_tokens, 1),
            "max_tokens",
            token_limit("max_tokens", body.max_tokens, 1),
        ),
        stop=stop_texts(body),
        n=body.n or 1,
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        template_args=variables,
        thinking_budget=budget,
        hide_reasoning=hidden,
        speculates=body.speculation is not False,
        prediction=_prediction_text(body.prediction),
    )


def _prediction_text(prediction: wire.Prediction | None) -> str:
    """Return the text that the caller expects."""
    content = prediction.content if prediction else ""
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _thinking_options(body: wire.Body, free_form: FreeForm) -> tuple[dict[str, Any], int | None, bool]:
    """Return the variables for the chat template, the thinking budget in tokens, and whether reasoning is hidden."""
    own = body.reasoning if isinstance(body.reasoning, wire.Reasoning) else wire.Reasoning()
    budget = _merge_synonyms("thinking_budget", body.thinking_budget, "reasoning.max_tokens", own.max_tokens)
    variables = template_args(
        body,
        free_form,
        effort=_merge_synonyms("reasoning_effort", body.reasoning_effort, "reasoning.effort", own.effort),
        thinking=_merge_synonyms("enable_thinking", body.enable_thinking, "reasoning.enabled", own.enabled),
        budget=budget,
    )
    return variables, budget, body.reasoning == "hide" or bool(own.exclude) or body.include_reasoning is False


def _merge_synonyms(name: str, value: T | None, other_name: str, other: T | None) -> T | None:
    """Return the value of two fields with the same meaning. Raise OrchardError if their values differ."""
    if value is not None and other is not None and value != other:
        raise invalid_field(other_name, f"and `{name}` are two names of one field: give only one of them.")
    return other if value is None else value


def _continues_message(body: wire.Body) -> bool:
    """Return whether the answer continues the last message."""
    flag = body.continue_final_message
    if flag and body.add_generation_prompt:
        raise invalid_field("add_generation_prompt", "and `continue_final_message` can't both be true.")
    if body.add_generation_prompt is False and not flag:
        raise invalid_field("add_generation_prompt", "may only be false when `continue_final_message` is true.")
    last = body.messages[-1]
    if not flag and not last.prefix:
        return False
    param = "continue_final_message" if flag else f"messages[{len(body.messages) - 1}].prefix"
    if last.role != "assistant":
        raise invalid_field(param, "is only allowed when the last message is the assistant's.")
    if last.tool_calls or last.function_call:
        raise invalid_field(param, "is not allowed when the last message calls a tool: a call can't be continued.")
    return True


def _choose_tools(body: wire.Body, free_form: FreeForm) -> tuple[tuple[Tool, ...], bool]:
    """Return the tools that the model may call, and whether it must call one."""
    if body.tools and body.functions:
        raise invalid_field("functions", "is the old name of `tools`: give only one of them.")
    tools = Tools(free_form)
    for i, entry in enumerate(body.tools or ()):
        if entry.type == "custom":
            _add_chat_custom_tool(tools, require(entry.custom, f"tools[{i}].custom"), f"tools[{i}].custom")
        else:
            _add_function(tools, require(entry.function, f"tools[{i}].function"), f"tools[{i}].function")
    for i, function in enumerate(body.functions or ()):
        _add_function(tools, function, f"functions[{i}]")
    new, old = body.tool_choice, body.function_call
    for param, choice, given in (("tool_choice", new, body.tools), ("function_call", old, body.functions)):
        if choice not in (None, "none", "auto") and not given:
            raise invalid_field(param, "is only allowed when tools are given.")
    if "none" in (new, old):
        return (), False
    if isinstance(new, wire.ToolChoice) and new.type == "allowed_tools":
        allowed = require(new.allowed_tools, "tool_choice.allowed_tools")
        where = "tool_choice.allowed_tools.tools"
        names = [_tool_name(tool, f"{where}[{i}]") for i, tool in enumerate(allowed.tools)]
        return tools.pick(names, where), allowed.mode == "required"
    if isinstance(new, wire.ToolChoice):
        return tools.pick([_tool_name(new, "tool_choice")], "tool_choice"), True
    if isinstance(old, wire.FunctionName):
        return tools.pick([old.name], "function_call"), True
    return tools.as_tuple(), new == "required"


def _add_function(tools: Tools, function: wire.Function, where: str) -> None:
    tools.add(where, function.name, function.description, function.parameters, function.strict)


def _add_chat_custom_tool(tools: Tools, custom: wire.Custom, where: str) -> None:
    wanted = None
    if custom.format and custom.format.type == "grammar":
        wanted = require(custom.format.grammar, f"{where}.format.grammar")
    add_custom_tool(tools, where, custom.name, custom.description, wanted)


def _tool_name(named: wire.ToolName | wire.ToolChoice, where: str) -> str:
    if named.type == "custom":
        return require(named.custom, f"{where}.custom").name
    return require(named.function, f"{where}.function").name


def _response_grammar(wanted: wire.ResponseFormat | None, free_form: FreeForm) -> Grammar | None:
    if wanted is None or wanted.type == "text":
        return None
    own, bare = wanted.json_schema or wire.JsonSchema(), wanted.bare_schema
    if wanted.type == "json_schema" and not wanted.json_schema and bare is None:
        raise invalid_field("response_format.json_schema", "is required.")
    fields = "response_format.json_schema.schema", "response_format.schema"
    schema = _merge_synonyms(fields[0], own.json_schema, fields[1], bare)
    return json_schema_grammar(schema, "response_format", fields[bare is not None], free_form, strict=bool(own.strict))
