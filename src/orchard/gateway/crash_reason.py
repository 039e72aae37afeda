"""Why a process died: the last lines of its stderr, which is forwarded, and whether memory ran out."""

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from orchard.gateway.recent_logs import RECENT

_CHUNK_BYTES = 65536
_KEPT_BYTES = 8192
_MOST_CHARS = 400
_SECONDS_FOR_THE_REST = 1.0
_LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")
# An absolute path that is not part of a URL or a word.
_PATH = re.compile(r"(?<![\w.:/~-])~?/(?:[^\s/'\"`()<>:,;]+/)*([^\s/'\"`()<>:,;]+)")


class CrashReason:
    """The stderr of one process: a pipe that the process writes to."""

    def __init__(self) -> None:
        """Open the pipe. Raise OSError if there are too many open files."""
        self._read_end, self.write_end = os.pipe()
        self._tail = b""
        self._relaying: asyncio.Task[None] | None = None

    def close_write_end(self) -> None:
        """Close our copy of `write_end`: a process that has started has its own."""
        os.close(self.write_end)

    def close(self) -> None:
        """Close the pipe of a process that did not start."""
        os.close(self._read_end)

    def begin(self) -> None:
        """Begin to forward what the process writes."""
        self._relaying = asyncio.create_task(self._relay())

    async def end(self) -> None:
        """Read what an ended process has left in the pipe. Do not wait for other processes that still have it open."""
        if self._relaying:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._relaying, _SECONDS_FOR_THE_REST)

    @property
    def reason(self) -> str:
        """The process's last output on one line; of a traceback, the exception. Empty if there are only log lines."""
        lines = [line for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        logged = max((number for number, line in enumerate(lines) if _LOG_LINE.match(line)), default=-1)
        said = lines[logged + 1 :]
        # The lines of a traceback are indented. The exception, of one or more lines, follows them.
        trace = max((number for number, line in enumerate(said) if line.startswith(" ")), default=-1)
        return " ".join(line.strip() for line in said[trace + 1 :] or said[-1:])[:_MOST_CHARS]

    async def _relay(self) -> None:
        reader = asyncio.StreamReader()
        pipe = os.fdopen(self._read_end, "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        unfinished = b""
        try:
            while data := await reader.read(_CHUNK_BYTES):
                self._tail = (self._tail + data)[-_KEPT_BYTES:]
                *lines, unfinished = (unfinished + data).split(b"\n")
                unfinished = unfinished[:_KEPT_BYTES]
                for line in lines:
                    RECENT.add_worker_line(line.decode(errors="replace"))
                if sys.stderr is not None:
                    with suppress(OSError, ValueError):  # the terminal may be closed
                        sys.stderr.buffer.write(data)
                        sys.stderr.buffer.flush()
        finally:
            transport.close()


async def reap(wait: Callable[[], Awaitable[int]], seconds: float, kill: Callable[[], None]) -> int:
    """Wait for a process to end, kill it if it still runs after `seconds`, and return its exit code."""
    try:
        async with asyncio.timeout(seconds):
            return await wait()
    except TimeoutError:
        kill()
        return await wait()


def hide_folders(text: str) -> str:
    """Replace each absolute path in a text by its last part, because callers must not learn where files are."""
    return _PATH.sub(r"\1", text)


def count_oom_kills() -> int | None:
    """Return how many processes Linux has killed for lack of memory, in any cgroup; None where it can't be known."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return None
