"""Servers that the tests start themselves."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx


@contextmanager
def started(
    command: Sequence[str], folder: Path, ready: Callable[[str], bool], variables: dict[str, str] | None = None
) -> Iterator[str]:
    """Start a server on a free port, in a folder that gets its log, and yield its base URL once it is ready.

    The server has the given environment instead of this process's. Raise ChildProcessError if it doesn't come up.
    """
    with server_process(command, folder, ready, variables) as (url, _):
        yield url


@contextmanager
def server_process(
    command: Sequence[str], folder: Path, ready: Callable[[str], bool], variables: dict[str, str] | None = None
) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Do what `started` does; yield the process, too."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = dict(os.environ) if variables is None else variables
    with (
        (folder / "log").open("w+") as log,
        subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, env=environment, stdout=log, stderr=log
        ) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            if not _comes_up(url, process, ready):
                log.seek(0)
                raise ChildProcessError(f"the server doesn't come up:\n{log.read()}")
            yield url, process
        finally:
            process.terminate()


def _comes_up(url: str, process: "subprocess.Popen[bytes]", ready: Callable[[str], bool]) -> bool:
    deadline = time.monotonic() + 100  # less than a test's timeout
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if ready(url):
                return True
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    return False
