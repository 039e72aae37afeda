"""What the model that agents are recorded with answers, in each agent's dialect and with its tools."""

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.agents_recorder import Edit, Model, Read, Run, Task, call_of, make_script, serve
from benchmarks.agents_texts import Writer

CLAUDE, CODEX, OPENCODE = ("Read", "Edit", "Bash"), ("exec_command", "write_stdin"), ("read", "edit", "bash")


@pytest.mark.parametrize(
    ("tools", "calls"),
    [
        (
            CLAUDE,
            [
                ("Read", {"file_path": "/project/a.py"}),
                ("Edit", {"file_path": "/project/a.py", "old_string": "a\nb", "new_string": "c"}),
                ("Bash", {"command": "ls"}),
            ],
        ),
        (
            OPENCODE,
            [
                ("read", {"filePath": "/project/a.py"}),
                ("edit", {"filePath": "/project/a.py", "oldString": "a\nb", "newString": "c"}),
                ("bash", {"command": "ls"}),
            ],
        ),
        (
            CODEX,
            [
                ("exec_command", {"cmd": "cat a.py"}),
                (
                    "exec_command",
                    {
                        "cmd": "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.py\n@@\n-a\n-b\n+c\n"
                        "*** End Patch\nEOF"
                    },
                ),
                ("exec_command", {"cmd": "ls"}),
            ],
        ),
    ],
)
def test_each_agent_is_asked_with_its_own_tools(
    tools: tuple[str, ...], calls: list[tuple[str, dict[str, Any]]]
) -> None:
    steps = (Read("a.py"), Edit("a.py", "a\nb", "c"), Run("ls"))
    assert [call_of(step, tools, Path("/project")) for step in steps] == calls


def test_the_script_can_be_played(tmp_path: Path) -> None:
    tasks = make_script(tmp_path, Writer("0"))
    steps = [step for task in tasks for step in task.steps]
    assert len(steps) >= 15
    for step in steps:
        match step:
            case Edit(path, old, new):
                text = (tmp_path / path).read_text()
                assert text.count(old) == 1
                (tmp_path / path).write_text(text.replace(old, new))
            case Read(path):
                assert 1500 < len((tmp_path / path).read_text()) < 9000
            case Run(command):
                done = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, check=True)
                assert done.stdout


def tool(path: str, name: str) -> dict[str, Any]:
    """A tool as the dialect of a path has it."""
    match path:
        case "/v1/messages":
            return {"name": name, "input_schema": {"type": "object"}}
        case "/v1/responses":
            return {"type": "function", "name": name, "parameters": {"type": "object"}}
        case _:
            return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("path", "tools", "call"),
    [
        ("/v1/messages", CLAUDE, '"name":"Bash"'),
        ("/v1/responses", CODEX, '"name":"exec_command"'),
        ("/v1/chat/completions", OPENCODE, '"name":"bash"'),
    ],
)
def test_requests_are_recorded_and_answered(path: str, tools: tuple[str, ...], call: str, tmp_path: Path) -> None:
    recorded = tmp_path / "agent.jsonl"
    model = Model([Task("Look.", [Run("ls -la")])], tmp_path, Writer("0"), recorded)
    turn = {"role": "user", "content": "Look."}
    body = {"model": "demo", "stream": True, "tools": [tool(path, name) for name in tools]}
    body |= {"input": [turn]} if path == "/v1/responses" else {"messages": [turn], "max_tokens": 9}
    with serve(model.answer) as url:
        answered = httpx.post(f"{url}{path}?beta=true", json=body).text
        model.allowed_calls = 1
        called = httpx.post(url + path, json=body).text
        title = httpx.post(url + path, json=body | {"tools": []}).text
    assert "ls -la" not in answered
    assert call in called
    assert "ls -la" in called
    assert "A session" in title
    assert [json.loads(line) for line in recorded.read_text().splitlines()] == [{"path": path, "body": body}] * 2
    assert len(model.sizes) == 2
