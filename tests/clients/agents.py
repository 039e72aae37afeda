"""Agents for the terminal, each asked one thing in an empty folder, with nothing of the user's own settings."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BIN = HERE / "node" / "node_modules" / ".bin"
# An MCP server with a tool that the model knows.
WEATHER_SERVER: dict[str, Any] = {
    "command": sys.executable,
    "args": ["-m", "tests.clients.weather_mcp"],
    "env": {"PYTHONPATH": str(ROOT)},
}


KEY = "the-key"  # of the server of `keyed_url`
NOWHERE = "http://127.0.0.1:9"
# A user's own configuration of each agent, by its path in the home folder, and variables.
USERS_FILES: dict[str, Any] = {
    ".claude/settings.json": {"env": {"ANTHROPIC_BASE_URL": NOWHERE, "ANTHROPIC_MODEL": "other"}},
    ".claude.json": {"numStartups": 5},
    ".codex/config.toml": f"""
        model = "other"
        model_provider = "other"
        [model_providers.other]
        name = "Other"
        base_url = "{NOWHERE}/v1"
        wire_api = "responses"
    """,
    ".config/opencode/opencode.json": {
        "$schema": "https://opencode.ai/config.json",  # opencode adds it wherever it is missing
        "model": "other/other",
        "provider": {
            "other": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": NOWHERE, "apiKey": "x"},
                "models": {"other": {}},
            }
        },
    },
    ".qwen/settings.json": {"security": {"auth": {"selectedType": "anthropic"}}, "model": {"name": "other"}},
    ".cline/data/settings/providers.json": {
        "version": 1,
        "lastUsedProvider": "anthropic",
        "modes": {},
        "providers": {"anthropic": {"settings": {"provider": "anthropic", "apiKey": "x", "model": "other"}}},
    },
    ".continue/config.yaml": {
        "name": "Other",
        "version": "1.0.0",
        "schema": "v1",
        "models": [{"name": "other", "provider": "openai", "model": "other", "apiBase": NOWHERE}],
    },
    ".aider.conf.yml": {"model": "openai/other", "openai-api-base": NOWHERE},
    ".pi/agent/settings.json": {"defaultProvider": "openai", "defaultModel": "other"},
}
USERS_VARIABLES = dict.fromkeys(("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"), NOWHERE)


def answer_of(name: str, arguments: Sequence[str], home: Path, own: dict[str, str], seconds: float = 100) -> str:
    """Run an agent that npm installed, with variables of its own besides HOME, and return what it prints."""
    program = BIN / name
    assert program.exists(), f"`make test-clients` installs {name}"
    return _printed([str(program), *arguments], home, own, seconds)


def answer_through_orchard(name: str, arguments: Sequence[str], url: str, home: Path) -> str:
    """Run `orchard agent`, with a server that needs KEY, for a user who has configured the agents. Return its output.

    The user's configuration leads the agent nowhere, and is not changed. The test may have put files into `own_folder`.
    """
    if not shutil.which("node"):
        pytest.skip("Node is missing")
    for path, content in USERS_FILES.items():
        (file := home / path).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    before = {path: (home / path).read_bytes() for path in USERS_FILES}
    paths = os.pathsep.join([str(BIN), str(Path(os.environ.get("AIDER", "")).parent), os.environ["PATH"]])
    options = ["--url", url, "--api-key", KEY, "--model", "demo"]
    command = [os.environ.get("ORCHARD", "orchard"), "agent", name, *options, "--", *arguments]
    printed = _printed(command, home, USERS_VARIABLES | {"PATH": paths}, 100)
    assert {path: (home / path).read_bytes() for path in USERS_FILES} == before
    return printed


def own_folder(name: str, home: Path) -> Path:
    """Make the folder that an agent gets from `orchard agent`."""
    (folder := home / ".orchard" / "agents" / name).mkdir(parents=True)
    return folder


def _printed(command: Sequence[str], home: Path, own: dict[str, str], seconds: float) -> str:
    (work := home / "work").mkdir(exist_ok=True)
    inherited = {variable: value for variable, value in os.environ.items() if not variable.startswith("XDG_")}
    with subprocess.Popen(
        command,
        cwd=work,
        env=inherited | {"HOME": str(home), "PWD": str(work)} | own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # an agent may be a child of `orchard`
            raise
    assert process.returncode == 0, out + err
    return out


def blocks_of(events: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the content blocks of a type in the messages that Claude Code, or Qwen Code, prints."""
    contents = [event.get("message", {}).get("content", []) for event in events]
    return [block for content in contents if isinstance(content, list) for block in content if block["type"] == kind]
