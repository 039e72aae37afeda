"""Codex, a coding agent that speaks Responses, asked one thing without a terminal.

Like test_qwen_code: its own tools are left out as far as they can be, and the model's tool comes from an MCP server,
whose tools Codex offers in a namespace.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.clients.prompts import ASK_WEATHER

HERE = Path(__file__).parent
CODEX = HERE / "node" / "node_modules" / ".bin" / "codex"
CONFIG = """
model = "demo"
model_provider = "orchard"
model_instructions_file = "{home}/instructions.md"
include_apps_instructions = false
include_environment_context = false
include_permissions_instructions = false
web_search = "disabled"
[agents]
enabled = false
[features]
apps = false
deferred_tool_world_state = false
goals = false
plugins = false
shell_tool = false
tool_search_always_defer_mcp_tools = false
unified_exec = false
view_image = false
[skills]
include_instructions = false
[skills.bundled]
enabled = false
[mcp_servers.home]
required = true  # else the first request may go out before it is there
command = "{python}"
args = ["-m", "tests.clients.weather_mcp"]
env = {{ PYTHONPATH = "{root}" }}
[model_providers.orchard]
name = "Orchard"
base_url = "{url}/v1"
wire_api = "responses"
"""


def test_a_tool_loop(url: str, tmp_path: Path) -> None:
    assert CODEX.exists(), "`make test-clients` installs Codex"
    config = CONFIG.format(home=tmp_path, python=sys.executable, root=HERE.parents[1], url=url)
    (tmp_path / "config.toml").write_text(config)
    (tmp_path / "instructions.md").write_text("Be brief.")
    (tmp_path / "work").mkdir()
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
    run = subprocess.run(
        [str(CODEX), "exec", *options, ASK_WEATHER],
        cwd=tmp_path / "work",
        env=os.environ | {"CODEX_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    events = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    call, answer = (item for item in items if item["type"] in ("mcp_tool_call", "agent_message"))
    assert (call["tool"], call["arguments"], call["status"]) == ("get_weather", {"city": "Paris"}, "completed")
    assert answer["text"]
    (ended,) = (event for event in events if event["type"] == "turn.completed")
    assert ended["usage"]["output_tokens"] > 0
