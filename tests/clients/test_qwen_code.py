"""Qwen Code, a coding agent, asked one thing without a terminal: it offers a tool, runs the call and sends the result.

The demo model can't code. The agent's own tools are left out, as the model would lose itself in their descriptions,
and it gets one that the model knows, from an MCP server.
"""

import json
from pathlib import Path

import pytest

from tests.clients.agents import WEATHER_SERVER, answer_of, answer_through_orchard, blocks_of
from tests.clients.prompts import ASK_WEATHER

OWN_TOOLS = ("edit", "get_goal", "notebook_edit", "read_file", "run_shell_command", "update_goal")


@pytest.mark.parametrize(
    ("dialect", "variables"),
    [
        ("openai", {"OPENAI_BASE_URL": "{}/v1", "OPENAI_MODEL": "demo", "OPENAI_API_KEY": "none"}),
        ("openai-responses", {"OPENAI_BASE_URL": "{}/v1", "OPENAI_MODEL": "demo", "OPENAI_API_KEY": "none"}),
        ("anthropic", {"ANTHROPIC_BASE_URL": "{}", "ANTHROPIC_MODEL": "demo", "ANTHROPIC_API_KEY": "none"}),
        (None, {}),
    ],
)
def test_a_tool_loop(url: str, keyed_url: str, tmp_path: Path, dialect: str | None, variables: dict[str, str]) -> None:
    config = json.dumps({"mcpServers": {"home": WEATHER_SERVER}})
    arguments = ["--bare", "--yolo", "--output-format", "json"]
    arguments += ["--system-prompt", "Be brief.", "--mcp-config", config, "--max-session-turns", "4"]
    arguments += ["--exclude-tools", *OWN_TOOLS, "--prompt", ASK_WEATHER]
    if dialect:
        own = {name: value.format(url) for name, value in variables.items()} | {"QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"}
        printed = answer_of("qwen", ["--auth-type", dialect, "--model", "demo", *arguments], tmp_path, own)
    else:
        printed = answer_through_orchard("qwen", arguments, keyed_url, tmp_path)
    *events, result = json.loads(printed)
    calls, told = blocks_of(events, "tool_use"), blocks_of(events, "tool_result")
    assert {(call["name"], call["input"]["city"]) for call in calls} == {("mcp__home__get_weather", "Paris")}
    assert [block["tool_use_id"] for block in told] == [call["id"] for call in calls]
    assert not any(block["is_error"] for block in told)
    assert (result["subtype"], result["num_turns"]) == ("success", 2)
    assert "21" in result["result"]
    assert result["usage"]["output_tokens"] > 0
