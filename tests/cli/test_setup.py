import fcntl
import shutil
import subprocess
from importlib.metadata import distributions
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchard.cli import setup
from orchard.cli.app import app
from orchard.core.errors import OrchardError
from orchard.environments.environment import Environment
from tests.support.environments import site_packages, toy_environment


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    return toy_environment(tmp_path, monkeypatch)


def folders(environment: Environment) -> list[str]:
    return sorted(path.name for path in environment.root.iterdir() if path.name != ".lock")


@pytest.mark.parametrize("tool", ["uv", pytest.param("pip", marks=pytest.mark.deep)])
def test_it_installs_the_list_and_nothing_else(
    toy: Environment, tool: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if tool == "pip":
        monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    setup.set_up_environment(toy)
    said = capfd.readouterr()
    assert "Installing 3 packages for toy into" in said.out
    assert "msgspec" in said.out + said.err, "the installer shows what it does"
    found = {one.name: one.version for one in distributions(path=[str(site_packages(toy))])}
    assert {name: found[name] for name in found if name not in ("pip", "setuptools")} == toy.packages
    assert folders(toy) == [toy.folder.name]
    program = "import msgspec, psutil; print(psutil.Process().pid > 0)"
    command = [*toy.command[:2], "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


def test_a_complete_one_is_left_alone(
    toy: Environment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup.set_up_environment(toy)
    monkeypatch.setattr(setup, "_install_packages", None)
    setup.set_up_environment(toy)
    assert "is complete" in capsys.readouterr().out


def test_it_is_made_anew_when_something_is_missing(toy: Environment) -> None:
    setup.set_up_environment(toy)
    module = site_packages(toy) / "psutil" / "_common.py"
    interpreter = toy.folder / "bin" / "python"
    for missing in (module, interpreter, next(site_packages(toy).glob("msgspec-*/METADATA"))):
        missing.unlink()
        half = toy.folder.with_name(toy.folder.name + ".part")
        (half / "bin").mkdir(parents=True)  # as an installation leaves it that was killed
        setup.set_up_environment(toy)
        assert missing.exists()
        assert folders(toy) == [toy.folder.name]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("no room")])
def test_nothing_stays_of_one_that_was_not_finished(
    toy: Environment, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = subprocess.run

    def run(command: list[str], **options: bool) -> object:
        if "install" in command:
            assert folders(toy) == [toy.folder.name + ".part"]
            raise error
        return whole(command, check=True)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises((KeyboardInterrupt, OrchardError)):
        setup.set_up_environment(toy)
    assert folders(toy) == []


def test_an_error_of_the_installer_is_told(toy: Environment, capfd: pytest.CaptureFixture[str]) -> None:
    with toy.packages_file.open("a") as file:
        file.write("no-such-package==1.0\n")
    with pytest.raises(OrchardError, match="can't be made: 'uv' failed; see its message above"):
        setup.set_up_environment(toy)
    assert "no-such-package" in capfd.readouterr().err
    assert folders(toy) == []


def test_an_installer_that_leaves_something_out_is_found(toy: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    run = setup._run_installer
    monkeypatch.setattr(setup, "_run_installer", lambda *command: None if "install" in command else run(*command))
    with pytest.raises(OrchardError, match="left out packages"):
        setup.set_up_environment(toy)
    assert folders(toy) == []


def test_those_of_other_versions_are_removed_with_it(toy: Environment, capsys: pytest.CaptureFixture[str]) -> None:
    setup.set_up_environment(toy)
    other = toy.root / "other-012345678901"
    for folder in (toy.root / "toy-012345678901" / "lib", toy.root / "toy-0.removed", other):
        folder.mkdir(parents=True)
    setup.remove_environment(toy)
    assert folders(toy) == [other.name]
    setup.remove_environment(toy)
    said = capsys.readouterr().out.splitlines()
    assert said[-2:] == ["The environment for toy is removed.", "There is nothing to remove."]


def test_only_one_works_on_them_at_a_time(toy: Environment) -> None:
    toy.root.mkdir(parents=True)
    with (toy.root / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for work in (setup.set_up_environment, setup.remove_environment):
            with pytest.raises(OrchardError, match="another 'orchard setup' is running"):
                work(toy)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHARD_CACHE_DIR", str(tmp_path))
    asked: list[str] = []
    monkeypatch.setattr(setup, "set_up_environment", lambda environment: asked.append(environment.name))
    assert CliRunner().invoke(app, ["setup", "images"]).exit_code == 0
    assert asked == ["images"]
    removed = CliRunner().invoke(app, ["setup", "images", "--remove"])
    assert (removed.exit_code, removed.stdout, asked) == (0, "There is nothing to remove.\n", ["images"])
