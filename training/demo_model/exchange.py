"""The unit that skills make and conversations are built from: one exchange."""

from dataclasses import dataclass, field

from demo_model.template import Message, Tool


@dataclass(slots=True)
class Exchange:
    """A user's request with the model's answer, and whatever belongs between the two.

    ``messages`` starts with a user turn. Every assistant turn carries ``reasoning_content``, the thought it shows
    when thinking is on. ``tools`` are the tools it needs; ``topic`` keeps two exchanges that would contradict each
    other out of one conversation (a sum answered in the head, and a calculator tool). ``judged`` says how many of
    the assistant's turns, counted from the end, evaluation asks the model for.
    """

    messages: list[Message]
    tools: list[Tool] = field(default_factory=list)
    topic: str = ""
    judged: int = 1


def user(text: str) -> Message:
    """Make a user turn."""
    return {"role": "user", "content": text}


def assistant(text: str, thought: str, calls: list[Message] | None = None) -> Message:
    """Make an assistant turn with the thought that precedes it, and tool calls if any."""
    message: Message = {"role": "assistant", "content": text, "reasoning_content": thought}
    if calls:
        message["tool_calls"] = calls
    return message
