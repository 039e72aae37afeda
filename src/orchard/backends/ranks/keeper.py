"""The parent of a rank, which ends the rank for certain. It computes nothing, and runs on the rank's host.

A collective operation has no time limit and can't be interrupted, and a stopped process ends nothing. So this process
kills the rank when the channel to rank 0 closes, and when nothing has come over it for some time, as when a cable is
pulled. When the rank ends, this process ends, which closes the channel. The channel is the standard input and output:
this process reads it and hands the messages on, and the rank writes to it. If this process is stopped, the rank gets no
signs of life from it any more, and ends both.
"""

import argparse
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

from orchard.cluster.remote import BEAT_SECONDS, MARK, SILENT_SECONDS
from orchard.engine.ranks.channel import HEADER_BYTES, MOST_BYTES

_HANGUP = select.POLLHUP | getattr(select, "POLLRDHUP", 0)  # macOS reports the first for both
_CHUNK_BYTES = 2**16


def main() -> None:
    """Keep one rank."""
    parser = argparse.ArgumentParser(prog="orchard.backends.ranks.keeper")
    parser.add_argument("--env", action="append", default=[], help="a variable of the rank, NAME=value")
    variables = dict(one.split("=", 1) for one in parser.parse_args().env)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # rank 0 decides when a rank ends
    os.write(sys.stdout.fileno(), MARK)
    (lifeline, beats), (inbox, orders) = os.pipe(), os.pipe()
    rank = subprocess.Popen(
        [sys.executable, "-P", "-m", "orchard.backends.ranks.rank", "--lifeline", str(lifeline)],
        stdin=inbox,
        pass_fds=[lifeline],
        env=os.environ | variables,
    )
    os.close(lifeline)
    os.close(inbox)

    def kill_at_hangup() -> None:
        poll = select.poll()
        poll.register(sys.stdin.fileno(), _HANGUP)
        poll.poll()
        rank.kill()

    def kill_at_silence() -> None:
        with suppress(OSError):  # the channel broke
            _relay(orders)
        rank.kill()

    def send_beats() -> None:
        with suppress(OSError):  # the rank has ended
            while os.write(beats, b"."):
                time.sleep(BEAT_SECONDS)

    for work in (kill_at_hangup, kill_at_silence, send_beats):
        threading.Thread(target=work, daemon=True).start()
    rank.wait()
    os._exit(0)


def _relay(orders: int) -> None:
    """Hand the messages on to the rank, until rank 0 gives no sign of life any more, or sends what is no message."""
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_write_messages, args=(messages, orders), daemon=True).start()
    incoming, unread = sys.stdin.fileno(), bytearray()
    poll = select.poll()
    poll.register(incoming, select.POLLIN)
    while poll.poll(SILENT_SECONDS * 1000) and (data := os.read(incoming, _CHUNK_BYTES)):
        unread += data
        while len(unread) >= HEADER_BYTES:
            size = HEADER_BYTES + int.from_bytes(unread[:HEADER_BYTES], "big")
            if size > HEADER_BYTES + MOST_BYTES:
                return
            if len(unread) < size:
                break
            if size > HEADER_BYTES:
                messages.put(bytes(unread[:size]))
            del unread[:size]


def _write_messages(messages: "queue.SimpleQueue[bytes]", orders: int) -> None:
    """Write messages for the rank, which may be busy while signs of life arrive."""
    with suppress(OSError):
        while True:
            left = memoryview(messages.get())
            while left:
                left = left[os.write(orders, left) :]


if __name__ == "__main__":
    main()
