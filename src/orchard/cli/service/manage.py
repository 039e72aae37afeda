"""`orchard service install | status | logs | uninstall`."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import typer

from orchard.cli.config import gather_config, registry_of
from orchard.cli.endpoint import ChatClient, ServerError
from orchard.cli.serve import server_url
from orchard.cli.service.definition import LABEL, Definition, property_list, read_command, unit_text
from orchard.cli.settings.values import printable_text
from orchard.config import Settings
from orchard.core.errors import OrchardError

# Where programs, models and caches are. Settings come from the configuration file only.
_VARIABLES = ("PATH", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "ORCHARD_CACHE_DIR")
_LOG = Path("~/.orchard/logs/server.log")
_LINES = 100
_NO_SESSION = "systemd runs users' services after a login at the machine or with ssh, not after su or in containers"
_POLL_SECONDS = 0.2


def install_service(config: Path | None, *, dry_run: bool = False) -> None:
    """Write the service's file and start the service. With `dry_run`, only print the file and the commands.

    Raise Mistakes or OrchardError if the configuration file is wrong, or the system doesn't take the service.
    """
    config = config and config.expanduser().absolute()
    settings, log = _read_settings(config), _LOG.expanduser()
    options = [*(["--config", str(config)] if config else []), "--log-file", str(log)]
    definition = Definition(
        command=[sys.executable, "-m", "orchard", "serve", *options],
        folder=str(Path.cwd()),
        variables={name: os.environ[name] for name in _VARIABLES if os.environ.get(name)},
        grace=settings.shutdown_grace,
    )
    file = _service_file()
    content = property_list(definition) if _has_launchd() else unit_text(definition).encode()
    if _has_launchd():
        commands = [["launchctl", "bootstrap", _domain(), str(file)]]
    else:
        commands = [_systemctl("daemon-reload"), _systemctl("enable", LABEL), _systemctl("restart", LABEL)]
    if dry_run:
        typer.echo(f"# {file}\n{content.decode()}")
        for command in commands:
            typer.echo(" ".join(command))
        return
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    if _has_launchd():
        _boot_out(definition.grace)
    is_new = not file.exists()
    file.write_bytes(content)
    try:
        for command in commands:
            _run_command(command)
    except OrchardError:
        if is_new:
            file.unlink()
        raise
    typer.echo(
        f"The service is installed ({file}) and starts when you log in, and now, at {_url(settings)}.\n"
        f"Its log is {log}; 'orchard service status' says how it is."
    )


def show_status() -> None:
    """Print how the service is. Raise OrchardError if it is not installed."""
    file = _installed_file()
    command = read_command(file)
    config = Path(command[command.index("--config") + 1]) if "--config" in command else None
    typer.echo(f"{file}: {f'serves {config}' if config else 'serves without a configuration file'}")
    typer.echo(_supervisor_report())
    settings = _read_settings(config)
    with ChatClient(_url(settings), next(iter(settings.api_keys), None)) as client:
        try:
            typer.echo(f"It answers at {client.url} and serves {printable_text(', '.join(client.list_models()))}.")
        except ServerError as error:
            reason = printable_text(error.message)
            typer.echo(f"It doesn't answer: {reason}. 'orchard service logs' may say why.")


def show_logs(*, follow: bool = False) -> None:
    """Print the last lines of the service's log, and with `follow` new ones until Ctrl-C.

    Raise OrchardError if there is no log.
    """
    log = _LOG.expanduser()
    if not log.exists():
        raise _service_error(f"there is no log {log}: the service has not run")
    command = ["tail", "-n", str(_LINES), *(["-F"] if follow else []), str(log)]  # -F stays with the file's name
    with contextlib.suppress(KeyboardInterrupt):
        subprocess.run(command, check=False)


def uninstall_service() -> None:
    """Stop the service and delete its file. Raise OrchardError if it is not installed."""
    file = _installed_file()
    if _has_launchd():
        _boot_out(0)
        file.unlink()
    else:
        _run_command(_systemctl("disable", "--now", LABEL))
        file.unlink()
        _run_command(_systemctl("daemon-reload"))
    typer.echo(f"The service is stopped and removed. Its log stays: {_LOG.expanduser()}")


def _supervisor_report() -> str:
    """Return what systemd or launchd says about the service. launchd says much more than is of use."""
    if not _has_launchd():
        done = _call(_systemctl("status", "--no-pager", "--lines=0", LABEL))
        return (done.stdout or done.stderr).rstrip()
    facts: dict[str, str] = {}
    for line in _call(["launchctl", "print", f"{_domain()}/{LABEL}"]).stdout.splitlines():
        name, _, value = line.strip().partition(" = ")
        facts.setdefault(name, value)  # the job's own come before those of its coalitions
    told = [f"{name} = {facts[name]}" for name in ("state", "pid", "last exit code") if name in facts]
    return "\n".join(told) or "not loaded"


def _boot_out(grace: float) -> None:
    """Stop launchd's job, if there is one, and wait for its end: until then, it takes no new one."""
    _call(["launchctl", "bootout", f"{_domain()}/{LABEL}"])
    deadline = time.monotonic() + grace
    while _call(["launchctl", "print", f"{_domain()}/{LABEL}"]).returncode == 0 and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _run_command(command: Sequence[str]) -> None:
    done = _call(command)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        advice = f"; {_NO_SESSION}" if "connect to bus" in said else ""
        raise _service_error(f"'{' '.join(command)}' failed: {said}{advice}")


def _call(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise _service_error(f"services need macOS, or Linux with systemd: {error}") from error


def _read_settings(config: Path | None) -> Settings:
    """Return a server's settings from a configuration file, or the defaults. Raise Mistakes if the file is wrong."""
    gathered = gather_config(config, (), {}, {})
    if gathered.places:
        registry_of(gathered.settings, gathered.places)
    return gathered.settings


def _installed_file() -> Path:
    file = _service_file()
    if not file.exists():
        raise _service_error("the service is not installed; 'orchard service install' does that")
    return file


def _service_file() -> Path:
    if _has_launchd():
        return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user" / f"{LABEL}.service"


def _has_launchd() -> bool:
    return sys.platform == "darwin"


def _domain() -> str:
    return f"gui/{os.getuid()}"


def _systemctl(*arguments: str) -> list[str]:
    return ["systemctl", "--user", *arguments]


def _url(settings: Settings) -> str:
    return server_url(settings.host, settings.port)


def _service_error(message: str) -> OrchardError:
    return OrchardError("unavailable", message)
