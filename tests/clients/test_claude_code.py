"""Claude Code, a coding agent that speaks Anthropic's Messages, asked one thing without a terminal.

Like test_qwen_code: its own tools are left out, and the model's tool comes from an MCP server.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.clients.prompts import ASK_WEATHER, WEATHER

HERE = Path(__file__).parent
CLAUDE = HERE / "node" / "node_modules" / ".bin" / "claude"
TOOL = "mcp__home__get_weather"
SERVER = {
    "command": sys.executable,
    "args": ["-m", "tests.clients.weather_mcp"],
    "env": {"PYTHONPATH": str(HERE.parents[1])},
}


def test_a_tool_loop(url: str, tmp_path: Path) -> None:
    assert CLAUDE.exists(), "`make test-clients` installs Claude Code"
    (work := tmp_path / "work").mkdir()
    command = [str(CLAUDE), ASK_WEATHER, "--print", "--output-format", "json", "--verbose", "--bare", "--tools", ""]
    command += ["--system-prompt", "Be brief.", "--mcp-config", json.dumps({"mcpServers": {"home": SERVER}})]
    command += ["--allowedTools", TOOL, "--max-turns", "4"]
    models = dict.fromkeys(("ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"), "demo")
    own = {"HOME": str(tmp_path), "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    run = subprocess.run(
        command,
        cwd=work,
        env=os.environ | models | own | quiet,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    *events, result = json.loads(run.stdout)
    blocks = [block for event in events for block in _blocks(event)]
    (call,) = [block for block in blocks if block["type"] == "tool_use"]
    assert (call["name"], call["input"]) == (TOOL, {"city": "Paris"})
    (told,) = [block for block in blocks if block["type"] == "tool_result"]
    assert (told["tool_use_id"], told.get("is_error", False)) == (call["id"], False)
    assert WEATHER in json.dumps(told["content"])
    assert (result["subtype"], result["num_turns"]) == ("success", 2)
    assert "21" in result["result"]
    assert result["usage"]["output_tokens"] > 0


def _blocks(event: dict[str, Any]) -> list[dict[str, Any]]:
    content = event.get("message", {}).get("content", [])
    return content if isinstance(content, list) else []
