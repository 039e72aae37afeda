"""Codex, a coding agent that speaks Responses, asked one thing without a terminal.

Like test_qwen_code: its own tools are left out as far as they can be, and the model's tool comes from an MCP server,
whose tools Codex offers in a namespace.
"""

import json
import sys
from pathlib import Path

from tests.clients.agents import ROOT, answer_of
from tests.clients.prompts import ASK_WEATHER

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
    config = CONFIG.format(home=tmp_path, python=sys.executable, root=ROOT, url=url)
    (tmp_path / "config.toml").write_text(config)
    (tmp_path / "instructions.md").write_text("Be brief.")
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
    printed = answer_of("codex", ["exec", *options, ASK_WEATHER], tmp_path, {"CODEX_HOME": str(tmp_path)})
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    call, answer = (item for item in items if item["type"] in ("mcp_tool_call", "agent_message"))
    assert (call["tool"], call["arguments"], call["status"]) == ("get_weather", {"city": "Paris"}, "completed")
    assert answer["text"]
    (ended,) = (event for event in events if event["type"] == "turn.completed")
    assert ended["usage"]["output_tokens"] > 0
