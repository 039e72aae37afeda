"""A rank that is not 0: it loads its shard of the model, and takes the steps that rank 0 orders.

Its standard input has rank 0's messages, which its parent hands on; its standard output is the channel to rank 0. Its
log goes to the worker's.
"""

import argparse
import logging
import os
import select
import signal
import sys
import threading

import mlx.core as mx
from msgspec import msgpack

from orchard.backends.ranks.join import find_free_addresses, join_group
from orchard.backends.ranks.messages import (
    RankEnded,
    RankFailed,
    RankHost,
    RankLoaded,
    RankProgress,
    RankQuestion,
    RankStart,
)
from orchard.backends.ranks.shard import load_shard
from orchard.cluster.host_facts import read_facts
from orchard.cluster.remote import BEAT_SECONDS
from orchard.core.errors import OrchardError
from orchard.device.memory import available_bytes, limit_device, recommended_bytes
from orchard.engine import memory
from orchard.engine.ranks.channel import Channel
from orchard.engine.ranks.follower import FollowingRunner
from orchard.engine.ranks.orders import Order
from orchard.engine.start import make_runner

log = logging.getLogger("orchard.worker")

_SILENT_SECONDS = 3 * BEAT_SECONDS  # the parent does nothing but wait: if it is silent, it is stopped
_FAILED = 70  # sysexits.h: EX_SOFTWARE


def serve_rank(channel: Channel) -> None:
    """Serve until rank 0 says that the group ends. Raise EOFError if rank 0 ends, or what a step raises."""
    question = msgpack.decode(channel.receive(), type=RankQuestion)
    try:
        addresses = find_free_addresses(question.ips)
    except OSError as error:
        channel.send(RankFailed(f"it can't listen on {', '.join(question.ips)}: {error.strerror}", in_load=True))
        return
    channel.send(RankHost(read_facts(question.path), addresses, recommended_bytes(), available_bytes()))
    start = msgpack.decode(channel.receive(), type=RankStart)
    options = start.options
    limit_device(memory.memory_limit(options))
    group = join_group(start, [channel])
    try:
        model = load_shard(
            os.path.expanduser(start.path), options, lambda fraction: channel.send(RankProgress(fraction)), group
        )
    except OrchardError as error:
        channel.send(RankFailed(error.message, in_load=True))
        return
    channel.send(RankLoaded())
    runner, _ = make_runner(model, options, mx.get_active_memory(), lambda: None, group=group)
    assert isinstance(runner, FollowingRunner)
    while isinstance(order := group.next_order(), Order):
        runner.follow(order)
    channel.send(RankEnded())


def _end_with_parent(lifeline: int, parent: int) -> None:
    """Wait until the parent has ended or is silent, and end it and this process, also in a collective operation."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    while poll.poll(_SILENT_SECONDS * 1000) and os.read(lifeline, 4096):
        pass
    if os.getppid() == parent:
        os.kill(parent, signal.SIGKILL)
    os._exit(_FAILED)


def main() -> None:
    """Run one rank. Its parent kills it when rank 0 ends; if the parent ends first, it ends, too."""
    parser = argparse.ArgumentParser(prog="orchard.backends.ranks.rank")
    parser.add_argument("--lifeline", type=int, required=True, help="a pipe whose other end the parent has")
    lifeline = parser.parse_args().lifeline
    threading.Thread(target=_end_with_parent, args=(lifeline, os.getppid()), daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    channel = Channel(os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no message
    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)-7s rank %(message)s")
    try:
        serve_rank(channel)
    except (EOFError, BrokenPipeError):
        pass  # rank 0 says why
    except Exception as error:
        log.critical("a rank ends", exc_info=True)
        channel.send(RankFailed(f"{type(error).__name__}: {error}"))
    logging.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
