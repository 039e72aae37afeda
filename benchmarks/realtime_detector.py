"""What the detector of speech takes of the gateway's event loop: `python -m benchmarks.realtime_detector`.

Sessions send audio in real time, in pieces of 20 ms. The detector runs in the event loop: this measures its CPU time,
and how late a timer of the same loop is meanwhile.
"""

import argparse
import asyncio
import json
import time

import numpy as np

from orchard.dialects.openai.realtime.schema import ServerVad
from orchard.gateway.realtime.microphone import Microphone
from orchard.gateway.realtime.samples import FORMATS
from orchard.gateway.realtime.silero.network import use_one_thread

PIECE = 0.02


async def listen(microphone: Microphone, piece: bytes, pieces: int) -> None:
    """Send pieces in real time."""
    begin = time.monotonic()
    for number in range(pieces):
        await asyncio.sleep(max(0.0, begin + number * PIECE - time.monotonic()))
        for _ in microphone.append(piece):
            pass


async def watch(lates: list[float]) -> None:
    """Measure how late a timer of 5 ms is, in seconds."""
    while True:
        due = time.monotonic() + 0.005
        await asyncio.sleep(0.005)
        lates.append(time.monotonic() - due)


async def measure(sessions: int, seconds: float) -> None:
    """Measure and print."""
    detection = ServerVad()
    sound = np.random.default_rng(0).integers(-900, 900, int(24_000 * PIECE)).astype("<i2").tobytes()
    microphones = [Microphone(FORMATS["audio/pcm"], detection) for _ in range(sessions)]
    lates: list[float] = []
    watching = asyncio.create_task(watch(lates))
    begin, cpu = time.monotonic(), time.thread_time()
    await asyncio.gather(asyncio.sleep(seconds), *(listen(one, sound, int(seconds / PIECE)) for one in microphones))
    took, cpu = time.monotonic() - begin, time.thread_time() - cpu
    watching.cancel()
    windows = max(sessions, 1) * took / 0.032
    late, later = np.percentile(lates, (50, 99)) * 1000
    found = {
        "sessions": sessions,
        "core": round(cpu / took, 4),
        "us_per_window": round(cpu / windows * 1e6, 1),
        "timer_late_ms": round(late, 2),
        "timer_late_ms_p99": round(later, 2),
    }
    print(json.dumps(found), flush=True)


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sessions", type=int, nargs="+", default=[0, 1, 20])
    options.add_argument("--seconds", type=float, default=10.0)
    given = options.parse_args()
    use_one_thread()
    for sessions in given.sessions:
        asyncio.run(measure(sessions, given.seconds))


if __name__ == "__main__":
    main()
