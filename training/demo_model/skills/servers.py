"""Names of tools as servers and programs give them: with the server's name before them, with dots or hyphens in them.

A tool's name is copied letter by letter, so each way to write one must have been met: ``github__create_issue``,
``mcp__files__read``, ``light.turn_on``, ``get-order``, ``weather_now`` beside ``weather_alerts``.
"""

# ruff: noqa: SIM905 - lists read best unbroken

import re
from random import Random

from demo_model.template import Message, Tool
from demo_model.text import NOUNS, choose, coin

_SERVERS = (
    "github gitlab slack notion jira linear filesystem postgres sqlite browser playwright gmail calendar spotify "
    "shopify stripe weather maps memory search home hass aws k8s docker figma sentry zendesk hubspot discord time "
    "fetch drive mail crm shop db files media user system agent functions api assistant data my_server tools app"
).split()
_SEPARATORS = ("__", "__", "__", ".", ".", "_", "_", "-", "/", ":")


def _server(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.6:
        return choose(rng, _SERVERS)
    return choose(rng, NOUNS) if kind < 0.85 else coin(rng, 2)


def _lined(name: str) -> str:
    """Write a name in small letters with a hyphen between its words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()


def _new_names(rng: Random, names: list[str]) -> dict[str, str]:
    """Name tools after one or two servers, or write their words with hyphens."""
    separator = choose(rng, _SEPARATORS)
    servers = [_server(rng) for _ in range(choose(rng, (1, 1, 1, 2)))]
    outer = "mcp__" if separator == "__" and rng.random() < 0.4 else ""
    hyphens = separator == "-" or rng.random() < 0.15
    bare = hyphens and rng.random() < 0.6
    found = {}
    for name in names:
        written = _lined(name) if hyphens else name
        found[name] = written if bare else f"{outer}{choose(rng, servers)}{separator}{written}"
    return found


_THOUGHT = re.compile(r"(?<= )[\w-]+(?=\.$| and )")


def renamed(rng: Random, messages: list[Message], tools: list[Tool]) -> None:
    """Give all tools of a conversation names of servers, wherever they stand, unless somebody says one of them."""
    names = [tool["function"]["name"] for tool in tools]
    said = " ".join(message["content"] for message in messages if message["role"] == "user").lower()
    if any(name.lower() in said for name in names if re.search("_|[a-z][A-Z]", name)):
        return
    found = _new_names(rng, names)
    if len(set(found.values())) < len(found):
        return
    for tool in tools:
        tool["function"]["name"] = found[tool["function"]["name"]]
    for message in messages:
        calls = message.get("tool_calls", ())
        thought = message.get("reasoning_content", "")
        for call in calls:
            old = call["function"]["name"]
            call["function"]["name"] = found.get(old, old)
        if calls:
            thought = _THOUGHT.sub(lambda name: found.get(name[0], name[0]), thought)
        if thought:
            message["reasoning_content"] = thought
