"""What tells the system to run a server: a unit of systemd, or a property list of launchd."""

import plistlib
import re
import shlex
from pathlib import Path

from msgspec import Struct

from orchard.core.errors import OrchardError

LABEL = "orchard"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_PAUSE = 10  # seconds before a server that has failed starts again; launchd's default


class Definition(Struct, frozen=True):
    """How a server is run: its command, in `folder`, with these variables. It gets `grace` seconds to end.

    Raise OrchardError if one of them has a control character, which the files can't hold.
    """

    command: list[str]
    folder: str
    variables: dict[str, str]
    grace: float

    def __post_init__(self) -> None:
        for text in (*self.command, self.folder, *self.variables.values()):
            if _CONTROLS.search(text):
                raise OrchardError("invalid_request", f"a service can't use {text!r}: it has a control character")


def unit_text(definition: Definition) -> str:
    """Return the unit for systemd."""
    program, *arguments = map(_quote, definition.command)
    command = " ".join([program, *(argument.replace("$", "$$") for argument in arguments)])
    lines = "\n".join(f"Environment={_quote(f'{name}={value}')}" for name, value in definition.variables.items())
    # A worker that runs out of memory is not the end of the server, which systemd would otherwise make of it.
    return f"""\
[Unit]
Description=Orchard, a server for MLX models

[Service]
Type=exec
ExecStart={command}
WorkingDirectory={_escape_specifiers(definition.folder)}
{lines}
Restart=on-failure
RestartSec={_PAUSE}
OOMPolicy=continue
KillMode=mixed
TimeoutStopSec={definition.grace + _PAUSE:g}

[Install]
WantedBy=default.target
"""


def property_list(definition: Definition) -> bytes:
    """Return the property list for launchd."""
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": definition.command,
            "WorkingDirectory": definition.folder,
            "EnvironmentVariables": definition.variables,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ExitTimeOut": int(definition.grace) + _PAUSE,
            "ProcessType": "Interactive",  # otherwise launchd slows it down
        },
        sort_keys=False,
    )


def read_command(file: Path) -> list[str]:
    """Return the command in a unit or a property list that was written here."""
    if file.suffix == ".plist":
        command: list[str] = plistlib.loads(file.read_bytes())["ProgramArguments"]
        return command
    (line,) = re.findall(r"^ExecStart=(.*)$", file.read_text(), re.MULTILINE)
    return [part.replace("%%", "%").replace("$$", "$") for part in shlex.split(line)]


def _quote(text: str) -> str:
    return '"' + _escape_specifiers(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escape_specifiers(text: str) -> str:
    return text.replace("%", "%%")
