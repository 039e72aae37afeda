"""Agents for the terminal, each asked one thing in an empty folder, with nothing of the user's own settings."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# An MCP server with a tool that the model knows.
WEATHER_SERVER: dict[str, Any] = {
    "command": sys.executable,
    "args": ["-m", "tests.clients.weather_mcp"],
    "env": {"PYTHONPATH": str(ROOT)},
}


def answer_of(name: str, arguments: Sequence[str], home: Path, own: dict[str, str], seconds: float = 100) -> str:
    """Run an agent that npm installed, with variables of its own besides HOME, and return what it prints."""
    program = HERE / "node" / "node_modules" / ".bin" / name
    assert program.exists(), f"`make test-clients` installs {name}"
    (work := home / "work").mkdir(exist_ok=True)
    inherited = {variable: value for variable, value in os.environ.items() if not variable.startswith("XDG_")}
    run = subprocess.run(
        [str(program), *arguments],
        cwd=work,
        env=inherited | {"HOME": str(home), "PWD": str(work)} | own,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def blocks_of(events: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the content blocks of a type in the messages that Claude Code, or Qwen Code, prints."""
    contents = [event.get("message", {}).get("content", []) for event in events]
    return [block for content in contents if isinstance(content, list) for block in content if block["type"] == kind]
