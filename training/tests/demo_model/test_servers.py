"""Names that servers give: the same wherever a tool stands, and none where somebody says the old one."""

from random import Random

from demo_model import data
from demo_model.skills import servers, tools


def test_a_call_has_the_name_of_its_tool() -> None:
    names = set()
    for conversation in data.training_conversations(3, 0, 1500):
        offered = {tool["function"]["name"] for tool in conversation.tools}
        called = {call["function"]["name"] for one in conversation.messages for call in one.get("tool_calls", ())}
        assert called <= offered
        names |= called
    assert all(sum(mark in name for name in names) > 3 for mark in ("__", ".", "-", "mcp__"))


def test_a_thought_has_the_new_name_and_said_names_stay() -> None:
    rng = Random(1)
    kept = 0
    for _ in range(300):
        made = tools.make(rng, "held")
        old = made.tools[0]["function"]["name"]
        servers.renamed(rng, made.messages, made.tools)
        kept += made.tools[0]["function"]["name"] == old
        for message in made.messages:
            for call in message.get("tool_calls", ()):
                assert call["function"]["name"] in message["reasoning_content"]
    assert 0 < kept < 100
