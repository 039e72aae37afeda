"""This machine's side of the channel to an agent on a host."""

import os
import select
import subprocess
import tempfile
import time
from typing import TypeVar

from msgspec import DecodeError, json

from orchard.cluster.agent import HostAnswer, HostProblem, HostQuestion
from orchard.cluster.hostfile import ClusterHost
from orchard.cluster.remote import MARK, command_on

A = TypeVar("A")
_SECONDS = 60.0  # to connect, to start Python there, and to read a model's headers from a slow disk
_MOST_BYTES = 2**24
_answers: json.Decoder[HostAnswer] = json.Decoder(HostAnswer)


class HostError(Exception):
    """A host can't be reached or can't answer. The message is what ssh or the host says."""


class AgentClient:
    """An agent on a host, over ssh unless it is this machine. Leave its context to end it."""

    def __init__(self, host: ClusterHost) -> None:
        """Start it. If that fails, the first question raises HostError."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the process
        self._process = subprocess.Popen(
            command_on(host, "orchard.cluster.agent"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._unread = b""
        self._has_begun = False

    def __enter__(self) -> "AgentClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe:
                pipe.close()

    def ask(self, question: HostQuestion, kind: type[A]) -> A:
        """Return the answer. Raise HostError if there is none."""
        assert self._process.stdin
        try:
            if not self._has_begun:
                self._read_until(MARK)
                self._has_begun = True
            os.write(self._process.stdin.fileno(), json.encode(question) + b"\n")
            answer = _answers.decode(self._read_until(b"\n"))
        except (OSError, EOFError):
            raise HostError(self._last_words()) from None
        except DecodeError as error:
            raise HostError(f"what it sent is no answer ({error})") from None
        if isinstance(answer, HostProblem):
            raise HostError(answer.reason)
        if not isinstance(answer, kind):
            raise HostError(f"what it sent is no answer to this question, but a {type(answer).__name__}")
        return answer

    def _read_until(self, end: bytes) -> bytes:
        """Return what comes before `end`. Raise EOFError, also if it takes too long."""
        assert self._process.stdout
        poll, until = select.poll(), time.monotonic() + _SECONDS
        poll.register(self._process.stdout.fileno(), select.POLLIN)
        while end not in self._unread:
            left = until - time.monotonic()
            if left <= 0 or len(self._unread) > _MOST_BYTES:
                self._process.kill()
                raise EOFError
            if poll.poll(left * 1000):
                data = os.read(self._process.stdout.fileno(), 2**16)
                if not data:
                    raise EOFError
                self._unread += data
        found, _, self._unread = self._unread.partition(end)
        return found

    def _last_words(self) -> str:
        """Return the last line that ssh or the host has written as an error."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read(_MOST_BYTES).decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), f"it ended with exit code {code}")
