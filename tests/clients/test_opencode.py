"""opencode, a coding agent, asked one thing without a terminal, in each dialect that its providers speak.

Like test_qwen_code: its own tools are left out, and the model's tool comes from an MCP server.
"""

import json
from pathlib import Path

import pytest

from tests.clients.agents import NOWHERE, WEATHER_SERVER, answer_of, answer_through_orchard, own_folder
from tests.clients.prompts import ASK_WEATHER, WEATHER


def config(url: str, provider: str) -> dict[str, object]:
    server = {
        "type": "local",
        "command": [WEATHER_SERVER["command"], *WEATHER_SERVER["args"]],
        "environment": WEATHER_SERVER["env"],
        "enabled": True,
    }
    return {
        "model": "orchard/demo",
        "small_model": "orchard/demo",
        "autoupdate": False,
        "share": "disabled",
        "provider": {
            "orchard": {
                "npm": provider,
                "name": "Orchard",
                "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
                "models": {"demo": {"name": "demo", "limit": {"context": 32768, "output": 500}}},
            }
        },
        "agent": {"build": {"prompt": "Be brief.", "tools": {"*": False, "home_get_weather": True}}},
        "mcp": {"home": server},
    }


@pytest.mark.parametrize("provider", ["@ai-sdk/openai-compatible", "@ai-sdk/openai", "@ai-sdk/anthropic", None])
def test_a_tool_loop(url: str, keyed_url: str, tmp_path: Path, provider: str | None) -> None:
    arguments = ["run", "--format", "json", ASK_WEATHER]
    if provider:
        own = {"OPENCODE_CONFIG_CONTENT": json.dumps(config(url, provider))}
        printed = answer_of("opencode", arguments, tmp_path, own)
    else:
        file = own_folder("opencode", tmp_path) / "opencode.json"
        file.write_text(json.dumps(config(NOWHERE, "@ai-sdk/anthropic")))
        printed = answer_through_orchard("opencode", arguments, keyed_url, tmp_path)
    parts = [json.loads(line).get("part", {}) for line in printed.splitlines() if line.startswith("{")]
    calls = [part["state"] for part in parts if part.get("type") == "tool"]
    assert calls
    # The agent's prompt has today's date, which the demo model may take for a city: what it asks for isn't looked at.
    assert all((call["status"], call["output"]) == ("completed", WEATHER) for call in calls)
    ends = [part for part in parts if part.get("type") == "step-finish"]
    assert (ends[0]["reason"], ends[-1]["reason"]) == ("tool-calls", "stop")
    assert all(end["tokens"]["output"] > 0 for end in ends)
    assert "".join(part["text"] for part in parts if part.get("type") == "text")
