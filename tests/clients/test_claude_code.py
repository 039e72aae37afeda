"""Claude Code, a coding agent that speaks Anthropic's Messages, asked one thing without a terminal.

Like test_qwen_code: its own tools are left out, and the model's tool comes from an MCP server.
"""

import json
from pathlib import Path

import pytest

from tests.clients.agents import WEATHER_SERVER, answer_of, answer_through_orchard, blocks_of
from tests.clients.prompts import ASK_WEATHER, WEATHER

TOOL = "mcp__home__get_weather"


@pytest.mark.parametrize("through_orchard", [False, True])
def test_a_tool_loop(url: str, keyed_url: str, tmp_path: Path, through_orchard: bool) -> None:
    arguments = [ASK_WEATHER, "--print", "--output-format", "json", "--verbose", "--bare", "--tools", ""]
    arguments += ["--system-prompt", "Be brief.", "--mcp-config", json.dumps({"mcpServers": {"home": WEATHER_SERVER}})]
    arguments += ["--allowedTools", TOOL, "--max-turns", "4"]
    models = dict.fromkeys(("ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"), "demo")
    own = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    if through_orchard:
        printed = answer_through_orchard("claude", arguments, keyed_url, tmp_path)
    else:
        printed = answer_of("claude", arguments, tmp_path, models | own)
    *events, result = json.loads(printed)
    (call,) = blocks_of(events, "tool_use")
    assert (call["name"], call["input"]) == (TOOL, {"city": "Paris"})
    (told,) = blocks_of(events, "tool_result")
    assert (told["tool_use_id"], told.get("is_error", False)) == (call["id"], False)
    assert WEATHER in json.dumps(told["content"])
    assert (result["subtype"], result["num_turns"]) == ("success", 2)
    assert "21" in result["result"]
    assert result["usage"]["output_tokens"] > 0
