"""`orchard agent`: list the agents, or start one with a model of a server that runs or of one of its own."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchard.cli.agents.profiles import AGENTS, Agent, Profile, Target
from orchard.cli.config import gather_config
from orchard.cli.endpoint import ChatClient, ModelCard, ServerError
from orchard.cli.models.pull import fetch_missing
from orchard.cli.own_server import open_server
from orchard.cli.serve import local_url
from orchard.cli.settings.values import printable_text
from orchard.cli.word_wrap import print_line
from orchard.core.errors import OrchardError
from orchard.gateway.caller import environment_without_keys
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.names import list_names
from orchard.gateway.models.registry import Registry, resolve_model
from orchard.gateway.models.sources import BUNDLED, REAL_MODEL

# The first request of an agent, with its instructions and tools, has up to 35,000 tokens.
_SMALL_WINDOW = 65_536
_NO_KEY = "none"  # agents insist on one
_FREE_PORT = "http://127.0.0.1:PORT"


def list_agents() -> None:
    """Print which agents there are, where they are installed, and how the others are installed."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # whole commands and paths, to copy
    for name, agent in AGENTS.items():
        table.add_row(name, Text(agent.title), Text(shutil.which(agent.program) or f"to install: {agent.installation}"))
    Console(width=None if sys.stdout.isatty() else 1000).print(table)


def start_agent(
    name: str,
    arguments: Sequence[str],
    model: str | None = None,
    url: str | None = None,
    api_key: str | None = None,
    *,
    sure: bool = False,
    dry_run: bool = False,
) -> int:
    """Start an agent, wait for its end and return its exit code. With `dry_run`, only print what would be done.

    A model that is missing on this machine is downloaded, if the user confirms it or is `sure`.

    Raise OrchardError if there is no such agent, it is not installed, or there is no model for it.
    """
    agent = AGENTS.get(name)
    if agent is None:
        raise _agent_error(f"there is no agent '{name}'; the agents are {', '.join(AGENTS)}")
    program = shutil.which(agent.program)
    if program is None and not dry_run:
        raise _agent_error(f"{agent.title} is not installed: {agent.installation}")
    folder = Path.home() / ".orchard" / "agents" / name
    with _find_target(agent, folder, model, url, api_key, sure=sure, dry_run=dry_run) as target:
        profile = agent.profile(target)
        command = [program or agent.program, *profile.arguments, *arguments]
        for line in (f"{agent.title} uses {target.model.id} at {target.url}", *_doubts(target.model)):
            print_line(f"orchard: {printable_text(line)}", sys.stderr)
        if dry_run:
            _print_profile(profile, target, command)
            return 0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, content in profile.files.items():
            _write_file(folder / path, content)
        others = {key: value for key, value in environment_without_keys().items() if not key.startswith(agent.prefixes)}
        code = _run_program(command, others | profile.variables)
        return code if code >= 0 else 128 - code


def _run_program(command: Sequence[str], variables: dict[str, str]) -> int:
    """Run a program in this terminal and return its exit code. Signals that ask this process to end are passed on."""
    signal.signal(signal.SIGINT, lambda *_: None)  # the terminal sends Ctrl-C to both
    process = subprocess.Popen(command, env=variables)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: process.send_signal(number))
    return process.wait()


@contextmanager
def _find_target(
    agent: Agent, folder: Path, model: str | None, url: str | None, api_key: str | None, *, sure: bool, dry_run: bool
) -> Iterator[Target]:
    """Yield what the agent is to use: a model of a server that runs, or of a new one unless it is a dry run."""
    with ChatClient(url or local_url(), api_key) as client:
        try:
            cards, address = client.describe_models(), client.url
        except ServerError:
            if url:
                raise
            cards, address = _describe_local_models(), _FREE_PORT
        name = model or _choose_card(cards, agent).id
        if dry_run:
            card = _describe_entry(resolve_model(name)) if address == _FREE_PORT else client.describe_model(name)
            yield Target(address, "***" if api_key else _NO_KEY, _choose_card([card], agent), folder)
            return
    with open_server(name, url, api_key, lambda missing: fetch_missing(missing, sure=sure)) as (server, served):
        card = _choose_card([server.describe_model(served)], agent)
        yield Target(server.url, server.api_key or _NO_KEY, card, folder)


def _describe_local_models() -> list[ModelCard]:
    """Return this machine's models as a server would list them."""
    settings = gather_config(None, (), {}, os.environ).settings
    return [_describe_entry(entry) for entry in Registry.from_settings(settings).list_models()]


def _describe_entry(entry: ModelEntry) -> ModelCard:
    return ModelCard(entry.id, entry.context_window, list(entry.capabilities))


def _choose_card(cards: list[ModelCard], agent: Agent) -> ModelCard:
    """Choose a model with which the agent works: preferably no bundled one, and one that is loaded."""
    able = [card for card in cards if "tools" in card.capabilities or not agent.calls_tools]
    if not able:
        names = list_names([card.id for card in cards])
        raise _agent_error(f"{agent.title} needs a model that can call tools; {names} can't")
    return max(able, key=lambda card: ("tools" in card.capabilities, card.id not in BUNDLED, card.loaded))


def _doubts(model: ModelCard) -> Iterator[str]:
    """Yield what speaks against a model: agents need one that can write code, with room for their long prompts."""
    if model.id in BUNDLED:
        yield f"{model.id} is too small for a coding agent; take a real model, such as: orchard pull {REAL_MODEL}"
    elif model.context_window and model.context_window < _SMALL_WINDOW:
        yield f"its context window has {model.context_window:,} tokens; an agent's first request may have 35,000"


def _print_profile(profile: Profile, target: Target, command: Sequence[str]) -> None:
    lines = [f"export {name}={shlex.quote(value)}" for name, value in profile.variables.items()]
    for path, content in profile.files.items():
        lines += [f"# {target.folder / path}", json.dumps(content, indent=2)]
    text = "\n".join([*lines, shlex.join(command)])
    typer.echo("\n".join(map(printable_text, text.split("\n"))))


def _write_file(file: Path, content: dict[str, Any]) -> None:
    """Write the content into a JSON file that only its owner can read. What else is in the file stays.

    Raise OrchardError if the file is not JSON, or can't be written.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = json.loads(file.read_bytes()) if file.exists() else {}
        part = file.with_name(file.name + ".part")
        part.touch(0o600)
        part.write_text(json.dumps(_merge(known, content), indent=2) + "\n")
        part.replace(file)
    except (OSError, ValueError) as error:
        raise _agent_error(f"{file} can't be changed: {error}") from error


def _merge(known: Any, content: Any) -> Any:
    if not (isinstance(known, dict) and isinstance(content, dict)):
        return content
    return known | {name: _merge(known.get(name), value) for name, value in content.items()}


def _agent_error(message: str) -> OrchardError:
    return OrchardError("invalid_request", message)
