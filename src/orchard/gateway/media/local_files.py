"""Media in files of this machine, in the one folder from which requests may read them."""

import os
import stat
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.media import MAX_BYTES, MediaPart
from orchard.dialects.common.json_body import invalid
from orchard.gateway.media.errors import empty, too_large


def opened(part: MediaPart, folder: str | None) -> tuple[BinaryIO, int]:
    """Open the file that a part's file: URL names; return it and its size in bytes. The caller closes it.

    It may take long: call it off the event loop. `folder` is where the file must be, also where its links lead; None:
    no file may be read. Raise OrchardError: invalid_request, which tells nothing of what is elsewhere;
    payload_too_large.
    """
    if folder is None:
        raise invalid(part.param, "is a file: URL: the server reads files only with --allowed-local-media.")
    try:
        file = _open(part.url, Path(folder))
    except (OSError, ValueError, RuntimeError):  # the last for links that lead in a circle
        raise _unreadable(part) from None
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        os.close(file)
        raise _unreadable(part)
    if status.st_size > MAX_BYTES[part.kind]:
        os.close(file)
        raise too_large(part)
    return os.fdopen(file, "rb"), status.st_size


def content(part: MediaPart, file: BinaryIO, size: int) -> MediaPart:
    """Return a part with the first `size` bytes of a file. Raise OrchardError where it is empty.

    It may take long: call it off the event loop.
    """
    data = file.read(size)
    if not data:
        raise empty(part)
    return replace(part, url="", data=data)


def _open(url: str, folder: Path) -> int:
    """Open a file below a folder. Raise OSError or ValueError where it is none."""
    place = urlsplit(url)
    if place.netloc not in ("", "localhost") or not place.path.startswith("/"):
        raise ValueError("no place on this machine")
    root = folder.resolve()
    # The place is followed name by name, so that nothing can be replaced by a link meanwhile.
    *folders, name = Path(unquote(place.path)).resolve().relative_to(root).parts
    # A pipe would keep the thread waiting.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for one in folders:
        here = _entered(here, one, flags | os.O_DIRECTORY)
    return _entered(here, name, flags)


def _entered(folder: int, name: str, flags: int) -> int:
    """Open what has that name in a folder, and close the folder."""
    try:
        return os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)


def _unreadable(part: MediaPart) -> OrchardError:
    return invalid(part.param, "must name a file in the folder of --allowed-local-media.")
