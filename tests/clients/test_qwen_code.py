"""Qwen Code, a coding agent, asked one thing without a terminal: it offers a tool, runs the call and sends the result.

The demo model can't code. The agent's own tools are left out, as the model would lose itself in their descriptions,
and it gets one that the model knows, from an MCP server.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients.prompts import ASK_WEATHER

HERE = Path(__file__).parent
QWEN = HERE / "node" / "node_modules" / ".bin" / "qwen"
OWN_TOOLS = ("edit", "get_goal", "notebook_edit", "read_file", "run_shell_command", "update_goal")
SERVER = {
    "command": sys.executable,
    "args": ["-m", "tests.clients.weather_mcp"],
    "env": {"PYTHONPATH": str(HERE.parents[1])},
}


@pytest.mark.parametrize(
    ("dialect", "variables"),
    [
        ("openai", {"OPENAI_BASE_URL": "{}/v1", "OPENAI_MODEL": "demo", "OPENAI_API_KEY": "none"}),
        ("openai-responses", {"OPENAI_BASE_URL": "{}/v1", "OPENAI_MODEL": "demo", "OPENAI_API_KEY": "none"}),
        ("anthropic", {"ANTHROPIC_BASE_URL": "{}", "ANTHROPIC_MODEL": "demo", "ANTHROPIC_API_KEY": "none"}),
    ],
)
def test_a_tool_loop(url: str, tmp_path: Path, dialect: str, variables: dict[str, str]) -> None:
    assert QWEN.exists(), "`make test-clients` installs Qwen Code"
    (tmp_path / "work").mkdir()
    config = json.dumps({"mcpServers": {"home": SERVER}})
    command = [str(QWEN), "--bare", "--auth-type", dialect, "--model", "demo", "--yolo", "--output-format", "json"]
    command += ["--system-prompt", "Be brief.", "--mcp-config", config, "--max-session-turns", "4"]
    command += ["--exclude-tools", *OWN_TOOLS, "--prompt", ASK_WEATHER]
    known = {name: value.format(url) for name, value in variables.items()}
    environment = os.environ | known | {"HOME": str(tmp_path), "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"}
    work = tmp_path / "work"
    run = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    *events, result = json.loads(run.stdout)
    blocks = [block for event in events for block in _blocks(event)]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    assert {(call["name"], call["input"]["city"]) for call in calls} == {("mcp__home__get_weather", "Paris")}
    told = [block for block in blocks if block["type"] == "tool_result"]
    assert [block["tool_use_id"] for block in told] == [call["id"] for call in calls]
    assert not any(block["is_error"] for block in told)
    assert (result["subtype"], result["num_turns"]) == ("success", 2)
    assert "21" in result["result"]
    assert result["usage"]["output_tokens"] > 0


def _blocks(event: dict[str, Any]) -> list[dict[str, Any]]:
    content = event.get("message", {}).get("content", [])
    return content if isinstance(content, list) else []
