"""The files that run a server: systemd checks the unit, and what is written is read again."""

import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchard.cli.service.definition import Definition, property_list, read_command, unit_text
from orchard.core.errors import OrchardError

TEXTS = st.text(st.characters(exclude_categories=("Cc", "Cn", "Cs")), min_size=1)
ODD = "a b\"c\\d%h$HOME${X}'é;#"


def definition(*arguments: str, folder: str = "/", grace: float = 20) -> Definition:
    return Definition([sys.executable, "-m", "orchard", *arguments], folder, {"PATH": f"/bin:/{ODD}"}, grace)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
@pytest.mark.parametrize("name", ["plain", ODD])
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path, name: str) -> None:
    (folder := tmp_path / name).mkdir()
    (unit := tmp_path / "orchard.service").write_text(unit_text(definition("serve", ODD, folder=str(folder))))
    verify = ["systemd-analyze", "--user", "verify", str(unit)]
    (runtime := tmp_path / "runtime").mkdir()
    variables = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(verify, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_keeps_the_server_alive_and_lets_it_end() -> None:
    lines = unit_text(definition(grace=60.5)).splitlines()
    assert {"Restart=on-failure", "OOMPolicy=continue", "KillMode=mixed", "TimeoutStopSec=70.5"} <= set(lines)
    assert "WantedBy=default.target" in lines


def test_a_property_list_says_the_same() -> None:
    written = definition("serve", ODD, folder="/a b", grace=60.5)
    read = plistlib.loads(property_list(written))
    assert read["ProgramArguments"] == written.command
    assert (read["WorkingDirectory"], read["EnvironmentVariables"]) == ("/a b", written.variables)
    assert (read["RunAtLoad"], read["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert read["ExitTimeOut"] == 70


@pytest.mark.parametrize(("name", "write"), [("a.service", unit_text), ("a.plist", property_list)])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(arguments=st.lists(TEXTS))
def test_a_command_can_be_read_again(name: str, write: object, tmp_path: Path, arguments: list[str]) -> None:
    written = definition(*arguments)
    content = unit_text(written).encode() if write is unit_text else property_list(written)
    (file := tmp_path / name).write_bytes(content)
    assert read_command(file) == written.command


def test_a_line_break_cannot_add_a_line_to_a_unit() -> None:
    with pytest.raises(OrchardError, match="control character"):
        definition(folder="/a\nExecStartPre=/bin/x")
