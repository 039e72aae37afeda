"""A rank that is not 0: it loads its shard of the model, and takes the steps that rank 0 orders.

Its standard input and output are the channel to rank 0, and its log goes to the worker's.
"""

import argparse
import logging
import os
import signal
import sys
import threading

import mlx.core as mx
from msgspec import msgpack

from orchard.backends.ranks.join import RankEnded, RankFailed, RankLoaded, RankStart, join_group
from orchard.backends.ranks.shard import load_shard
from orchard.core.errors import OrchardError
from orchard.device.memory import limit_device
from orchard.engine import memory
from orchard.engine.ranks.follower import FollowingRunner
from orchard.engine.ranks.group import Channel
from orchard.engine.ranks.orders import Order
from orchard.engine.start import make_runner

log = logging.getLogger("orchard.worker")


def serve_rank(channel: Channel) -> None:
    """Serve until rank 0 says that the group ends. Raise EOFError if rank 0 ends, or what a step raises."""
    start = msgpack.decode(channel.receive(), type=RankStart)
    options = start.options
    limit_device(memory.memory_limit(options))
    group = join_group(start, [channel])
    try:
        model = load_shard(start.path, options, lambda fraction: None, group)
    except OrchardError as error:
        channel.send(RankFailed(error.message, in_load=True))
        return
    channel.send(RankLoaded())
    runner, _ = make_runner(model, options, mx.get_active_memory(), lambda: None, group=group)
    assert isinstance(runner, FollowingRunner)
    while isinstance(order := group.next_order(), Order):
        runner.follow(order)
    channel.send(RankEnded())


def _end_with_parent(lifeline: int) -> None:
    """Wait until the parent has ended, and end this process, also within a collective operation."""
    os.read(lifeline, 1)
    os._exit(0)


def main() -> None:
    """Run one rank. Its parent kills it when rank 0 ends; if the parent ends first, it ends, too."""
    parser = argparse.ArgumentParser(prog="orchard.backends.ranks.rank")
    parser.add_argument("--lifeline", type=int, required=True, help="a pipe whose other end the parent has")
    lifeline = parser.parse_args().lifeline
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
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
