"""The page on troubleshooting: it quotes what Orchard really says, and its flags exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchard.cli.settings.table import settings_by_name

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
OTHERS = {"orchard: command not found", "finish_reason", "length"}  # said by a shell; fields of an API


def quotes() -> list[str]:
    """What the first column of a table quotes."""
    rows = re.findall(r"^\| (?!symptom|---)(.+?) \| ", PAGE, re.MULTILINE)
    return [quote for row in rows for quote in re.findall(r"`([^`]+)`", row) if quote not in OTHERS]


def texts() -> Iterator[str]:
    """Every text in the source, with … for what is put into it, and what the Makefile says."""
    yield from re.findall(r'echo "(.+?)"', (ROOT / "Makefile").read_text())
    for file in (ROOT / "src" / "orchard").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values]
                yield "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_it_quotes_what_orchard_says() -> None:
    said = "\n".join(texts())
    assert len(quotes()) > 20
    for quote in quotes():
        # What stands for … may be several pieces of a message, which are put together elsewhere.
        for piece in filter(None, re.split(r" ?… ?", quote)):
            assert piece in said, quote


def test_its_flags_exist() -> None:
    flags = {name.replace("_", "-") for name in settings_by_name()}
    for line in PAGE.splitlines():
        for command in re.findall(r"`([^`]*)`", line):
            if command.startswith(("orchard serve", "--")):
                for flag in re.findall(r"--(?:no-)?([a-z][a-z-]+)", command):
                    assert flag in flags | {"api-key"}, command


@pytest.mark.parametrize("command", sorted(set(re.findall(r"orchard ([a-z]+)", "".join(re.findall(r"`[^`]+`", PAGE))))))
def test_its_commands_exist(command: str) -> None:
    from orchard.cli.app import app

    names = {found.name or getattr(found.callback, "__name__", "") for found in app.registered_commands}
    groups = {group.name for group in app.registered_groups}
    assert command in names | groups | {"command"}
