"""Pi, a coding agent, asked one thing without a terminal. It gets none of its tools: the demo model can't code."""

import json
from pathlib import Path

from tests.clients.agents import answer_through_orchard
from tests.clients.prompts import SUM


def test_an_answer(keyed_url: str, tmp_path: Path) -> None:
    arguments = ["--mode", "json", "--no-tools", "--system-prompt", "Be brief.", SUM]
    events = [json.loads(line) for line in answer_through_orchard("pi", arguments, keyed_url, tmp_path).splitlines()]
    *_, answer = (event["message"] for event in events if event["type"] == "message_end")
    assert (answer["provider"], answer["model"], answer["stopReason"]) == ("orchard", "demo", "stop")
    assert "42" in answer["content"][-1]["text"]
    assert answer["usage"]["output"] > 0
