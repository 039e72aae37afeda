"""Does work on untrusted data in a separate process, where it can be ended for certain.

Native code can't be interrupted, may crash, and may take all memory. A process that exceeds its limits is killed, and
the next piece of work gets a new one.

The process's standard input is a socket, which carries questions and the pieces of answers. When the socket is closed,
the process ends.
"""

import argparse
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Literal, NamedTuple

import msgspec
import psutil
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.device.lane import check_cancelled

Answer = Callable[[bytes], Iterable[bytes]]
"""Does one piece of work: from a question to the pieces of its answer."""

_STACK_BYTES = 4 * 2**20  # less than the worker's thread has, which compiles the grammars that this process writes
_NICENESS = 5  # decode goes first
_LOOK_SECONDS = 0.1
_IDLE_BYTES = 512 * 2**20  # a process is killed if it holds more after its work
# Threads, and glibc's heaps for them, reserve address space that is never used.
_FRUGAL_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


class HelperLimits(NamedTuple):
    """What one piece of work may take: seconds of CPU time and of real time, and bytes of memory in all.

    The bytes limit the process's address space where the system can do that (Linux), and its resident memory.
    """

    cpu_seconds: float
    seconds: float
    memory_bytes: int


class TooSlowError(Exception):
    """A piece of work took too long."""


class TooLargeError(Exception):
    """A piece of work took too much memory, or it made the process crash, as an overflow of its stack does."""


class _Reply(Struct, frozen=True, array_like=True):
    """A piece of an answer, or how the answer ends; `end` None: another reply follows."""

    piece: memoryview = memoryview(b"")
    end: Literal["complete", "refused", "invalid", "too large", "broken"] | None = None
    message: str = ""
    param: str | None = None


_encoder = msgspec.msgpack.Encoder()
_replies = msgspec.msgpack.Decoder(_Reply)


class _RunningProcess(NamedTuple):
    process: "subprocess.Popen[bytes]"
    socket: Connection

    def end(self) -> int:
        """Kill the process and its children; return how it ended."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):  # macOS permits no signal to an ended process
                os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()

    def resident_bytes(self, *, of_children: bool = True) -> int:
        with suppress(psutil.Error):
            process = psutil.Process(self.process.pid)
            children = process.children(recursive=True) if of_children else []
            return sum(int(one.memory_info().rss) for one in (process, *children))
        return 0


class HelperProcess:
    """A process that does one kind of work; the first question starts it. Only one thread may call `ask`."""

    def __init__(self, work: str, limits: HelperLimits, argument: bytes = b"") -> None:
        """`work` names a function, as package.module:function, that takes `argument` and returns an `Answer`."""
        self.limits = limits
        self._work = work
        self._given = argument
        self._last: _RunningProcess | None = None
        self._idle = False
        self._look_at = 0.0

    def ask(self, question: bytes) -> Iterator[memoryview]:
        """Yield the pieces of the answer.

        Raise the work's own ValueError or OrchardError, TooSlowError, TooLargeError, or RuntimeError for any other
        error. If the caller of the lane's work is cancelled, kill the process and raise CallerCancelled.
        """
        running = self._last
        if running is None or not self._idle or running.process.poll() is not None:
            self.close()  # the process may still write an answer that was not read to its end
            running = self._last = self._start()
        self._idle = False
        begin = time.monotonic()
        self._look_at, deadline = begin + _LOOK_SECONDS, begin + self.limits.seconds
        ended = False
        try:
            running.socket.send_bytes(question)
            while (reply := self._read_reply(running, deadline)).end is None:
                yield reply.piece
            ended = running.resident_bytes(of_children=False) < _IDLE_BYTES
        except (EOFError, OSError):
            raise TooSlowError if running.end() == -signal.SIGPROF else TooLargeError from None
        finally:
            if self._last is running:
                self._idle = ended
            if not ended:
                running.end()
        _raise_failure(reply)

    def close(self) -> None:
        """Kill the process; the end of this object does so, too. Any thread may call this."""
        if last := self._last:
            last.end()

    __del__ = close

    def _start(self) -> _RunningProcess:
        cpu_seconds, _, memory_bytes = self.limits
        module = "orchard.backends.helper_process"
        limits = ["--cpu-seconds", str(cpu_seconds), "--memory-bytes", str(memory_bytes)]
        ours, its = Pipe()
        with its:
            process = subprocess.Popen(
                [sys.executable, "-m", module, self._work, *limits],
                stdin=its.fileno(),
                env=os.environ | _FRUGAL_ENVIRONMENT,
                process_group=0,
            )
        with suppress(OSError):
            ours.send_bytes(self._given)
        return _RunningProcess(process, ours)

    def _read_reply(self, running: _RunningProcess, deadline: float) -> _Reply:
        while True:
            ready = running.socket.poll(_LOOK_SECONDS)
            check_cancelled()
            if (now := time.monotonic()) > deadline:
                raise TooSlowError
            if now >= self._look_at:
                self._look_at = now + _LOOK_SECONDS  # a look takes longer than many a piece
                if running.resident_bytes() > self.limits.memory_bytes:
                    raise TooLargeError
            if ready:
                return _replies.decode(running.socket.recv_bytes())


def _raise_failure(reply: _Reply) -> None:
    match reply.end:
        case "refused":
            raise OrchardError("invalid_request", reply.message, param=reply.param)
        case "invalid":
            raise ValueError(reply.message)
        case "too large":
            raise TooLargeError
        case "broken":
            raise RuntimeError(reply.message)


def _replies_to(answer: Answer, question: bytes) -> Iterator[_Reply]:
    try:
        for piece in answer(question):
            yield _Reply(memoryview(piece))
        yield _Reply(end="complete")
    except OrchardError as error:
        yield _Reply(end="refused", message=error.message, param=error.param)
    except ValueError as error:
        yield _Reply(end="invalid", message=str(error))
    except MemoryError:
        yield _Reply(end="too large")
    except Exception as error:
        yield _Reply(end="broken", message=f"{type(error).__name__}: {error}")


def _answer_questions(socket: Connection, work: str, cpu_seconds: float) -> None:
    with suppress(EOFError, OSError):  # the worker has closed its end, or was killed
        given = socket.recv_bytes()
        answer: Answer = pkgutil.resolve_name(work)(given)
        while True:
            question = socket.recv_bytes()
            # Unlike a Python handler, the signal's default action also ends the process inside native code.
            signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
            for reply in _replies_to(answer, question):
                if reply.end:
                    signal.setitimer(signal.ITIMER_PROF, 0)
                socket.send_bytes(_encoder.encode(reply))


def main() -> None:
    """Answer questions until the input is closed."""
    parser = argparse.ArgumentParser(prog="orchard.backends.helper_process")
    parser.add_argument("work")
    parser.add_argument("--cpu-seconds", type=float, required=True)
    parser.add_argument("--memory-bytes", type=int, required=True)
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the worker decides when this ends
    os.nice(_NICENESS)
    with suppress(ValueError, OSError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (args.memory_bytes, args.memory_bytes))
    threading.stack_size(_STACK_BYTES)
    socket = Connection(os.dup(sys.stdin.fileno()))
    thread = threading.Thread(target=_answer_questions, args=(socket, args.work, args.cpu_seconds))
    thread.start()
    thread.join()


if __name__ == "__main__":
    main()
