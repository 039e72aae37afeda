"""Parse Messages: turn a body into a `core.request.Request`, and reject what can't be served, with the reason."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.media import MediaOptions, MediaPart
from orchard.core.request import Overflow, Request
from orchard.core.tasks import generate
from orchard.dialects.anthropic.messages import schema as wire
from orchard.dialects.anthropic.messages.blocks import VISIBLE_TYPES, BlockReader
from orchard.dialects.anthropic.messages.encode import MessagesCall
from orchard.dialects.anthropic.messages.stable_prompt import stabilise_prompt
from orchard.dialects.anthropic.messages.tools import choose_tools, unserved_types
from orchard.dialects.common.fields import has_edit, header_priority, make_request
from orchard.dialects.common.json_body import FreeForm, invalid_choice, invalid_field, refuse_fields, require
from orchard.dialects.common.media import media_options

P = TypeVar("P", bound=generate.Part)

MAX_ITEMS = 32_768
"""The most blocks of all messages together, including those in tool results and documents."""

_SKIPPED_TYPES = {
    "advisor_tool_result",
    "bash_code_execution_tool_result",
    "browser_state",
    "code_execution_tool_result",
    "container_upload",
    "fallback",
    "mcp_tool_listing",
    "mcp_tool_result",
    "mcp_tool_use",
    "redacted_thinking",
    "server_tool_use",
    "text_editor_code_execution_tool_result",
    "tool_removal",
    "tool_search_tool_result",
    "web_fetch_tool_result",
    "web_search_tool_result",
}
"""Blocks that only Anthropic's servers can use, and directives that have no effect here."""
_COMPACT = "compact_20260112"
_BLOCK_TYPES = {
    "user": (*VISIBLE_TYPES, "tool_result"),
    "assistant": ("text", "thinking", "tool_use", "compaction"),
    "system": ("text", "tool_addition"),
}


def parse(
    body: bytes,
    request_id: str,
    priority: str | None = None,
    *,
    stable_prompts: bool = True,
    default: str | None = None,
) -> MessagesCall:
    """Read the body of a request; `priority` is from its header, `default` the model of a body that names none.

    `stable_prompts`: see `stable_prompt`. Raise OrchardError: invalid_request, whose `param` names the field to blame;
    response_not_found if it continues messages that were never stored.
    """
    decoded = wire.BODY.decode(body, default=default)
    task, turn = _messages_task(decoded, stable_prompts), header_priority(priority)
    return MessagesCall(
        request=make_request(decoded, request_id, task, turn, _messages_overflow(decoded)),
        stream=bool(decoded.stream),
        omits_thinking=bool(decoded.thinking and decoded.thinking.display == "omitted"),
        warms_up=decoded.max_tokens == 0,
        unserved_tools=unserved_types(decoded.tools or ()),
    )


def parse_count(body: bytes, request_id: str, *, stable_prompts: bool = True, default: str | None = None) -> Request:
    """Read the body of a request to count the tokens of its prompt. Raise OrchardError as `parse` does."""
    request = parse(body, request_id, stable_prompts=stable_prompts, default=default).request
    return replace(request, task=generate.Count(generate.generate_task(request)))


def _messages_task(body: wire.Body, stable_prompts: bool) -> generate.Generate:
    _refuse_unsupported(body)
    free_form = FreeForm()
    conversation = _Conversation(free_form, media_options(body))
    messages = conversation.read(body)
    if stable_prompts:
        messages = stabilise_prompt(messages)
    if not messages:
        raise invalid_field("messages", "hold nothing that the model could answer.")
    last = messages[-1]
    waits = any(isinstance(part, generate.ToolCallPart) for part in last.parts)
    tools, must_call = choose_tools(body, conversation.added_tools, free_form)
    thinks = body.thinking is None or body.thinking.type in ("enabled", "adaptive")
    variables = {
        "enable_thinking": thinks if body.thinking else None,
        "reasoning_effort": body.output_config.effort if body.output_config else None,
    }
    return generate.Generate(
        messages=messages,
        # A last message of the assistant is to be continued, unless it waits for a tool's result.
        continue_last=last.role == "assistant" and not waits,
        tools=tools,
        must_call=must_call,
        parallel_tool_calls=not (body.tool_choice and body.tool_choice.disable_parallel_tool_use),
        # An answer that must be a call has no text to match a grammar.
        grammar=None if must_call else _output_grammar(body, free_form),
        sampling=generate.Sampling(temperature=body.temperature, top_p=body.top_p, top_k=body.top_k),
        max_tokens=1 if body.max_tokens == 0 else body.max_tokens,
        stop=tuple(body.stop_sequences or ()),
        template_args={name: value for name, value in variables.items() if value is not None},
        thinking_budget=body.thinking.budget_tokens if body.thinking and thinks else None,
        hide_reasoning=not thinks,
        speculates=body.speculation is not False,
    )


class _Conversation:
    """Reads messages in order. Remembers the tools that they define and the calls that results refer to."""

    def __init__(self, free_form: FreeForm, options: MediaOptions) -> None:
        self.added_tools: list[tuple[wire.ToolEntry, str]] = []
        self._blocks = BlockReader(options)
        self._free_form = free_form
        self._call_ids: set[str] = set()

    def read(self, body: wire.Body) -> tuple[generate.Message, ...]:
        blocks = [block for message in body.messages for block in _message_blocks(message)]
        items = len(blocks) + sum(len(block.content) for block in blocks if isinstance(block.content, list))
        if items > MAX_ITEMS:
            raise invalid_field("messages", f"hold {items} blocks; at most {MAX_ITEMS} are allowed in all.")
        last_user = max((i for i, message in enumerate(body.messages) if message.role == "user"), default=-1)
        system = _drop_empty_texts(_system_parts(body.system))
        read = [generate.Message("system", system)] if system else []
        for i, message in enumerate(body.messages):
            if message.clear_at != "next_user_message" or i > last_user:
                read += self._read_message(message, f"messages[{i}]")
        if read and read[-1].role == "assistant" and not any(map(_has_content, read[-1].parts)):
            read.pop()  # reasoning alone is not the beginning of an answer
        return tuple(read)

    def _read_message(self, message: wire.Message, where: str) -> list[generate.Message]:
        """Return a message; tool results become a separate message before it."""
        parts: list[generate.Part] = [generate.TextPart(message.content)] if isinstance(message.content, str) else []
        for i, block in enumerate(_message_blocks(message)):
            parts += self._read_block(block, message.role, f"{where}.content[{i}]")
        results = tuple(part for part in parts if isinstance(part, generate.ToolResultPart))
        rest = _drop_empty_texts(part for part in parts if not isinstance(part, generate.ToolResultPart))
        read = [generate.Message("tool", results)] if results else []
        # Keep a user's empty message, also one of empty texts; drop other messages of which nothing is left.
        if rest or (message.role == "user" and all(block.type == "text" for block in _message_blocks(message))):
            read.append(generate.Message(message.role, rest))
        return read

    def _read_block(self, block: wire.Block, role: str, where: str) -> Iterator[generate.Part]:
        if block.type in _SKIPPED_TYPES:
            return
        if block.type not in _BLOCK_TYPES[role]:
            place = f" in a message of role '{role}', got '{block.type[:64]}'"
            raise invalid_choice(f"{where}.type", _BLOCK_TYPES[role], place)
        match block.type:
            case "thinking":
                if block.thinking:
                    yield generate.ReasoningPart(block.thinking)
            case "tool_use":
                yield self._read_call(block, where)
            case "tool_result":
                yield self._read_result(block, where)
            case "compaction":
                yield generate.TextPart(block.content if isinstance(block.content, str) else "")
            case "tool_addition":
                if block.tool and block.tool.definition:
                    self.added_tools.append((block.tool.definition, f"{where}.tool.definition"))
            case _:
                yield from self._blocks.read(block, where)

    def _read_call(self, block: wire.Block, where: str) -> generate.ToolCallPart:
        call_id = require(block.id, f"{where}.id", empty=False)
        name = require(block.name, f"{where}.name", empty=False)
        self._call_ids.add(call_id)
        return generate.ToolCallPart(call_id, name, self._free_form.arguments_json(block.input, f"{where}.input"))

    def _read_result(self, block: wire.Block, where: str) -> generate.ToolResultPart:
        param = f"{where}.tool_use_id"
        call_id = require(block.tool_use_id, param, empty=False)
        if call_id not in self._call_ids:
            raise invalid_field(param, "must be the id of a `tool_use` block in an earlier assistant message.")
        if isinstance(block.content, dict):
            raise invalid_field(f"{where}.content", "must be a string or an array of blocks.")
        parts = _drop_empty_texts(self._read_result_parts(block.content or "", f"{where}.content"))
        return generate.ToolResultPart(call_id, parts, block.is_error is True)

    def _read_result_parts(
        self, content: str | list[wire.ResultBlock], where: str
    ) -> Iterator[generate.TextPart | MediaPart]:
        if isinstance(content, str):
            yield generate.TextPart(content)
            return
        for i, block in enumerate(content):
            if block.type == "tool_reference":
                name = require(block.tool_name, f"{where}[{i}].tool_name", empty=False)
                yield generate.TextPart(f"The tool {name} is available.")
            elif block.type in VISIBLE_TYPES:
                yield from self._blocks.read(block, f"{where}[{i}]")
            elif block.type not in _SKIPPED_TYPES:
                place = f" in the result of a tool, got '{block.type[:64]}'"
                raise invalid_choice(f"{where}[{i}].type", (*VISIBLE_TYPES, "tool_reference"), place)


def _message_blocks(message: wire.Message) -> list[wire.Block]:
    return message.content if isinstance(message.content, list) else []


def _drop_empty_texts(parts: Iterable[P]) -> tuple[P, ...]:
    """Return the parts without empty texts."""
    return tuple(part for part in parts if not isinstance(part, generate.TextPart) or part.text)


def _system_parts(system: str | list[wire.SystemBlock] | None) -> Iterator[generate.TextPart]:
    if isinstance(system, str):
        yield generate.TextPart(system)
        return
    for i, block in enumerate(system or ()):
        if block.type != "text":
            raise invalid_field(f"system[{i}].type", f"must be 'text', got '{block.type[:64]}'.")
        yield generate.TextPart(require(block.text, f"system[{i}].text"))


def _has_content(part: generate.Part) -> bool:
    return isinstance(part, generate.ToolCallPart) or (isinstance(part, generate.TextPart) and bool(part.text.strip()))


def _output_grammar(body: wire.Body, free_form: FreeForm) -> generate.Grammar | None:
    format_, param = body.output_format, "output_format.schema"
    if body.output_config and body.output_config.format:
        format_, param = body.output_config.format, "output_config.format.schema"
    if format_ is None:
        return None
    free_form.check(format_.schema, param)
    return generate.Grammar("json_schema", format_.schema, param)


def _messages_overflow(body: wire.Body) -> Overflow | None:
    """Return how to treat a conversation that is too long."""
    managed = body.context_management
    if body.context_overflow is None and isinstance(managed, dict) and has_edit(managed.get("edits"), _COMPACT):
        return "summarize"
    return body.context_overflow


def _refuse_unsupported(body: wire.Body) -> None:
    if body.thinking and body.thinking.type == "enabled" and body.thinking.budget_tokens is None:
        raise invalid_field("thinking.budget_tokens", "is required where the type is 'enabled'.")
    if body.mcp_servers:
        raise invalid_field("mcp_servers", "is not supported: this server calls no tools itself.")
    refuse_fields(body, {"compaction": "ask for `context_overflow` 'summarize'"})
    if isinstance(body.thread, dict) and body.thread.get("type") == "continue":
        message = "`thread` can't be continued: this server stores none. Send the whole conversation."
        raise OrchardError("response_not_found", message, param="thread")
