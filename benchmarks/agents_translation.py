"""Requests of the dialects that coding agents speak, as the same request in Chat Completions."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from orchard.core.events import Event
from orchard.core.tasks import generate
from orchard.core.tasks.generate import Generate, Message, generate_task
from orchard.dialects.anthropic.messages import encode as messages_encode
from orchard.dialects.anthropic.messages import parse as messages
from orchard.dialects.openai.chat import encode as chat_encode
from orchard.dialects.openai.chat import parse as chat
from orchard.dialects.openai.responses import encode as responses_encode
from orchard.dialects.openai.responses import parse as responses

Body = dict[str, Any]


class Encoder(Protocol):
    """Makes a dialect's server-sent events."""

    def encode(self, new: Sequence[Event]) -> bytes:
        """Return the bytes of the events."""
        ...


def parse_request(path: str, body: bytes, request_id: str) -> tuple[Generate, Encoder]:
    """Return the task of a request to one of the three dialects, and what encodes its answer. Raise OrchardError."""
    if path == "/v1/messages":
        message = messages.parse(body, request_id)
        return generate_task(message.request), messages_encode.MessagesEncoder(message)
    if path == "/v1/responses":
        response = responses.parse(body).make_call(request_id)
        return generate_task(response.request), responses_encode.ResponseEncoder(response)
    completion = chat.parse(body, request_id)
    return generate_task(completion.request), chat_encode.ChatEncoder(completion)


def chat_body(task: Generate) -> Body:
    """Return messages and tools as Chat Completions has them.

    Chat templates take one system message, which comes first: the leading ones become one, and later ones the user's.
    """
    written = [entry for message in task.messages for entry in _chat_messages(message)]
    head = next((place for place, entry in enumerate(written) if entry["role"] != "system"), len(written))
    system = "\n\n".join(entry["content"] for entry in written[:head])
    rest = [entry | {"role": "user"} if entry["role"] == "system" else entry for entry in written[head:]]
    tools = [
        {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters or {}}
        for tool in task.tools
    ]
    return {
        "messages": [*([{"role": "system", "content": system}] if system else []), *rest],
        "tools": [{"type": "function", "function": tool} for tool in tools],
    }


def _chat_messages(message: Message) -> Iterator[Body]:
    """Yield a message for each tool result, then one for the rest, if there is any."""
    texts, reasoning, calls = list[str](), list[str](), list[Body]()
    for part in message.parts:
        match part:
            case generate.TextPart(text):
                texts.append(text)
            case generate.ReasoningPart(text):
                reasoning.append(text)
            case generate.ToolCallPart(id=call_id, name=name, arguments=arguments):
                function = {"name": name, "arguments": arguments}
                calls.append({"id": call_id, "type": "function", "function": function})
            case generate.ToolResultPart(call_id=call_id, parts=parts):
                content = "\n".join(piece.text for piece in parts if isinstance(piece, generate.TextPart))
                yield {"role": "tool", "tool_call_id": call_id, "content": content}
    if texts or calls:
        thought = {"reasoning_content": "\n".join(reasoning)} if any(reasoning) else {}
        yield {
            "role": message.role,
            "content": "\n".join(texts),
            **thought,
            **({"tool_calls": calls} if calls else {}),
        }
