"""`python -m orchard.cluster.agent`: answers the questions of `orchard cluster check` on a host. It imports no MLX.

Questions and answers are lines of JSON on its standard input and output.
"""

import os
import socket
import statistics
import sys
import threading
import time

from msgspec import Struct, json

from orchard import system_memory
from orchard.cluster.host_facts import HostFacts, read_facts
from orchard.cluster.remote import MARK

_SECONDS = 5.0
_ROUNDS = 40
_PING = bytes(64)
_MOST_BYTES = 2 * _ROUNDS * len(_PING)


class DescribeHost(Struct, frozen=True, tag="describe"):
    """What is there? The answer is a `HostDescription`. `folders`: of models."""

    folders: list[str]


class ListenOnHost(Struct, frozen=True, tag="listen"):
    """Listen on an address for one connection, and send back what comes. The answer is a `ListeningHost`."""

    ip: str


class TimeLink(Struct, frozen=True, tag="time"):
    """Connect from one address to another, where an agent listens. The answer is a `LinkTime`."""

    own_ip: str
    ip: str
    port: int


class HostDescription(Struct, frozen=True, tag="description"):
    """Versions and, for each folder, the model's files; memory in bytes."""

    facts: list[HostFacts]
    free_bytes: int
    total_bytes: int


class ListeningHost(Struct, frozen=True, tag="listening"):
    """The port on which it listens."""

    port: int


class LinkTime(Struct, frozen=True, tag="time"):
    """The median time of a small message there and back."""

    milliseconds: float


class HostProblem(Struct, frozen=True, tag="problem"):
    """It can't answer."""

    reason: str


HostQuestion = DescribeHost | ListenOnHost | TimeLink
HostAnswer = HostDescription | ListeningHost | LinkTime | HostProblem


def main() -> None:
    """Answer until there are no more questions."""
    os.write(sys.stdout.fileno(), MARK)
    for line in sys.stdin.buffer:
        try:
            answer = _find_answer(json.decode(line, type=HostQuestion))
        except OSError as error:
            answer = HostProblem(error.strerror or str(error))
        os.write(sys.stdout.fileno(), json.encode(answer) + b"\n")


def _find_answer(question: HostQuestion) -> HostAnswer:
    """Return the answer. Raise OSError."""
    match question:
        case DescribeHost(folders):
            memory = system_memory.read_system_memory()
            facts = [read_facts(folder) for folder in folders or (None,)]
            return HostDescription(facts, memory.available_bytes, memory.total_bytes)
        case ListenOnHost(ip):
            server = socket.create_server((ip, 0))
            threading.Thread(target=_echo, args=(server,), daemon=True).start()
            return ListeningHost(server.getsockname()[1])
        case TimeLink(own_ip, ip, port):
            with socket.create_connection((ip, port), _SECONDS, (own_ip, 0)) as link:
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return LinkTime(1000 * statistics.median(_time_round(link) for _ in range(_ROUNDS)))


def _time_round(link: socket.socket) -> float:
    begin = time.perf_counter()
    link.sendall(_PING)
    missing = len(_PING)
    while missing:
        part = len(link.recv(missing))
        if not part:
            raise ConnectionResetError("the connection was closed")
        missing -= part
    return time.perf_counter() - begin


def _echo(server: socket.socket) -> None:
    """Send back what the first connection sends, up to a limit of bytes and time."""
    with server:
        server.settimeout(_SECONDS)
        try:
            link, _ = server.accept()
            with link:
                link.settimeout(_SECONDS)
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                left = _MOST_BYTES
                while left > 0 and (data := link.recv(len(_PING))):
                    link.sendall(data)
                    left -= len(data)
        except OSError:
            pass  # the agent that connects reports the failure


if __name__ == "__main__":
    main()
