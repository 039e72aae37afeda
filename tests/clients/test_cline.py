"""Cline's agent for the terminal, asked one thing, in each dialect that its providers speak.

Like test_qwen_code: its own tools are left out, and the model's tool comes from an MCP server.
"""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.clients.agents import ROOT, WEATHER_SERVER, answer_of, answer_through_orchard, own_folder
from tests.clients.prompts import ASK_WEATHER, WEATHER

PAGE = ROOT / "docs" / "clients.md"
OWN_TOOLS = ["editor", "read_files", "run_commands", "submit_and_exit"]


@pytest.mark.parametrize("provider", ["openai-compatible", "openai-native", "anthropic", None])
def test_a_tool_loop(url: str, keyed_url: str, tmp_path: Path, provider: str | None) -> None:
    folder = tmp_path / ".cline" if provider else own_folder("cline", tmp_path)
    (settings := folder / "data" / "settings").mkdir(parents=True)
    server = WEATHER_SERVER | {"timeout": 60}  # seconds; 3 are too few for its start on a busy machine
    (settings / "cline_mcp_settings.json").write_text(json.dumps({"mcpServers": {"home": server}}))
    switches = {"autoUpdateEnabled": False, "telemetryOptOut": True, "disabledTools": OWN_TOOLS}
    (settings / "global-settings.json").write_text(json.dumps(switches))
    # --yolo has the fewest tools of its own.
    arguments = ["--json", "--yolo", "--system", "Be brief.", ASK_WEATHER]
    if provider:
        own = {"CLINE_SESSION_BACKEND_MODE": "local"}  # else a process stays behind
        (command,) = re.findall(r"^\$ cline (auth .*)", PAGE.read_text(), re.MULTILINE)
        answer_of("cline", shlex.split(command.replace("http://127.0.0.1:8000", url)), tmp_path, own)
        saved = (file := settings / "providers.json").read_text()
        file.write_text(saved.replace("openai-compatible", provider))  # the command takes no base URL for Anthropic's
        printed = answer_of("cline", arguments, tmp_path, own)
    else:
        printed = answer_through_orchard("cline", arguments, keyed_url, tmp_path)
    *events, result = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    parts = [event["event"] for event in events if event["type"] == "agent_event"]
    call, answer = (part for part in parts if part["type"] == "content_end")
    assert (call["toolName"], call["output"]["content"][0]["text"]) == ("home__get_weather", WEATHER)
    assert answer["text"]
    assert (result["finishReason"], result["iterations"]) == ("completed", 2)
    assert result["usage"]["outputTokens"] > 0
    if provider is None:
        assert result["model"]["info"]["contextWindow"] == 32_768
