"""Read media from local files, in the only folder that requests may read from."""

import os
import stat
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.media import MAX_BYTES, MediaPart
from orchard.dialects.common.json_body import invalid_field
from orchard.gateway.media.errors import file_empty, file_too_large


def open_local_file(part: MediaPart, folder: str | None) -> tuple[BinaryIO, int]:
    """Open the file that a part's file: URL names; return it and its size in bytes. The caller closes it.

    Call it in a thread, because it may take long. The file must be in `folder`, also after following links; None: no
    file may be read. Raise OrchardError: invalid_request, which reveals nothing about files elsewhere;
    payload_too_large.
    """
    if folder is None:
        raise invalid_field(part.param, "is a file: URL: the server reads files only with --allowed-local-media.")
    try:
        file = _open_below(part.url, Path(folder))
    except (OSError, ValueError, RuntimeError):  # RuntimeError: circular links
        raise _unreadable_error(part) from None
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        os.close(file)
        raise _unreadable_error(part)
    if status.st_size > MAX_BYTES[part.kind]:
        os.close(file)
        raise file_too_large(part)
    return os.fdopen(file, "rb"), status.st_size


def read_local_file(part: MediaPart, file: BinaryIO, size: int) -> MediaPart:
    """Return a part with the first `size` bytes of a file. Raise OrchardError if it is empty.

    Call it in a thread, because it may take long.
    """
    data = file.read(size)
    if not data:
        raise file_empty(part)
    return replace(part, url="", data=data)


def _open_below(url: str, folder: Path) -> int:
    """Open a regular file below a folder. Raise OSError or ValueError if it is not one."""
    place = urlsplit(url)
    if place.netloc not in ("", "localhost") or not place.path.startswith("/"):
        raise ValueError("no place on this machine")
    root = folder.resolve()
    # Open the path name by name, so that no part of it can be replaced by a link meanwhile.
    *folders, name = Path(unquote(place.path)).resolve().relative_to(root).parts
    # O_NONBLOCK: opening a pipe would block the thread.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for one in folders:
        here = _enter_folder(here, one, flags | os.O_DIRECTORY)
    return _enter_folder(here, name, flags)


def _enter_folder(folder: int, name: str, flags: int) -> int:
    """Open a name in an open folder, and close the folder."""
    try:
        return os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)


def _unreadable_error(part: MediaPart) -> OrchardError:
    return invalid_field(part.param, "must name a file in the folder of --allowed-local-media.")
