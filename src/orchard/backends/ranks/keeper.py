"""The parent of a rank, which ends the rank for certain: it does nothing but wait.

A collective operation has no time limit and can't be interrupted, and a stopped process ends nothing. So when the
channel to rank 0 closes, this process kills the rank. When the rank ends, this process ends, which closes the channel.
The channel is the standard input and output of both; only the rank reads and writes it.
"""

import os
import select
import signal
import subprocess
import sys
import threading

_HANGUP = select.POLLHUP | getattr(select, "POLLRDHUP", 0)  # macOS reports the first for both


def main() -> None:
    """Keep one rank."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # rank 0 decides when a rank ends
    # The rank ends when nobody has the other end of this pipe: it must not outlive its parent.
    lifeline, _kept = os.pipe()
    rank = subprocess.Popen(
        [sys.executable, "-m", "orchard.backends.ranks.rank", "--lifeline", str(lifeline)], pass_fds=[lifeline]
    )

    def wait_for_hangup() -> None:
        poll = select.poll()
        poll.register(sys.stdin.fileno(), _HANGUP)
        poll.poll()
        rank.kill()

    threading.Thread(target=wait_for_hangup, daemon=True).start()
    rank.wait()
    os._exit(0)


if __name__ == "__main__":
    main()
