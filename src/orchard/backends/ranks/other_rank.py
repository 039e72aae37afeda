"""Another rank, as rank 0 sees it: its process, the threads that read its messages, and its signs of life."""

import logging
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NoReturn, TypeVar

from msgspec import DecodeError, msgpack

from orchard.backends.ranks.messages import (
    FromRank,
    RankEnded,
    RankFailed,
    RankLoaded,
    RankMemory,
    RankProgress,
    RankReady,
)
from orchard.cluster.hostfile import ClusterHost
from orchard.cluster.remote import BEAT_SECONDS, MARK, command_on
from orchard.core.device_memory import RankReport
from orchard.core.errors import OrchardError
from orchard.engine.ranks.channel import Channel

log = logging.getLogger("orchard.worker")

M = TypeVar("M")
GPUS = "CUDA_VISIBLE_DEVICES"
_CRASH_STATUS = 70  # sysexits.h: EX_SOFTWARE
_MOST_GREETING_BYTES = 2**16  # that the files of a shell may write
_LOOK_SECONDS = 1.0
_SECONDS_TO_EXPLAIN = 1.0  # for ssh, after the channel has closed
_SECONDS_TO_END = 0.5
_messages: msgpack.Decoder[FromRank] = msgpack.Decoder(FromRank)


class OtherRank:
    """A rank on this machine or another one."""

    def __init__(self, rank: int, host: ClusterHost, variables: Mapping[str, str], gpu: str | None = None) -> None:
        """Start it. `variables` of its environment must not be secret. `gpu`: its own one of this machine, for CUDA.

        Raise OSError if that is not possible.
        """
        self.rank, self.host = rank, host
        self.shares_memory = host.is_local and gpu is None
        """Whether what it holds is taken of rank 0's memory."""
        variables = {**variables, GPUS: gpu} if gpu else variables
        self.name = f"rank {rank}" if host.is_local else f"rank {rank} ({host.ssh})"
        self.progress = 0.0
        """How much of its part is in memory, from 0 to 1."""
        self.memory = RankMemory(0, 0, 0)
        """What it has reported last."""
        self.ready: RankReady | None = None
        """What it takes, once it can serve."""
        self.on_memory: Callable[[], None] = lambda: None
        """Called in a thread when the memory there has changed."""
        self._reports: queue.SimpleQueue[FromRank] = queue.SimpleQueue()
        self._joined = False
        self._uses_ssh = not host.is_local
        self._last_line = ""
        arguments = [f"--env={name}={value}" for name, value in variables.items()]
        ours, theirs = socket.socketpair()
        self._socket = ours
        with theirs:
            self._process = subprocess.Popen(
                command_on(host, "orchard.backends.ranks.keeper", arguments),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=None if host.is_local else subprocess.PIPE,
                # ssh ends with this process's group, which the gateway ends.
                start_new_session=host.is_local,
            )
        self.channel = Channel(ours.fileno(), ours.fileno())
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"{self.name}: {work.__name__}", daemon=True)
            for work in (self._read_errors, self._read_messages, self._send_beats)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def report(self) -> RankReport:
        """What is known of it."""
        memory = self.memory
        return RankReport(
            self.rank, self.host.ssh, self.progress, memory.mlx_bytes, memory.free_bytes, self.shares_memory
        )

    def find_room(self) -> float | None:
        """Return for how many rows of some length there is memory; None: that isn't known."""
        if not self.ready or not self.ready.row_bytes:
            return None
        return max(self.memory.allowed_bytes - self.ready.weights_bytes, 0) / self.ready.row_bytes

    def expect_end(self) -> None:
        """From now on, end this process, and so the group, if this rank ends: the engine may wait for it, without end.

        Raise OrchardError("model_failed") if it has ended already.
        """
        self._joined = True
        if not self._reports.empty():
            self.wait_for(RankLoaded, _LOOK_SECONDS, lambda: None)

    def wait_for(self, kind: type[M], seconds: float, advance: Callable[[], None]) -> M:
        """Wait for a message of a kind, at most `seconds` without a message. Call `advance` at each sign of life.

        Raise OrchardError("model_failed") if the rank fails instead.
        """
        until = time.monotonic() + seconds
        while True:
            try:
                report = self._reports.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if time.monotonic() >= until:
                    raise OrchardError("model_failed", f"{self.name} did not answer for {seconds:g} s") from None
                continue
            until = time.monotonic() + seconds
            advance()
            if isinstance(report, kind):
                return report
            if isinstance(report, RankFailed):
                raise OrchardError("model_failed", f"{self.name} can't load its part: {report.message}")

    def end(self) -> None:
        """End it for certain: its parent kills it when the channel closes. So the parent itself must not be killed."""
        self._ended.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_END)
        if self._uses_ssh:
            self._process.kill()  # it may be stopped
            self._process.wait()
        for thread in self._threads:
            thread.join(_SECONDS_TO_END)
        self._socket.close()

    def _read_messages(self) -> None:
        try:
            self.channel.skip_until(MARK, _MOST_GREETING_BYTES)
            while True:
                match message := _messages.decode(self.channel.receive()):
                    case RankEnded():
                        return
                    case RankFailed(reason, in_load=False) if self._joined:
                        self._end_process(reason)
                    case RankProgress(fraction):
                        self.progress = max(0.0, min(1.0, fraction))
                    case RankMemory():
                        self.memory = message
                        self.on_memory()
                        continue
                    case RankReady():
                        self.ready = message
                        self.on_memory()
                        continue
                self._reports.put(message)
                if isinstance(message, RankFailed):
                    return
        except (EOFError, OSError, DecodeError) as error:
            self._threads[0].join(_SECONDS_TO_EXPLAIN)
            reason = self._last_line or "its process ended"
            if isinstance(error, DecodeError):
                reason = f"what it sent is no message ({error})"
            self._reports.put(RankFailed(reason, in_load=True))
            if self._joined and not self._ended.is_set():
                self._end_process(reason)

    def _read_errors(self) -> None:
        """Write what ssh and the rank say to this process's log; ssh's last line says why there is no connection."""
        if not self._process.stderr:
            return
        with self._process.stderr as errors:
            for line in errors:
                self._last_line = line.decode(errors="replace").strip() or self._last_line
                print(f"{self.name}: {self._last_line}", file=sys.stderr, flush=True)

    def _send_beats(self) -> None:
        with suppress(OSError):
            while not self._ended.wait(BEAT_SECONDS):
                self.channel.send_beat()

    def _end_process(self, reason: str) -> NoReturn:
        log.critical("%s: %s; the model's other ranks end, too", self.name, reason)
        logging.shutdown()
        print(f"{self.name}: {reason}", file=sys.stderr, flush=True)  # the gateway takes this as the reason
        os._exit(_CRASH_STATUS)
