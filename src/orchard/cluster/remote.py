"""How a Python module is started on a host: by ssh, with the user's own keys and configuration, without a prompt."""

import shlex
import sys
from collections.abc import Sequence

from orchard.cluster.hostfile import ClusterHost

MARK = b"\n\0orchard\0"
"""What a module writes first. The startup files of the user's shell there may have written something before it."""

CONNECT_SECONDS = 10
SILENT_SECONDS = 20.0
"""A host without a sign of life for so many seconds counts as lost."""
BEAT_SECONDS = 5.0
"""Seconds between two signs of life."""

_OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": CONNECT_SECONDS,
    "ServerAliveInterval": round(BEAT_SECONDS),
    "ServerAliveCountMax": round(SILENT_SECONDS / BEAT_SECONDS) - 1,
    # A connection that is shared with other programs would not end with this one, and would not notice its loss.
    "ControlPath": "none",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
}


def command_on(host: ClusterHost, module: str, arguments: Sequence[str] = ()) -> list[str]:
    """Return the command that runs a module on a host. Its standard input and output are a channel to it."""
    # Without -P, a folder in the user's home folder could take the place of a package.
    command = [host.python or sys.executable, "-P", "-m", module, *arguments]
    if host.is_local:
        return command
    options = [f"-o{name}={value}" for name, value in _OPTIONS.items()]
    return ["ssh", "-T", *options, "--", host.ssh, shlex.join(command)]
