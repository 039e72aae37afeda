"""Writes grammars in a separate process.

Some schemas, patterns and grammars take hours or all memory to compile, and llguidance's recursion can overflow its
stack. A request with one of them is rejected, and others are not affected. A process that ends is replaced.

Its standard input is a socket, which carries requests and replies as msgpack. The process ends when it is closed.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import msgspec
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.worker.grammar.writer import GrammarRequest, GrammarText, GrammarWriter

SECONDS = 5.0
"""The CPU time that writing one grammar may take."""
_BYTES = 2 * 2**30  # of address space
_STACK_BYTES = 4 * 2**20  # less than that of the worker's thread, which compiles the same grammar
_NICENESS = 5  # decode goes first
_TOO_SLOW = "compiling it takes too long"
_TOO_LARGE = "compiling it takes too much memory"


class _Reply(Struct, frozen=True):
    """A grammar, or the reason why there is none: it can't be enforced (`refused`), or an error here (`broken`).

    `param`: the field to blame, if it isn't the one that asked for the grammar.
    """

    written: GrammarText | None = None
    refused: str | None = None
    param: str | None = None
    broken: str | None = None


_encoder = msgspec.msgpack.Encoder()
_questions = msgspec.msgpack.Decoder(GrammarRequest)
_replies = msgspec.msgpack.Decoder(_Reply)


class GrammarProcess:
    """A process that writes grammars; the first one starts it. Only one thread may call `write`."""

    def __init__(self, special: Mapping[str, int], seconds: float = SECONDS) -> None:
        """See `GrammarWriter`. `seconds`: the CPU time for one grammar."""
        self._special = _encoder.encode(dict(special))
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: Connection

    def write(self, wanted: GrammarRequest) -> GrammarText | None:
        """Call `GrammarWriter.write` in the process. Raise what it raises; ValueError also if it takes too much."""
        process = self._process = self._process or self._start()
        try:
            self._socket.send_bytes(_encoder.encode(wanted))
            reply = _replies.decode(self._socket.recv_bytes())
        except (EOFError, OSError):
            self.close()
            self._process = None
            raise ValueError(_TOO_SLOW if process.returncode == -signal.SIGPROF else _TOO_LARGE) from None
        if reply.broken:
            raise RuntimeError(reply.broken)
        if reply.refused is not None and reply.param:
            raise OrchardError("invalid_request", reply.refused, param=reply.param)
        if reply.refused is not None:
            raise ValueError(reply.refused)
        return reply.written

    def close(self) -> None:
        """Kill the process. Any thread may call this."""
        if process := self._process:
            process.kill()
            process.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "orchard.worker.grammar.process", "--seconds", str(self._seconds)]
        self._socket, its_end = Pipe()
        with its_end:
            process = subprocess.Popen(command, stdin=its_end.fileno())
        with suppress(OSError):
            self._socket.send_bytes(self._special)
        return process


def _reply(writer: GrammarWriter, wanted: GrammarRequest) -> _Reply:
    try:
        return _Reply(writer.write(wanted))
    except OrchardError as error:
        return _Reply(refused=error.message, param=error.param)
    except ValueError as error:
        return _Reply(refused=str(error))
    except MemoryError:
        return _Reply(refused=_TOO_LARGE)
    except Exception as error:
        return _Reply(broken=f"{type(error).__name__}: {error}")


def _serve(socket: Connection, seconds: float) -> None:
    with suppress(EOFError, OSError):  # the worker has closed its end, or was killed
        writer = GrammarWriter(msgspec.msgpack.decode(socket.recv_bytes(), type=dict[str, int]))
        while True:
            wanted = _questions.decode(socket.recv_bytes())
            # Unlike a Python handler, the signal's default action also ends the process inside native code.
            signal.setitimer(signal.ITIMER_PROF, seconds)
            reply = _reply(writer, wanted)
            signal.setitimer(signal.ITIMER_PROF, 0)
            socket.send_bytes(_encoder.encode(reply))


def main() -> None:
    """Answer requests until the input is closed."""
    parser = argparse.ArgumentParser(prog="orchard.worker.grammar.process")
    parser.add_argument("--seconds", type=float, required=True)
    seconds = parser.parse_args().seconds
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the worker decides when this ends
    os.nice(_NICENESS)
    with suppress(ValueError, OSError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    threading.stack_size(_STACK_BYTES)
    thread = threading.Thread(target=_serve, args=(Connection(os.dup(sys.stdin.fileno())), seconds))
    thread.start()
    thread.join()


if __name__ == "__main__":
    main()
