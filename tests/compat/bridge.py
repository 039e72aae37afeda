"""Where these tests touch Orchard's own names, but for its engine's; everything else goes by files, flags and HTTP.

When code moves or is renamed, this module and `engines` follow it. The fixtures never do: they are what older versions
wrote.
"""

import functools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from msgspec import to_builtins

from orchard.cli import serve as serve_command
from orchard.cli.app import OTHER_NAMES, app
from orchard.gateway.models.registry import resolve_model
from tests.support.serving import FAKE, Server, serve

FIXTURES = Path(__file__).parent / "fixtures"
# Fields of the settings that were renamed: today's name, and that of the fixtures.
_RENAMED = {
    "decode_concurrency": "max_rows",
    "queue_size": "max_waiting",
    "prefill_step_size": "prefill_chunk",
    "prompt_concurrency": "prompts_at_once",
    "prompt_cache_size": "prompt_cache_entries",
    "max_tokens": "default_max_tokens",
    "repetition_context_size": "repetition_context",
    "presence_context_size": "presence_context",
    "frequency_context_size": "frequency_context",
}
_FOR_EVER = 1e10  # seconds


def expected(name: str) -> Any:
    """Read a JSON file of the fixtures."""
    return json.loads((FIXTURES / name).read_text())


def write(name: str, found: Mapping[str, Any]) -> None:
    """Write a JSON file of the fixtures, with a line for each thing in each part."""
    parts = ",\n".join(f"{_json(part)}: {_lines(whole)}" for part, whole in found.items())
    (FIXTURES / name).write_text(f"{{\n{parts}\n}}\n")


def _lines(part: Any) -> str:
    if isinstance(part, dict):
        return "{\n" + ",\n".join(f" {_json(name)}: {_json(value)}" for name, value in part.items()) + "\n}"
    if isinstance(part, list):
        return "[\n" + ",\n".join(f" {_json(value)}" for value in part) + "\n]"
    return _json(part)


_json = functools.partial(json.dumps, ensure_ascii=False)


def contains(found: Any, wanted: Any) -> bool:
    """Return whether something has all that is wanted, perhaps among other fields."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            name in found and contains(found[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(contains(one, other) for one, other in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)


class Served(NamedTuple):
    """What `orchard serve` would serve: every setting by its path, and the notes on what was given to no effect."""

    settings: dict[str, Any]
    notes: list[str]


def served(*args: str, command: str = "serve", **variables: str) -> Served:
    """Run `orchard serve` with these arguments in an environment of these variables, up to the start of the server."""
    given: list[Served] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            serve_command, "serve_models", lambda settings, notes, _: given.append(Served(_flat(settings), notes))
        )
        patch.setattr(os, "environ", {"HOME": os.environ.get("HOME", "/")} | variables)
        _command().main([command, *args], prog_name="orchard", standalone_mode=False)
    return given[0]


def options() -> dict[str, dict[str, str | None]]:
    """Return each command of `orchard` by its words, with its options and arguments and the variable of each."""
    found = {name: dict(_options(command)) for name, command in _below("", _command())}
    return found | {other: found[name] for other, name in OTHER_NAMES.items()}


def _options(command: Any) -> Iterator[tuple[str, Any]]:
    for parameter in command.params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            yield option, parameter.envvar


@functools.cache
def _command() -> Any:
    return typer.main.get_command(app)


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        yield from _below(f"{name} {word}".strip(), inner)


def _flat(settings: object) -> dict[str, Any]:
    """Return settings by their paths; what lies in the working directory is seen from there."""
    text = json.dumps(to_builtins(settings)).replace(f"{os.getcwd()}/", "")
    return dict(_leaves("", json.loads(text)))


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not _is_block(path, value):
        yield path, value
        return
    for name, inner in enumerate(value) if isinstance(value, list) else value.items():
        yield from _leaves(f"{path}.{_RENAMED.get(str(name), name)}".lstrip("."), inner)


def _is_block(path: str, value: Any) -> bool:
    """Return whether it holds settings, and is not itself the value of one."""
    if isinstance(value, list):
        return any(isinstance(one, dict) for one in value)
    return isinstance(value, dict) and not path.endswith("adapters")


@contextmanager
def server(model: str = "fake", **settings: Any) -> Iterator[Server]:
    """Run a server with the scripted model, or the bundled one, that stores responses for ever."""
    entry = FAKE if model == "fake" else resolve_model(model)
    with serve([entry], spare=False, responses_ttl=_FOR_EVER, **settings) as running:
        yield running
