"""What the checks ask: fixed texts of several lengths, none of them the user's."""

from typing import Any


def numbered_lines(count: int) -> str:
    """Return lines that all differ."""
    things = ("apple", "river", "stone", "window", "garden", "letter", "music", "paper", "lamp", "bridge", "cloud")
    return "\n".join(
        f"{number}. The {things[number % len(things)]} number {number * 7 % 101} is beside the "
        f"{things[number * 3 % len(things)]}."
        for number in range(1, count + 1)
    )


def _user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


CHATS = [
    _user("What is 17 + 25?"),
    _user("Name three fruits, and say which colour each of them has."),
    _user(f"Repeat the third line.\n{numbered_lines(8)}"),
    _user(f"Which line has the largest number?\n{numbered_lines(28)}"),
]
QUESTION = "What do you see?"
"""About pictures."""
SEEDS = (11, 12, 13)
HOT = 2.0
"""The temperature of seeded answers."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome", "Oslo"]}, "count": {"type": "integer", "maximum": 99}},
    "required": ["city", "count"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
TOOL_CHAT = _user("What is the weather in Paris? Use the tool.")
