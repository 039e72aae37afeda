"""`orchard service` with programs of the tests in the place of systemctl and launchctl."""

import plistlib
import subprocess
import sys
from pathlib import Path

import pytest

from orchard.cli.service import manage
from orchard.cli.service.definition import read_command
from tests.support.command import orchard, refused
from tests.support.serving import serve

# Parts of what launchctl printed of an agent, with the states of its coalitions:
# https://github.com/tsgsz/openclaw-enhance/blob/main/docs/reports/2026-03-24-session-cleanup-launchd-cutover-install-lifecycle.md
AGENT = """gui/501/ai.openclaw.session-cleanup = {
\tactive count = 0
\ttype = LaunchAgent
\tstate = not running

\tdefault environment = {
\t\tPATH => /usr/bin:/bin:/usr/sbin:/sbin
\t}

\tdomain = gui/501 [100041]
\truns = 2
\tlast exit code = 0

\tresource coalition = {
\t\tID = 33306
\t\ttype = resource
\t\tstate = active
\t\tactive count = 1
\t}

\tjetsam coalition = {
\t\tID = 33307
\t\ttype = jetsam
\t\tstate = active
\t\tactive count = 1
\t}

\tspawn type = daemon (3)
}
"""
# Of a daemon on an older macOS: https://github.com/boxen/puppet-boxen/issues/104
DAEMON = """dev.mysql = {
    active count = 1
    path = /Library/LaunchDaemons/dev.mysql.plist
    state = running

    runs = 2
    pid = 24784
    immediate reason = inefficient
    last exit code = 1
}
"""
# Notes its arguments. launchctl's job is there until `bootout`. What it prints is made up.
SUPERVISOR = """#!/bin/sh
echo "$@" >> "$0.calls"
case "$1" in
    bootstrap) touch "$0.job";;
    bootout) rm "$0.job" || exit 1;;
    print) [ -e "$0.job" ] || exit 113; printf 'x = {\\n\\tstate = running\\n\\tpid = 12\\n\\tpath = /x\\n}\\n';;
    --user)
        [ "$2" != "$BROKEN" ] || { echo "No medium found" >&2; exit 1; }
        [ "$2" != status ] || echo "active (running)";;
esac
exit 0
"""


@pytest.fixture(params=["linux", "darwin"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder on each system, from which a configuration file is served."""
    monkeypatch.setattr(sys, "platform", request.param)
    for program in ("systemctl", "launchctl"):
        (file := tmp_path / program).write_text(SUPERVISOR)
        file.chmod(0o755)
    (tmp_path / "orchard.yaml").write_text("models: [{model_path: demo}]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def service(home: Path, *args: str, **others: str) -> tuple[int, str]:
    done = orchard("service", *args, HOME=str(home), XDG_CONFIG_HOME="", PATH=f"{home}:/usr/bin:/bin", **others)
    assert done.returncode or not done.stderr
    return done.returncode, done.stdout or done.stderr


def service_file(home: Path) -> Path:
    return home / (
        "Library/LaunchAgents/orchard.plist" if sys.platform == "darwin" else ".config/systemd/user/orchard.service"
    )


def calls(home: Path) -> list[str]:
    (file,) = home.glob("*.calls")
    return file.read_text().splitlines()


def test_install_starts_the_users_configuration_and_uninstall_removes_it(home: Path) -> None:
    code, out = service(home, "install", "--config", "orchard.yaml", HF_HOME="/models", ORCHARD_API_KEY="a-key")
    assert code == 0
    assert f"{service_file(home)}) and starts when you log in, and now, at http://127.0.0.1:8000" in out
    log = home / ".orchard" / "logs" / "server.log"
    options = ["serve", "--config", str(home / "orchard.yaml"), "--log-file", str(log)]
    assert read_command(service_file(home)) == [sys.executable, "-m", "orchard", *options]
    text = service_file(home).read_text()
    assert "/models" in text
    assert "a-key" not in text
    assert service(home, "uninstall") == (0, f"The service is stopped and removed. Its log stays: {log}\n")
    assert not service_file(home).exists()
    if sys.platform == "darwin":
        file = str(service_file(home))
        done = [call.split()[0] for call in calls(home)]
        assert done == ["bootout", "print", "bootstrap", "bootout", "print"]
        assert calls(home)[2].split()[2] == file
    else:
        assert calls(home) == [
            "--user daemon-reload",
            "--user enable orchard",
            "--user restart orchard",
            "--user disable --now orchard",
            "--user daemon-reload",
        ]


def test_a_dry_run_shows_the_file_and_the_commands_and_changes_nothing(home: Path) -> None:
    code, out = service(home, "install", "--config", "orchard.yaml", "--dry-run")
    assert code == 0
    head, _, rest = out.partition("\n")
    assert head == f"# {service_file(home)}"
    if sys.platform == "darwin":
        content, _, command = rest.partition("</plist>\n")
        assert plistlib.loads(f"{content}</plist>".encode())["ProgramArguments"][3] == "serve"
        assert command.split()[:2] == ["launchctl", "bootstrap"]
    else:
        commands = ["daemon-reload", "enable orchard", "restart orchard"]
        assert rest.splitlines()[-3:] == [f"systemctl --user {command}" for command in commands]
    assert not service_file(home).exists()
    assert not [*home.glob("*.calls"), *home.glob(".orchard")]


def test_a_wrong_configuration_is_not_installed(home: Path) -> None:
    (home / "orchard.yaml").write_text("server: {prot: 1}\n")
    code, out = service(home, "install", "--config", "orchard.yaml")
    assert code == 1
    assert "prot: is not a setting" in out
    (home / "orchard.yaml").write_text("models: [{model_path: nonsuch}]\n")
    assert "no model 'nonsuch'" in service(home, "install", "--config", "orchard.yaml")[1]
    assert not service_file(home).exists()


def test_status_says_whether_the_server_answers(home: Path) -> None:
    with serve(api_keys=("the-key",)) as server:
        text = f"server: {{port: {server.port}, api_keys: [the-key]}}\nmodels: [{{model_path: demo}}]\n"
        (home / "orchard.yaml").write_text(text)
        service(home, "install", "--config", "orchard.yaml")
        code, out = service(home, "status")
        assert code == 0
        assert f"serves {home / 'orchard.yaml'}\n" in out
        assert ("state = running\npid = 12\n" if sys.platform == "darwin" else "active (running)\n") in out
        assert "path = /x" not in out
        assert f"It answers at {server.url} and serves fake" in out
    assert "It doesn't answer: no server answers at" in service(home, "status")[1]


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (AGENT, "state = not running\nlast exit code = 0"),
        (DAEMON, "state = running\npid = 24784\nlast exit code = 1"),
        ("", "not loaded"),
    ],
)
def test_what_launchd_says_of_the_job_itself(printed: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(manage, "_call", lambda command: subprocess.CompletedProcess(command, 0, printed, ""))
    assert manage._supervisor_report() == told


def test_logs_are_the_last_lines_of_the_servers_own_log(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "there is no log" in refused(orchard("service", "logs", HOME=str(home)))
    service(home, "install")
    (home / ".orchard" / "logs" / "server.log").write_text("".join(f"line {number}\n" for number in range(150)))
    assert service(home, "logs")[0] == 0
    assert capfd.readouterr().out.splitlines() == [f"line {number}" for number in range(50, 150)]


@pytest.mark.parametrize("command", ["status", "uninstall"])
def test_what_is_not_installed(home: Path, command: str) -> None:
    assert "is not installed; 'orchard service install' does that" in service(home, command)[1]


def test_a_service_that_does_not_start_is_not_there(home: Path) -> None:
    if sys.platform == "linux":
        for command in ("daemon-reload", "restart"):
            assert service(home, "install", BROKEN=command)[0] == 1
            assert not service_file(home).exists()
        service(home, "install")
        assert service(home, "install", BROKEN="restart")[0] == 1
        assert service_file(home).exists()  # it is the one that was there


def test_a_system_that_takes_no_service_says_why(home: Path) -> None:
    if sys.platform == "darwin":
        (home / "launchctl").unlink()
        assert "services need macOS, or Linux with systemd" in service(home, "install")[1]
    else:
        message = "'systemctl --user enable orchard' failed: No medium found"
        assert message in service(home, "install", BROKEN="enable")[1]
