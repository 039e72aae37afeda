"""From a decoded Responses body, and what is stored of its conversation, to a `core.Request`."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.events import SettledSampling
from orchard.core.request import Overflow, Request
from orchard.core.tasks.generate import (
    Count,
    Generate,
    Grammar,
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    generation,
)
from orchard.dialects.common.fields import adapter, asks_for, model_of, priority, sampling, stops
from orchard.dialects.common.json_body import FreeForm, invalid
from orchard.dialects.openai.grammar import grammar, json_schema
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.responses.items import ItemReader, kind_of
from orchard.dialects.openai.responses.seal import Unseal
from orchard.dialects.openai.responses.tools import Toolbox, toolbox
from orchard.dialects.openai.thinking import template_args

LOGPROBS = "message.output_text.logprobs"
SEALED = "reasoning.encrypted_content"


def check(body: wire.Body) -> None:
    """Raise OrchardError where fields contradict each other, or ask for what this server doesn't have."""
    if body.prompt is not None:
        raise invalid("prompt", "`prompt` is not supported: this server keeps no prompt templates.")
    if body.moderation is not None:
        raise invalid("moderation", "`moderation` is not supported: this server runs no moderation.")
    if body.conversation is not None and body.previous_response_id is not None:
        param = "previous_response_id"
        raise invalid(param, f"`{param}` and `conversation` can't be used together: each says what came before.")
    if body.truncation == "auto" and body.context_overflow == "summarize":
        message = "`context_overflow` and `truncation` contradict each other: older messages are summarised or dropped."
        raise invalid("context_overflow", message)
    if body.background and body.store is False:
        raise invalid("store", "`store` must be true when `background` is true: nobody could ask for the response.")
    empty = body.input is None or body.input == []
    if empty and body.instructions is None and body.previous_response_id is None and body.conversation is None:
        raise invalid("input", "`input` is required.")


def warms_up(body: wire.Body) -> bool:
    """Whether the prompt is only to be cached."""
    return bool(body.prompt_cache_options and body.prompt_cache_options.prewarm)


def items_of(body: wire.Body) -> list[wire.Item]:
    """Give the input as items."""
    if isinstance(body.input, str):
        return [wire.Item("message", role="user", content=body.input)]
    return body.input or []


def references(items: Sequence[wire.Item], where: str = "input") -> list[str]:
    """Give the ids of the stored items that items refer to. Raises OrchardError where an item is of no known type."""
    found = []
    for i, item in enumerate(items):
        if kind_of(item, f"{where}[{i}]") == "item_reference":
            if not item.id:
                raise invalid(f"{where}[{i}].id", f"`{where}[{i}].id` is required.")
            found.append(item.id)
    return found


def tools_of(body: wire.Body, items: Sequence[wire.Item], free_form: FreeForm) -> Toolbox:
    """Give the tools of a body; some clients send further ones as an item of the input."""
    added = [
        (f"input[{i}].tools[{k}]", entry)
        for i, item in enumerate(items)
        if item.type == "additional_tools"
        for k, entry in enumerate(item.tools or ())
    ]
    return toolbox(body.tools or (), added, body.tool_choice, free_form)


def translate(
    body: wire.Body,
    past: Sequence[wire.Item],
    referenced: Mapping[str, wire.Item],
    request_id: str,
    *,
    header: str | None,
    unseal: Unseal,
) -> tuple[Request, Toolbox]:
    """Make the request that a body asks for.

    `past`: the items of the conversation so far. `referenced`: the stored items that the input refers to, by their ids.
    `header`: the priority that the request's header gives. `unseal` reads compaction items. Raises OrchardError
    (invalid_request, item_not_found).
    """
    free_form = FreeForm()
    own = items_of(body)
    box = tools_of(body, own, free_form)
    reader = ItemReader(box, free_form, unseal)
    reader.read(past, stored=True)
    known = {item.id for item in past}
    # The reader passes over references: those that are left are to what is in the conversation already.
    reader.read([item if item.id in known else _resolved(item, referenced) for item in own])
    messages = reader.messages()
    if body.instructions:
        messages = (Message("system", (TextPart(body.instructions),)), *messages)
    if not messages:
        raise invalid("input", "`input` is required: the conversation is empty.")
    form = grammar(body, _format(body.text, free_form), free_form)
    reasoning = body.reasoning or wire.ReasoningConfig()
    task = Generate(
        messages=messages,
        tools=box.tools,
        must_call=box.must_call,
        parallel_tool_calls=body.parallel_tool_calls is not False,
        # An answer that is nothing but calls has no text that could break its form.
        grammar=None if box.must_call else form,
        sampling=sampling(body),
        max_tokens=1 if warms_up(body) else body.max_output_tokens,
        stop=stops(body),
        top_logprobs=_top_logprobs(body),
        template_args=template_args(
            body,
            free_form,
            effort=reasoning.effort,
            thinking=body.enable_thinking,
            budget=body.thinking_budget,
        ),
        thinking_budget=body.thinking_budget,
    )
    turn = priority(body, header)
    return Request(request_id, model_of(body), task, turn, adapter(body), body.ttl, _overflow(body)), box


def _overflow(body: wire.Body) -> Overflow | None:
    """Say what becomes of a conversation that is too long; what is dropped by `truncation` is not summarised."""
    if body.context_overflow is not None:
        return body.context_overflow
    if body.truncation != "auto" and asks_for(body.context_management, "compaction"):
        return "summarize"
    return "error" if body.truncation else None


def _resolved(item: wire.Item, referenced: Mapping[str, wire.Item]) -> wire.Item:
    """Return what an item refers to, or the item itself. Raises OrchardError ("item_not_found")."""
    if kind_of(item, "input") != "item_reference":
        return item
    found = referenced.get(item.id or "")
    if found is None:
        message = (
            f"no item '{item.id}' here: with `previous_response_id` or `conversation`, a reference must be to an item "
            "of that chain or conversation; otherwise all references must be to items of one chain of your responses"
        )
        raise OrchardError("item_not_found", message, param="input")
    return found


def _format(text: wire.TextConfig | None, free_form: FreeForm) -> Grammar | None:
    if text is None or text.format is None or text.format.type == "text":
        return None
    if text.format.type == "json_object":
        return Grammar("json_object", None, "text.format")
    if text.format.json_schema is None:
        raise invalid("text.format.schema", "`text.format.schema` is required.")
    wanted, strict = text.format.json_schema, bool(text.format.strict)
    return json_schema(wanted, "text.format", "text.format.schema", free_form, strict=strict)


def _top_logprobs(body: wire.Body) -> int | None:
    if LOGPROBS in (body.include or ()):
        return body.top_logprobs or 0
    return body.top_logprobs or None


def droppable(task: Generate) -> int:
    """Give how many messages may be dropped from a conversation's beginning: not the system's, not the last turn."""
    last = max((i for i, message in enumerate(task.messages) if message.role != "tool"), default=0)
    return sum(message.role != "system" for message in task.messages[:last])


def without_oldest(request: Request, count: int) -> Request:
    """Drop so many of the oldest messages, but those of the system, and the results of calls that are dropped."""
    kept: list[Message] = []
    calls: set[str] = set()
    for message in generation(request).messages:
        if message.role == "system" or count <= 0:
            parts = tuple(
                part for part in message.parts if not isinstance(part, ToolResultPart) or part.call_id in calls
            )
            if parts or not message.parts:
                kept.append(replace(message, parts=parts))
            calls |= {part.id for part in message.parts if isinstance(part, ToolCallPart)}
        else:
            count -= 1
    task = replace(generation(request), messages=tuple(kept))
    return replace(request, task=Count(task) if isinstance(request.task, Count) else task)


def assumed_sampling(body: wire.Body) -> SettledSampling:
    """Say how tokens are drawn as far as the request does; the model's own defaults are known once it has started."""
    given = {name: getattr(body, name) for name in SettledSampling.__struct_fields__}
    return SettledSampling(**{name: value for name, value in given.items() if value is not None})


def settings_of(body: wire.Body) -> dict[str, Any]:
    """Give the fields of a response that repeat what the request said, but for those that are free in form."""
    reasoning = body.reasoning or wire.ReasoningConfig()
    return {
        "background": bool(body.background),
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": body.max_tool_calls,
        "metadata": body.metadata or {},
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {"effort": reasoning.effort, "summary": reasoning.summary or reasoning.generate_summary},
        "safety_identifier": body.safety_identifier,
        "service_tier": "default",
        "store": body.store is not False,
        "top_logprobs": body.top_logprobs or 0,
        "truncation": body.truncation or "disabled",
        "user": body.user,
    }
