"""Codex, a coding agent that speaks Responses, asked one thing without a terminal.

Like test_qwen_code: its own tools are left out as far as they can be, and the model's tool comes from an MCP server,
whose tools Codex offers in a namespace.
"""

import json
import sys
from pathlib import Path

import pytest

from tests.clients.agents import NOWHERE, ROOT, answer_of, answer_through_orchard, own_folder
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


@pytest.mark.parametrize("through_orchard", [False, True])
def test_a_tool_loop(url: str, keyed_url: str, tmp_path: Path, through_orchard: bool) -> None:
    folder = own_folder("codex", tmp_path)
    address = NOWHERE if through_orchard else url
    (folder / "config.toml").write_text(CONFIG.format(home=folder, python=sys.executable, root=ROOT, url=address))
    (folder / "instructions.md").write_text("Be brief.")
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
    arguments = ["exec", *options, ASK_WEATHER]
    if through_orchard:
        printed = answer_through_orchard("codex", arguments, keyed_url, tmp_path)
    else:
        printed = answer_of("codex", arguments, tmp_path, {"CODEX_HOME": str(folder)})
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    call, answer = (item for item in items if item["type"] in ("mcp_tool_call", "agent_message"))
    assert (call["tool"], call["arguments"], call["status"]) == ("get_weather", {"city": "Paris"}, "completed")
    assert answer["text"]
    (ended,) = (event for event in events if event["type"] == "turn.completed")
    assert ended["usage"]["output_tokens"] > 0
