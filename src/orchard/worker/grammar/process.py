"""Grammars are written in a process of their own.

Some schemas, patterns and grammars take hours or all memory to compile, and llguidance's recursion can overflow its
stack: what asks for such a thing is refused, and nobody else notices. A process that reached its end is replaced.

Questions and answers are msgpack behind a length of four bytes, on the process's standard input and output. The
process ends with its input.
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
from typing import IO

import msgspec
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.worker.grammar.writer import GrammarRequest, GrammarText, GrammarWriter

SECONDS = 5.0
"""What writing one grammar may take, of the CPU's time."""
_BYTES = 2 * 2**30  # of addresses
_STACK_BYTES = 4 * 2**20  # less than the thread has that compiles the same grammar in the worker
_NICENESS = 5  # whoever decodes goes first
_LENGTH_BYTES = 4
_TOO_SLOW = "compiling it takes too long"
_TOO_LARGE = "compiling it takes too much memory"


class _RefusedReply(Struct, frozen=True, tag="refused"):
    """What can't be kept. `param`: the field to blame, where it isn't the one that asked for the grammar."""

    message: str
    param: str | None = None


class _BrokenReply(Struct, frozen=True, tag="broken"):
    """A mistake of ours."""

    message: str


class _DoneReply(Struct, frozen=True, tag="done"):
    written: GrammarText | None


_Answer = _RefusedReply | _BrokenReply | _DoneReply
_encoder = msgspec.msgpack.Encoder()
_questions = msgspec.msgpack.Decoder(GrammarRequest)
_answers: msgspec.msgpack.Decoder[_Answer] = msgspec.msgpack.Decoder(_Answer)


class GrammarProcess:
    """A process that writes grammars, started with the first one. `write` belongs to one thread."""

    def __init__(self, special: Mapping[str, int], seconds: float = SECONDS) -> None:
        """See `GrammarWriter`. `seconds`: of the CPU's time for one grammar."""
        self._special = _encoder.encode(dict(special))
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, wanted: GrammarRequest) -> GrammarText | None:
        """Do what `GrammarWriter.write` does, and raise what it raises; ValueError also for what takes too much."""
        process = self._process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        with suppress(BrokenPipeError):
            _send(process.stdin, _encoder.encode(wanted))
        answer = _receive(process.stdout)
        if answer is None:
            self._process = None
            _end(process)
            raise ValueError(_TOO_SLOW if process.returncode == -signal.SIGPROF else _TOO_LARGE)
        match _answers.decode(answer):
            case _RefusedReply(message, None):
                raise ValueError(message)
            case _RefusedReply(message, param):
                raise OrchardError("invalid_request", message, param=param)
            case _BrokenReply(message):
                raise RuntimeError(message)
            case _DoneReply(written):
                return written

    def close(self) -> None:
        """End the process, whatever it does. Any thread may call this."""
        if process := self._process:
            _end(process)

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "orchard.worker.grammar.process", "--seconds", str(self._seconds)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin
        with suppress(BrokenPipeError):
            _send(process.stdin, self._special)
        return process


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(BrokenPipeError), process:  # it closes the pipes and waits
        process.kill()


def _send(file: IO[bytes], message: bytes) -> None:
    file.write(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
    file.flush()


def _receive(file: IO[bytes]) -> bytes | None:
    """Return the next message, or None at the end."""
    head = file.read(_LENGTH_BYTES)
    size = int.from_bytes(head, "big")
    body = file.read(size) if len(head) == _LENGTH_BYTES else b""
    return body if head and len(body) == size else None


def _answered(writer: GrammarWriter, wanted: GrammarRequest) -> _Answer:
    try:
        return _DoneReply(writer.write(wanted))
    except OrchardError as error:
        return _RefusedReply(error.message, error.param)
    except ValueError as error:
        return _RefusedReply(str(error))
    except MemoryError:
        return _RefusedReply(_TOO_LARGE)
    except Exception as error:
        return _BrokenReply(f"{type(error).__name__}: {error}")


def _serve(questions: IO[bytes], answers: IO[bytes], seconds: float) -> None:
    special = _receive(questions)
    if special is None:
        return
    writer = GrammarWriter(msgspec.msgpack.decode(special, type=dict[str, int]))
    while (question := _receive(questions)) is not None:
        # Unlike a handler of Python's, the signal's own action ends the process also within native code.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        answer = _answered(writer, _questions.decode(question))
        signal.setitimer(signal.ITIMER_PROF, 0)
        with suppress(BrokenPipeError):  # the worker was killed: the next question is the end
            _send(answers, _encoder.encode(answer))


def main() -> None:
    """Answer questions until their end."""
    parser = argparse.ArgumentParser(prog="orchard.worker.grammar.process")
    parser.add_argument("--seconds", type=float, required=True)
    seconds = parser.parse_args().seconds
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the worker decides when this ends
    os.nice(_NICENESS)
    with suppress(ValueError, OSError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    threading.stack_size(_STACK_BYTES)
    thread = threading.Thread(target=_serve, args=(sys.stdin.buffer, answers, seconds))
    thread.start()
    thread.join()


if __name__ == "__main__":
    main()
