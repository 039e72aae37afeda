"""Parse a chat: turn a body into a `core.request.Request`, and reject what can't be served, with the reason."""

import time
from collections.abc import Iterator

from orchard.core.media import MediaOptions, MediaPart
from orchard.core.tasks import generate
from orchard.dialects.common.json_body import FreeForm, invalid_field
from orchard.dialects.common.media import encoded_part
from orchard.dialects.common.tools import Tools
from orchard.dialects.ollama.chat import schema as wire
from orchard.dialects.ollama.chat.encode import OllamaChatCall
from orchard.dialects.ollama.fields import (
    Options,
    answer_grammar,
    answer_sampling,
    likeliest_tokens,
    make_ollama_request,
    stop_texts,
    thinking_variables,
    token_limit,
    whole_option,
)

MAX_ITEMS = 32_768
"""The most images and calls of all messages together."""


def parse(body: bytes, request_id: str, *, default: str | None = None) -> OllamaChatCall:
    """Read the body of a request; `default` is the model of a body that names none.

    Raise OrchardError (invalid_request), whose `param` names the field to blame.
    """
    decoded = wire.BODY.decode(body, default=default)
    free_form = FreeForm()
    messages = _MessageReader(free_form).read(decoded.messages or ())
    options = decoded.options or Options()
    last = messages[-1] if messages else None
    waits = last is not None and any(isinstance(part, generate.ToolCallPart) for part in last.parts)
    variables = thinking_variables(decoded.think)
    task = generate.Generate(
        messages=messages,
        continue_last=last is not None and last.role == "assistant" and not waits,
        tools=_read_tools(decoded.tools or (), free_form),
        grammar=answer_grammar(decoded.format, free_form),
        sampling=answer_sampling(options),
        max_tokens=token_limit(options),
        stop=stop_texts(options),
        top_logprobs=likeliest_tokens(decoded),
        template_args=variables,
        hide_reasoning=variables.get("enable_thinking") is False,
        window=whole_option(options, "num_ctx"),
    )
    return OllamaChatCall(
        request=make_ollama_request(decoded, request_id, task, drops=decoded.truncate is not False),
        model=decoded.model_name,
        begun_at=time.monotonic(),
        stream=decoded.stream is not False,
        thinks=variables.get("enable_thinking"),
        only_loads=not messages,
    )


class _MessageReader:
    """Reads messages in order. Remembers the calls that have no results yet."""

    def __init__(self, free_form: FreeForm) -> None:
        self._free_form = free_form
        self._open: dict[str, str] = {}  # the names of the calls without results, by id
        self._count = 0

    def read(self, messages: list[wire.ChatMessage] | tuple[()]) -> tuple[generate.Message, ...]:
        items = sum(len(message.images or ()) + len(message.tool_calls or ()) for message in messages)
        if items > MAX_ITEMS:
            raise invalid_field("messages", f"hold {items} images and calls; at most {MAX_ITEMS} are allowed.")
        return tuple(self._read_message(message, f"messages[{i}]") for i, message in enumerate(messages))

    def _read_message(self, message: wire.ChatMessage, where: str) -> generate.Message:
        if message.tool_calls and message.role != "assistant":
            raise invalid_field(f"{where}.tool_calls", "is only allowed in a message of role 'assistant'.")
        if message.images and message.role not in ("user", "tool"):
            raise invalid_field(f"{where}.images", f"must be left out in a message of role '{message.role}'.")
        content = tuple(self._read_content(message, where))
        if message.role == "tool":
            return generate.Message("tool", (generate.ToolResultPart(self._answered_call(message, where), content),))
        parts: list[generate.Part] = [generate.ReasoningPart(message.thinking)] if message.thinking else []
        parts += content
        parts += (self._read_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(message.tool_calls or ()))
        return generate.Message(message.role, tuple(parts))

    def _read_content(self, message: wire.ChatMessage, where: str) -> Iterator[generate.TextPart | MediaPart]:
        yield from read_images(message.images or [], where)
        if message.content:
            yield generate.TextPart(message.content)

    def _read_call(self, call: wire.ChatToolCall, where: str) -> generate.ToolCallPart:
        self._count += 1
        call_id = call.id or f"call_{self._count}"
        self._open[call_id] = call.function.name
        arguments = self._free_form.arguments_json(call.function.arguments, f"{where}.function.arguments")
        return generate.ToolCallPart(call_id, call.function.name, arguments)

    def _answered_call(self, message: wire.ChatMessage, where: str) -> str:
        """Return the id of the call that a message of a tool answers: the named one, else the oldest."""
        name = message.tool_name or message.name
        found = message.tool_call_id
        if found is None or found not in self._open:
            found = next((id_ for id_, called in self._open.items() if name in (None, "", called)), None)
        if found is None:
            which = f" of '{name[:64]}'" if name else ""
            raise invalid_field(where, f"must follow a message of the assistant with a call{which} that it answers.")
        del self._open[found]
        return found


def read_images(images: list[str], where: str) -> Iterator[MediaPart]:
    """Yield images in base64, which the field `images` of `where` has; "": of the body."""
    field = f"{where}.images" if where else "images"
    for i, data in enumerate(images):
        yield encoded_part("image", data, "", f"{field}[{i}]", MediaOptions())


def _read_tools(entries: list[wire.OllamaTool] | tuple[()], free_form: FreeForm) -> tuple[generate.Tool, ...]:
    tools = Tools(free_form)
    for i, entry in enumerate(entries):
        function = entry.function
        tools.add(f"tools[{i}].function", function.name, function.description, function.parameters, None)
    return tools.as_tuple()
