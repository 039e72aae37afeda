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
import time
from contextlib import ExitStack, suppress

import mlx.core as mx
from msgspec import msgpack
from msgspec.structs import astuple, replace

from orchard import system_memory
from orchard.backends.ranks.join import hold_addresses, join_group
from orchard.backends.ranks.messages import (
    RankEnded,
    RankFailed,
    RankHost,
    RankLoaded,
    RankMemory,
    RankProgress,
    RankQuestion,
    RankReady,
    RankStart,
)
from orchard.backends.ranks.shard import load_shard
from orchard.cluster.host_facts import read_facts
from orchard.cluster.remote import BEAT_SECONDS
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.device.memory import available_bytes, limit_device, recommended_bytes
from orchard.engine import memory
from orchard.engine.ranks.channel import Channel
from orchard.engine.ranks.follower import FollowingRunner
from orchard.engine.ranks.orders import Order
from orchard.engine.start import make_runner

log = logging.getLogger("orchard.worker")

_SILENT_SECONDS = 3 * BEAT_SECONDS  # the parent does nothing but wait: if it is silent, it is stopped
_REPORT_SECONDS = 1.0
_NOTICEABLE_BYTES = 32 * 2**20
_RESERVE = 20  # this part of what is free stays free, for other programs
_SECONDS_FOR_FILES = 5.0  # as rank 0: a worker that still saves to the folder leaves it in this time
_FAILED = 70  # sysexits.h: EX_SOFTWARE


def serve_rank(channel: Channel) -> None:
    """Serve until rank 0 says that the group ends. Raise EOFError if rank 0 ends, or what a step raises."""
    question = msgpack.decode(channel.receive(), type=RankQuestion)
    with ExitStack() as held:
        try:
            addresses = held.enter_context(hold_addresses(question.ips))
        except OSError as error:
            channel.send(RankFailed(f"it can't listen on {', '.join(question.ips)}: {error.strerror}", in_load=True))
            return
        channel.send(RankHost(read_facts(question.path), addresses, recommended_bytes(), available_bytes()))
        start = msgpack.decode(channel.receive(), type=RankStart)
    options = start.options
    if options.prompt_cache_dir:
        options = replace(options, prompt_cache_dir=os.path.expanduser(options.prompt_cache_dir))
    if not options.memory_limit:  # it shares no memory with rank 0
        options = replace(options, memory_limit=_allowed_bytes())
    limit_device(memory.memory_limit(options))
    threading.Thread(target=_report_memory, args=(channel, options), daemon=True).start()
    group = join_group(start, [channel])
    try:
        model = load_shard(
            os.path.expanduser(start.path), options, lambda fraction: channel.send(RankProgress(fraction)), group
        )
    except OrchardError as error:
        channel.send(RankFailed(error.message, in_load=True))
        return
    channel.send(RankLoaded())
    weights_bytes = mx.get_active_memory()
    runner, _ = make_runner(model, options, weights_bytes, lambda: None, group=group)
    channel.send(RankReady(weights_bytes, group.row_bytes))
    assert isinstance(runner, FollowingRunner)
    runner.store.wait_for_files(_SECONDS_FOR_FILES)
    while isinstance(order := group.next_order(), Order):
        runner.follow(order)
        if options.prompt_cache_dir:
            runner.save_until(group.has_order)
    runner.close(order.save_seconds)
    channel.send(RankEnded())


def _allowed_bytes() -> int:
    """Return what this rank may take on its host: what the device offers, as far as other programs leave it."""
    if system_memory.read_system_memory().elastic:
        return recommended_bytes()
    free = available_bytes()
    return min(recommended_bytes(), mx.get_active_memory() + mx.get_cache_memory() + free - free // _RESERVE)


def _report_memory(channel: Channel, options: TextOptions) -> None:
    """Tell rank 0 about the memory here, once a second at most, if it has changed noticeably."""
    last = RankMemory(0, 0, 0)
    with suppress(OSError):  # the channel is closed
        while True:
            held = mx.get_active_memory() + mx.get_cache_memory()
            allowed = min(_allowed_bytes(), memory.memory_limit(options))
            now = RankMemory(held, available_bytes(), allowed)
            if any(abs(new - old) >= _NOTICEABLE_BYTES for new, old in zip(astuple(now), astuple(last), strict=True)):
                channel.send(now)
                last = now
            time.sleep(_REPORT_SECONDS)


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
