"""The commands and their options are there, and so are the modules that can be run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.bridge import expected, options, served

GIVEN = expected("commands.json")
ORCHARD = str(Path(sys.executable).with_name("orchard"))


@pytest.mark.parametrize("command", GIVEN)
def test_a_command_has_its_options(command: str) -> None:
    """Each by its name, with the variable that stands for it."""
    found = options()[command]
    assert {option: found.get(option, "is not there") for option in GIVEN[command]} == GIVEN[command]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([sys.executable, "-m", "orchard", "--version"], "orchard "),
        ([ORCHARD, "-h"], "serve"),
        ([sys.executable, "-m", "orchard.worker", "--help"], "--fd"),
    ],
)
def test_it_can_be_run(command: list[str], says: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert says in ran.stdout


def test_launch_is_serve() -> None:
    assert served("--port", "8001", command="launch") == served("--port", "8001")
