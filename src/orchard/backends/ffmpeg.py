"""Runs ffmpeg through pipes that never block: for videos, and for audio formats that no library here supports."""

import os
import re
import selectors
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Literal

STALL_SECONDS = 60.0
"""How long ffmpeg may neither read nor write while the caller waits for it."""
MISSING_MESSAGE = (
    "ffmpeg is not installed on the server. Install it (macOS: brew install ffmpeg; Debian, Ubuntu: apt install ffmpeg)"
)
_MACOS_FOLDERS = ("/opt/homebrew/bin", "/usr/local/bin")  # a server that launchd starts has neither in its PATH
_PIECE_BYTES = 65_536
_ERROR_OUTPUT_BYTES = 2**18
# "[in#0/mov @ 0x55] [dec:aac @ 0x56] ", and "Terminating thread with return code -22 (Invalid argument)".
_LOG_PREFIX = re.compile(r"(\[[^\]]* @ 0x[0-9a-f]+\] )+")
_CODED_REASON = re.compile(r".* -?\d+ \((.+)\)")
_MOST_ALLOCATED = 512 * 2**20  # in one block


class FfmpegError(Exception):
    """ffmpeg failed; the message is the reason and contains no path."""


def find_ffmpeg() -> str | None:
    """Return ffmpeg's path, or None if it is not installed."""
    return shutil.which("ffmpeg") or shutil.which("ffmpeg", path=os.pathsep.join(_MACOS_FOLDERS))


class Ffmpeg:
    """One run of ffmpeg, which is killed when the context ends. If this process dies, its pipes close, and ffmpeg ends.

    In the arguments, `pipe:0` is the data from `feed`, and `pipe:1` is the output. `cpu_seconds`: the CPU time after
    which ffmpeg ends, even if it never reads or writes. Raise FfmpegError if ffmpeg is missing or can't be started.
    """

    def __init__(
        self, arguments: Sequence[str], *, level: Literal["error", "info"] = "error", cpu_seconds: int | None = None
    ) -> None:
        program = find_ffmpeg()
        if program is None:
            raise FfmpegError(MISSING_MESSAGE)
        limits = ["-nostdin", "-hide_banner", "-nostats", "-v", level, "-max_alloc", str(_MOST_ALLOCATED)]
        limited = ["/bin/sh", "-c", 'ulimit -t "$0" && exec "$@"', str(cpu_seconds)] if cpu_seconds else []
        self._words = b""
        try:
            self._process = subprocess.Popen(
                [*limited, program, *limits, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
            )
        except OSError as error:
            raise FfmpegError(f"ffmpeg can't be started: {error.strerror or error}") from error
        pipes = self._process.stdin, self._process.stdout, self._process.stderr
        self._stdin, self._stdout, self._stderr = (pipe.fileno() for pipe in pipes if pipe)
        self._waiting = selectors.DefaultSelector()
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe, False)
        for pipe in (self._stdout, self._stderr):
            self._waiting.register(pipe, selectors.EVENT_READ)

    def __enter__(self) -> "Ffmpeg":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Kill the process if it still runs."""
        self._process.kill()
        self._process.wait()
        self._waiting.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe
            pipe.close()

    def feed(self, data: bytes) -> bytes:
        """Write all of `data` to ffmpeg; return what it writes meanwhile. Raise FfmpegError if it ends too early."""
        left: memoryview | None = memoryview(data)
        written = b""
        self._waiting.register(self._stdin, selectors.EVENT_WRITE)
        try:
            while left:
                ready = self._wait_for_pipes()
                if self._stdin in ready:
                    left = left[os.write(self._stdin, left[:_PIECE_BYTES]) :]
                written += self._read_pipes(ready)
        except BrokenPipeError:
            left = None
        finally:
            self._waiting.unregister(self._stdin)
        if left is None:
            for _ in self.read_rest():  # this raises the reason, if ffmpeg gives one
                pass
            raise FfmpegError("ffmpeg ended before it had read everything")
        return written

    def read_rest(self) -> Iterator[bytes]:
        """Close its input, and yield what it writes until it ends. Raise FfmpegError if it fails."""
        assert self._process.stdin
        self._process.stdin.close()
        while self._waiting.get_map():
            if piece := self._read_pipes(self._wait_for_pipes()):
                yield piece
        if self._process.wait():
            raise FfmpegError(self._reason())

    @property
    def error_output(self) -> str:
        """The end of its error output."""
        return self._words.decode(errors="replace")

    def _wait_for_pipes(self) -> set[int]:
        found = {key.fd for key, _ in self._waiting.select(STALL_SECONDS)}
        if not found:
            raise FfmpegError(f"ffmpeg did nothing for {STALL_SECONDS:g} seconds")
        return found

    def _read_pipes(self, ready: set[int]) -> bytes:
        """Return what the process has written; keep the end of its error output."""
        written = b""
        for pipe in ready & {self._stdout, self._stderr}:
            piece = os.read(pipe, _PIECE_BYTES)
            if not piece:
                self._waiting.unregister(pipe)
            elif pipe == self._stdout:
                written = piece
            else:
                self._words = (self._words + piece)[-_ERROR_OUTPUT_BYTES:]
        return written

    def _reason(self) -> str:
        """Return why it failed: the last line of its error output, without paths, addresses and codes before it."""
        lines = self.error_output.strip().splitlines()
        if not lines:
            return f"ffmpeg ended with {self._process.returncode}"
        said = _LOG_PREFIX.sub("", lines[-1], count=1).rpartition(": ")[2]
        coded = _CODED_REASON.fullmatch(said)
        return (coded[1] if coded else said)[:200]
