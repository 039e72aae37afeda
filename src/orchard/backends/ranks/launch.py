"""Rank 0's side: it starts the other ranks, and ends with them."""

import contextlib
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

from msgspec import msgpack
from msgspec.structs import replace

from orchard.backends.model_folder import Progress
from orchard.backends.ranks.join import FromRank, RankEnded, RankFailed, RankLoaded, RankStart, join_group
from orchard.backends.ranks.parallel import choose_parallel
from orchard.backends.ranks.shard import load_shard
from orchard.backends.text.model import TextModel
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.ranks.group import Channel

log = logging.getLogger("orchard.worker")

_CRASH_STATUS = 70  # sysexits.h: EX_SOFTWARE
_HOST = "127.0.0.1"
_messages: msgpack.Decoder[FromRank] = msgpack.Decoder(FromRank)


def load_shared_model(path: str, options: TextOptions, progress: Progress) -> TextModel:
    """Start the other ranks, and load all shards of a model; return rank 0's. `progress`: see `load_folder`.

    From then on, this process ends when another rank ends. Raise OrchardError("model_failed") with the reason.
    """
    options = replace(options, parallel=choose_parallel(Path(path), options))
    addresses = _free_addresses(options.ranks)
    starts = [RankStart(rank, addresses, path, options) for rank in range(options.ranks)]
    ranks = [_OtherRank(start) for start in starts[1:]]
    group = join_group(starts[0], [rank.channel for rank in ranks])
    model = load_shard(path, options, progress, group)
    for rank in ranks:
        rank.wait_until_loaded()
    return model


def _free_addresses(count: int) -> list[list[str]]:
    """Return addresses of this machine on which nobody listens, one for each rank."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((_HOST, 0))
        return [[f"{_HOST}:{one.getsockname()[1]}"] for one in sockets]


class _OtherRank:
    """A rank on this machine, and the thread that reads its messages."""

    def __init__(self, start: RankStart) -> None:
        """Start it. Raise OSError if there is no process or file left."""
        self._rank = start.rank
        self._reports: queue.SimpleQueue[RankLoaded | RankFailed] = queue.SimpleQueue()
        ours, theirs = socket.socketpair()
        with theirs:
            subprocess.Popen(
                [sys.executable, "-m", "orchard.backends.ranks.keeper"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                start_new_session=True,
            )
        descriptor = ours.detach()
        self.channel = Channel(descriptor, descriptor)
        self.channel.send(start)
        threading.Thread(target=self._read_messages, name=f"rank {start.rank}", daemon=True).start()

    def wait_until_loaded(self) -> None:
        """Wait until its shard is in memory. Raise OrchardError("model_failed") if it could not be loaded."""
        report = self._reports.get()
        if isinstance(report, RankFailed):
            raise OrchardError("model_failed", f"rank {self._rank} could not load its part: {report.message}")

    def _read_messages(self) -> None:
        while True:
            try:
                message = _messages.decode(self.channel.receive())
            except (EOFError, OSError):
                self._end_process("its process ended")
            match message:
                case RankEnded():
                    return
                case RankFailed(reason, in_load=False):
                    self._end_process(reason)
                case _:
                    self._reports.put(message)
                    if isinstance(message, RankFailed):
                        return

    def _end_process(self, reason: str) -> NoReturn:
        """End this process, and so the group: the engine may wait for that rank, without end."""
        log.critical("rank %d: %s; the model's other ranks end, too", self._rank, reason)
        logging.shutdown()
        print(f"rank {self._rank}: {reason}", file=sys.stderr, flush=True)  # the gateway takes this as the reason
        os._exit(_CRASH_STATUS)
