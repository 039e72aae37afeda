"""Opens the listening sockets, which needs none of the server's libraries."""

import errno
import socket

from orchard.config import Settings
from orchard.core.errors import OrchardError

BACKLOG = 2048
"""How many connections may wait until they are accepted."""


def bind_socket(host: str, port: int) -> socket.socket:
    """Open the listening socket; port 0 chooses a free port. Raise OrchardError("invalid_request") with the reason."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
        reason = str(getattr(error, "strerror", None) or error).partition(" (while ")[0]  # Python repeats the address
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            reason = f"{reason}; choose another port with --port, or 0 for one that is free"
        raise OrchardError("invalid_request", f"can't listen on {host}:{port}: {reason}") from None


def bind_sockets(settings: Settings) -> tuple[list[socket.socket], str | None]:
    """Open the socket of the server's port and, if it is free, that of its second one; else say why not.

    Raise OrchardError("invalid_request") if the first can't be opened.
    """
    found = [bind_socket(settings.host, settings.port)]
    if settings.also_port is None:
        return found, None
    try:
        return [*found, bind_socket(settings.host, settings.also_port)], None
    except OrchardError as error:
        return found, f"also_port is not used: {error.message.partition(';')[0]}"
