"""From a decoded Messages body to a `core.Request`; what can't be served is refused with the reason."""

from collections.abc import Sequence
from typing import Any

from orchard.core.errors import OrchardError
from orchard.core.request import Overflow, Request
from orchard.core.tasks.generate import (
    Count,
    Generate,
    Grammar,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Sampling,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from orchard.dialects.anthropic.messages import schema as wire
from orchard.dialects.anthropic.messages.stable_prompt import stabilised
from orchard.dialects.anthropic.messages.tools import MAX_SCHEMA_BYTES, choose
from orchard.dialects.common.fields import adapter, asks_for, header_priority, model_of
from orchard.dialects.common.json_body import FreeForm, invalid

MAX_ARGUMENTS_BYTES = 1024 * 1024
MAX_ITEMS = 32_768
"""How many blocks all messages may have together, those within results and documents included."""

_SKIPPED = {
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
"""Blocks that other servers wrote, for themselves to read, and directives that change nothing here."""
_COMPACT = "compact_20260112"
_SHOWN = ("text", "image", "document", "search_result")
_ALLOWED = {
    "user": (*_SHOWN, "tool_result"),
    "assistant": ("text", "thinking", "tool_use", "compaction"),
    "system": ("text", "tool_addition"),
}


def translate(
    body: wire.Body,
    request_id: str,
    *,
    priority: str | None = None,
    count: bool = False,
    stable_prompts: bool = True,
) -> Request:
    """Make the request that a body asks for; with `count` its prompt's tokens are counted. `priority`: the header's.

    `stable_prompts`: see anthropic_messages_prompt. Raises OrchardError (invalid_request; response_not_found where it
    goes on with messages that were never stored).
    """
    _refuse_unsupported(body)
    free_form = FreeForm()
    conversation = _Conversation(free_form)
    messages = conversation.read(body)
    if stable_prompts:
        messages = stabilised(messages)
    if not messages:
        raise invalid("messages", "`messages` hold nothing that the model could answer.")
    tools = choose(body, conversation.added_tools, free_form)
    thinks = body.thinking is None or body.thinking.type in ("enabled", "adaptive")
    task = Generate(
        messages=messages,
        continue_last=_is_unfinished(messages),
        tools=tools.tools,
        must_call=tools.must_call,
        parallel_tool_calls=tools.parallel,
        # An answer that must be a call has no text.
        grammar=None if tools.must_call else _grammar(body, free_form),
        sampling=Sampling(temperature=body.temperature, top_p=body.top_p, top_k=body.top_k),
        max_tokens=1 if body.max_tokens == 0 else body.max_tokens,
        stop=tuple(body.stop_sequences or ()),
        template_args=_template_args(body),
        thinking_budget=body.thinking.budget_tokens if body.thinking and thinks else None,
        hide_reasoning=not thinks,
    )
    work = Count(task) if count else task
    turn = header_priority(priority)
    return Request(request_id, model_of(body), work, turn, adapter(body), body.ttl, _overflow(body))


class _Conversation:
    """Reads messages in order and remembers the calls that later results refer to, and the tools they define."""

    def __init__(self, free_form: FreeForm) -> None:
        self.added_tools: list[tuple[wire.ToolEntry, str]] = []
        self._free_form = free_form
        self._call_ids: set[str] = set()

    def read(self, body: wire.Body) -> tuple[Message, ...]:
        items = sum(map(_items, body.messages))
        if items > MAX_ITEMS:
            raise invalid("messages", f"`messages` hold {items} blocks; at most {MAX_ITEMS} are allowed in all.")
        last_user = max((i for i, message in enumerate(body.messages) if message.role == "user"), default=-1)
        read = [Message("system", parts)] if (parts := _system(body.system)) else []
        for i, message in enumerate(body.messages):
            if message.clear_at != "next_user_message" or i > last_user:
                read += self._message(message, f"messages[{i}]")
        if read and read[-1].role == "assistant" and not any(map(_says_something, read[-1].parts)):
            read.pop()  # what has nothing but thoughts is no beginning of an answer
        return tuple(read)

    def _message(self, message: wire.Message, where: str) -> list[Message]:
        """Give a message; results of tools are one of their own, before the rest."""
        parts: list[Part] = []
        if isinstance(message.content, list):
            for i, block in enumerate(message.content):
                parts += self._parts(block, message.role, f"{where}.content[{i}]")
        elif message.content:
            parts.append(TextPart(message.content))
        results = tuple(part for part in parts if isinstance(part, ToolResultPart))
        rest = tuple(part for part in parts if not isinstance(part, ToolResultPart))
        read = [Message("tool", results)] if results else []
        # A user may say nothing, be it in texts, but a message of which nothing is left is none.
        blocks = message.content if isinstance(message.content, list) else ()
        if rest or (message.role == "user" and all(block.type == "text" for block in blocks)):
            read.append(Message(message.role, rest))
        return read

    def _parts(self, block: wire.Block, role: str, where: str) -> Sequence[Part]:
        if block.type in _SKIPPED:
            return ()
        if block.type not in _ALLOWED[role]:
            names = ", ".join(repr(name) for name in _ALLOWED[role])
            message = f"`{where}.type` must be one of {names} in a message of role '{role}', got '{block.type[:64]}'."
            raise invalid(f"{where}.type", message)
        parts: Sequence[Part] = ()
        match block.type:
            case "thinking":
                parts = (ReasoningPart(block.thinking),) if block.thinking else ()
            case "tool_use":
                parts = (self._call(block, where),)
            case "tool_result":
                parts = (self._result(block, where),)
            case "compaction":
                parts = _texts(block.content) if isinstance(block.content, str) else ()
            case "tool_addition":
                if block.tool and block.tool.definition:
                    self.added_tools.append((block.tool.definition, f"{where}.tool.definition"))
            case _:
                parts = _shown(block, where)
        return parts

    def _call(self, block: wire.Block, where: str) -> ToolCallPart:
        call_id, name = _required(block.id, f"{where}.id"), _required(block.name, f"{where}.name")
        self._call_ids.add(call_id)
        arguments = self._free_form.check(block.input or {}, f"{where}.input", MAX_ARGUMENTS_BYTES)
        return ToolCallPart(call_id, name, arguments.decode())

    def _result(self, block: wire.Block, where: str) -> ToolResultPart:
        param = f"{where}.tool_use_id"
        call_id = _required(block.tool_use_id, param)
        if call_id not in self._call_ids:
            raise invalid(param, f"`{param}` must be the id of a `tool_use` block in an earlier assistant message.")
        parts: list[TextPart | ImagePart] = []
        if isinstance(block.content, str):
            parts += _texts(block.content)
        elif isinstance(block.content, dict):
            raise invalid(f"{where}.content", f"`{where}.content` must be a string or an array of blocks.")
        else:
            for i, inner in enumerate(block.content or ()):
                parts += _result_parts(inner, f"{where}.content[{i}]")
        return ToolResultPart(call_id, tuple(parts), block.is_error is True)


def _items(message: wire.Message) -> int:
    blocks = message.content if isinstance(message.content, list) else []
    inner = (block.content for block in blocks if isinstance(block.content, list))
    return len(blocks) + sum(map(len, inner))


def _system(system: str | list[wire.SystemBlock] | None) -> tuple[TextPart, ...]:
    if not isinstance(system, list):
        return _texts(system or "")
    texts = []
    for i, block in enumerate(system):
        if block.type != "text":
            raise invalid(f"system[{i}].type", f"`system[{i}].type` must be 'text', got '{block.type[:64]}'.")
        texts.append(_required(block.text, f"system[{i}].text", empty=True))
    return tuple(part for text in texts for part in _texts(text))


def _result_parts(block: wire.ResultBlock, where: str) -> Sequence[TextPart | ImagePart]:
    if block.type in _SKIPPED:
        return ()
    if block.type == "tool_reference":
        return (TextPart(f"The tool {_required(block.tool_name, f'{where}.tool_name')} is available."),)
    if block.type not in _SHOWN:
        names = ", ".join(repr(name) for name in (*_SHOWN, "tool_reference"))
        message = f"`{where}.type` must be one of {names} in the result of a tool, got '{block.type[:64]}'."
        raise invalid(f"{where}.type", message)
    return _shown(block, where)


def _shown(block: wire.Block | wire.ResultBlock, where: str) -> Sequence[TextPart | ImagePart]:
    """Give what stands in a block of a user or of a tool."""
    match block.type:
        case "text":
            return _texts(_required(block.text, f"{where}.text", empty=True))
        case "image":
            return (_image(block.source, f"{where}.source"),)
        case "document":
            heads = [head for head in (block.title, block.context) if head]
            return (*map(TextPart, heads), *_document(block.source, f"{where}.source"))
    source = block.source if isinstance(block.source, str) else None
    heads = [head for head in (block.title, source) if head]
    return (*map(TextPart, heads), *_inner(block.content, f"{where}.content"))


def _document(source: wire.Source | str | None, where: str) -> Sequence[TextPart | ImagePart]:
    if not isinstance(source, wire.Source):
        raise invalid(where, f"`{where}` is required and must be an object.")
    match source.type:
        case "text":
            return _texts(_required(source.data, f"{where}.data", empty=True))
        case "content":
            content = source.content
            return _texts(content) if isinstance(content, str) else _inner(content, f"{where}.content")
    message = f"`{where}.type` must be 'text' or 'content': this server can't read PDF files, and stores no files."
    raise invalid(f"{where}.type", message)


def _inner(blocks: Any, where: str) -> Sequence[TextPart | ImagePart]:
    if not isinstance(blocks, list):
        raise invalid(where, f"`{where}` is required and must be an array of blocks.")
    parts: list[TextPart | ImagePart] = []
    for i, block in enumerate(blocks):
        if block.type not in ("text", "image"):
            message = f"`{where}[{i}].type` must be 'text' or 'image', got '{block.type[:64]}'."
            raise invalid(f"{where}[{i}].type", message)
        parts += _shown(block, f"{where}[{i}]")
    return parts


def _image(source: wire.Source | wire.ImageSource | str | None, where: str) -> ImagePart:
    if source is None or isinstance(source, str):
        raise invalid(where, f"`{where}` is required and must be an object.")
    match source.type:
        case "base64":
            media_type = _required(source.media_type, f"{where}.media_type")
            return ImagePart(f"data:{media_type};base64,{_required(source.data, f'{where}.data')}")
        case "url":
            url = _required(source.url, f"{where}.url")
            if not url.startswith(("http://", "https://")):
                raise invalid(f"{where}.url", f"`{where}.url` must begin with 'http://' or 'https://'.")
            return ImagePart(url)
    raise invalid(f"{where}.type", f"`{where}.type` must be 'base64' or 'url': this server stores no files.")


def _texts(text: str) -> tuple[TextPart, ...]:
    return (TextPart(text),) if text else ()


def _required(value: str | None, param: str, *, empty: bool = False) -> str:
    if value is None or not (value or empty):
        raise invalid(param, f"`{param}` is required{'' if value is None else ' and must not be empty'}.")
    return value


def _says_something(part: Part) -> bool:
    return isinstance(part, ToolCallPart) or (isinstance(part, TextPart) and bool(part.text.strip()))


def _is_unfinished(messages: Sequence[Message]) -> bool:
    """Whether the answer goes on with the last message: it is the assistant's, and waits for no result."""
    return messages[-1].role == "assistant" and not any(isinstance(part, ToolCallPart) for part in messages[-1].parts)


def _grammar(body: wire.Body, free_form: FreeForm) -> Grammar | None:
    format_, param = body.output_format, "output_format.schema"
    if body.output_config and body.output_config.format:
        format_, param = body.output_config.format, "output_config.format.schema"
    if format_ is None:
        return None
    free_form.check(format_.schema, param, MAX_SCHEMA_BYTES)
    return Grammar("json_schema", format_.schema, param)


def _overflow(body: wire.Body) -> Overflow | None:
    """Say what becomes of a conversation that is too long."""
    managed = body.context_management
    if body.context_overflow is None and isinstance(managed, dict) and asks_for(managed.get("edits"), _COMPACT):
        return "summarize"
    return body.context_overflow


def _template_args(body: wire.Body) -> dict[str, Any]:
    args: dict[str, Any] = {}
    if body.thinking:
        args["enable_thinking"] = body.thinking.type in ("enabled", "adaptive")
    if body.output_config and body.output_config.effort:
        args["reasoning_effort"] = body.output_config.effort
    return args


def _refuse_unsupported(body: wire.Body) -> None:
    if body.thinking and body.thinking.type == "enabled" and body.thinking.budget_tokens is None:
        param = "thinking.budget_tokens"
        raise invalid(param, f"`{param}` is required where the type is 'enabled'.")
    if body.mcp_servers:
        raise invalid("mcp_servers", "`mcp_servers` is not supported: this server calls no tools itself.")
    if body.compaction is not None:
        raise invalid("compaction", "`compaction` is not supported: ask for `context_overflow` 'summarize'.")
    if isinstance(body.thread, dict) and body.thread.get("type") == "continue":
        message = "`thread` can't be continued: this server stores none. Send the whole conversation."
        raise OrchardError("response_not_found", message, param="thread")
