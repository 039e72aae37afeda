"""`orchard agent` with a program of the tests in an agent's place. tests/clients has the real agents."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchard.cli.agents.profiles import AGENTS, Target
from orchard.cli.agents.start import list_agents
from orchard.cli.endpoint import ModelCard
from tests.support.command import clean, orchard, refused
from tests.support.serving import FAKE, Server, serve

# Tells what it was started with, and then, if its last argument says so, waits for a signal.
PROGRAM = """#!{python}
import json, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print(json.dumps([sys.argv[1:], dict(os.environ)]), flush=True)
if sys.argv[-1] == "wait":
    signal.pause()
sys.exit(3)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve([replace(FAKE, capabilities=("tools",))]) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with a folder `bin`, in which every agent is installed."""
    (programs := tmp_path / "bin").mkdir()
    for agent in AGENTS.values():
        (program := programs / agent.program).write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o755)
    return tmp_path


def variables(home: Path, **others: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": str(home / "bin"), **others}


def run(home: Path, *args: str, **others: str) -> tuple[int, list[str], dict[str, str]]:
    """Run a command with an agent; give its exit code and the agent's arguments and variables."""
    done = subprocess.run(
        [sys.executable, "-m", "orchard", *args],
        env=clean(**variables(home, **others)),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.stdout, done.stderr
    arguments, seen = json.loads(done.stdout)
    return done.returncode, arguments, seen


def test_the_list_says_what_is_installed_and_how_the_others_are(home: Path) -> None:
    (home / "bin" / "pi").unlink()
    lines = {line.split()[0]: line for line in orchard("agent", **variables(home)).stdout.splitlines()}
    assert lines.keys() == AGENTS.keys()
    assert lines["claude"].split()[1:] == ["Claude", "Code", str(home / "bin" / "claude")]
    assert lines["pi"].rstrip().endswith(f"to install: {AGENTS['pi'].installation}")


def test_a_narrow_terminal_shows_whole_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    list_agents()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    text = "".join(line[23:].strip() for line in lines)  # the last column
    assert AGENTS["pi"].installation.replace(" ", "") in text.replace(" ", "")


def test_an_agent_gets_its_variables_and_arguments_and_gives_its_exit_code(home: Path, server: Server) -> None:
    users = {"ANTHROPIC_API_KEY": "x", "CLAUDE_CODE_USE_BEDROCK": "1", "EDITOR": "vi"}
    url = ["--url", server.url]
    code, arguments, seen = run(home, "agent", "claude", *url, "--", "-p", "--model", "x", "hi", **users)
    assert (code, arguments) == (3, ["-p", "--model", "x", "hi"])
    assert (seen["ANTHROPIC_BASE_URL"], seen["ANTHROPIC_MODEL"]) == (server.url, FAKE.id)
    assert seen["EDITOR"] == "vi"
    assert not {"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK"} & seen.keys()
    folder = home / ".orchard" / "agents" / "claude"
    assert seen["CLAUDE_CONFIG_DIR"] == str(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / ".claude.json").stat().st_mode) == 0o600


def test_what_the_agent_wrote_into_its_files_stays(home: Path, server: Server) -> None:
    (folder := home / ".orchard" / "agents" / "pi").mkdir(parents=True)
    (folder / "settings.json").write_text('{"theme": "dark", "defaultModel": "old"}')
    run(home, "agent", "pi", "--url", server.url)
    assert json.loads((folder / "settings.json").read_text()) == {
        "theme": "dark",
        "defaultProvider": "orchard",
        "defaultModel": FAKE.id,
    }
    (folder / "settings.json").write_text("{")
    done = orchard("agent", "pi", "--url", server.url, **variables(home))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{folder / 'settings.json'} can't be changed" in done.stderr
    assert (folder / "settings.json").read_text() == "{"


def test_launch_starts_agents_and_serves_models(home: Path, server: Server) -> None:
    assert run(home, "launch", "claude", "--url", server.url)[2]["ANTHROPIC_MODEL"] == FAKE.id
    assert "no model 'nonsuch'" in refused(orchard("launch", "nonsuch"))
    assert "serve" in orchard("launch", "--help").stdout


def test_without_a_server_one_is_started_with_the_model(home: Path) -> None:
    _, _, seen = run(home, "agent", "claude", "--model", "demo", ORCHARD_PORT="1")
    assert seen["ANTHROPIC_MODEL"] == "demo"
    assert seen["ANTHROPIC_BASE_URL"].startswith("http://127.0.0.1:")
    assert len(seen["ANTHROPIC_AUTH_TOKEN"]) > 20
    assert seen["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "32768"


def test_a_dry_run_shows_everything_but_the_key_and_writes_nothing(home: Path, server: Server) -> None:
    (home / "bin" / "cline").unlink()
    args = ["agent", "cline", "--dry-run", "--url", server.url, "--api-key", "secret'key", "--", "a b"]
    shown = orchard(*args, **variables(home)).stdout
    folder = home / ".orchard" / "agents" / "cline"
    assert f"export CLINE_DIR={folder}" in shown
    assert f"# {folder / 'data' / 'settings' / 'providers.json'}" in shown
    assert '"apiKey": "***"' in shown
    assert "secret" not in shown
    assert shown.splitlines()[-1] == "cline 'a b'"
    assert not folder.exists()


def test_a_dry_run_needs_no_server(home: Path) -> None:
    shown = orchard("agent", "goose", "--dry-run", **variables(home, ORCHARD_PORT="1", HF_HUB_CACHE=str(home))).stdout
    assert "export GOOSE_MODEL=demo" in shown
    assert "export OPENAI_BASE_URL=http://127.0.0.1:PORT/v1" in shown
    assert "export GOOSE_CONTEXT_LIMIT=32768" in shown


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["nonsuch"], "there is no agent 'nonsuch'; the agents are claude, codex,"),
        (["goose"], "Goose is not installed: see https://"),
        (["claude", "--model", "nonsuch"], "no model 'nonsuch'"),
        (["claude", "--model", "demo-whisper"], "Claude Code needs a model that can call tools; 'demo-whisper' can't"),
        (["claude", "--url", "http://127.0.0.1:1"], "no server answers at http://127.0.0.1:1"),
    ],
)
def test_what_cannot_be_started_says_why(home: Path, args: list[str], why: str) -> None:
    (home / "bin" / "goose").unlink()
    assert why in refused(orchard("agent", *args, **variables(home, ORCHARD_PORT="1")))


def test_a_signal_that_asks_orchard_to_end_reaches_the_agent(home: Path, server: Server) -> None:
    command = [sys.executable, "-m", "orchard", "agent", "claude", "--url", server.url, "--", "wait"]
    with subprocess.Popen(command, env=clean(**variables(home)), stdout=subprocess.PIPE, start_new_session=True) as own:
        assert own.stdout
        assert own.stdout.readline()
        os.killpg(own.pid, signal.SIGINT)  # as a terminal does: the agent takes it as it likes
        own.send_signal(signal.SIGTERM)
        assert own.wait(20) == 7


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_gets_the_address_the_model_and_its_context_window(name: str, tmp_path: Path) -> None:
    model = ModelCard("org/model", 123_456, ["tools", "thinking", "vision"])
    profile = AGENTS[name].profile(Target("http://h:1", "the-key", model, tmp_path))
    texts = [*profile.variables.values(), *profile.arguments, json.dumps(profile.files)]
    for needed in ("http://h:1", "the-key", "org/model", "123456", str(tmp_path)):
        assert any(needed in text for text in texts), needed
    unknown = AGENTS[name].profile(Target("http://h:1", "the-key", ModelCard("org/model"), tmp_path))
    assert not set(numbers_of([*unknown.files.values()]))


def numbers_of(value: Any) -> Iterator[int]:
    """The numbers of tokens in a file."""
    if isinstance(value, int) and value > 1:
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers_of(inner)
