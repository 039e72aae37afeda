"""The cost of the gateway and its socket to the worker, with a model that costs nothing: events per second, and delay.

throughput: 64 streams, each as fast as possible: events per second in total, and the number of events per chunk (if the
client or the gateway lags, a chunk has several).
delay: 64 streams with 2,000 events/s in total: the time from an event's creation in the worker to its arrival in this
process.
Prints one JSON line each.
"""

import argparse
import asyncio
import json
import re
import statistics
import time

import msgspec
from tests.support.serving import Server, serve

from orchard.backends.fake import Script

_STREAMS = 64
_STAMP = re.compile(rb"(\d+\.\d{6}) ")


async def _play(server: Server, script: Script) -> list[tuple[float, bytes]]:
    """Stream a script; give each read's time and bytes. Nothing is parsed meanwhile, so that the client stays cheap."""
    messages = [{"role": "user", "content": msgspec.json.encode(script).decode()}]
    body = json.dumps({"model": "fake", "stream": True, "messages": messages}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    )
    reads: list[tuple[float, bytes]] = []
    while not (reads and b"[DONE]" in reads[-1][1][-32:]):
        data = await reader.read(1 << 20)
        assert data, "the server closed the connection"
        reads.append((time.monotonic(), data))
    writer.close()
    return reads


async def throughput(server: Server, pieces: int) -> dict[str, float]:
    """Events per second over all streams, and events per chunk."""
    begin = time.monotonic()
    streams = await asyncio.gather(*(_play(server, Script(pieces=pieces)) for _ in range(_STREAMS)))
    seconds = time.monotonic() - begin
    whole = [b"".join(data for _, data in reads) for reads in streams]
    chunks = sum(text.count(b'"content":"x') for text in whole)
    return {"events_s": _STREAMS * pieces / seconds, "events_per_chunk": _STREAMS * pieces / chunks}


async def delay(server: Server, rate: float, seconds: float) -> dict[str, float]:
    """Percentiles of the delay in milliseconds."""
    interval = _STREAMS / rate
    script = Script(pieces=int(seconds / interval), interval=interval, stamp=True)

    async def one(index: int) -> list[tuple[float, bytes]]:
        await asyncio.sleep(index * interval / _STREAMS)  # spread the streams evenly over the interval
        return await _play(server, script)

    streams = await asyncio.gather(*(one(index) for index in range(_STREAMS)))
    delays = [
        (arrival - float(stamp)) * 1e3 for reads in streams for arrival, data in reads for stamp in _STAMP.findall(data)
    ]
    percentiles = statistics.quantiles(delays, n=100)
    return {"events": len(delays), "p50_ms": percentiles[49], "p99_ms": percentiles[98], "max_ms": max(delays)}


async def measure(runs: int) -> None:
    with serve() as server:
        await asyncio.to_thread(server.until, state="ready")
        await throughput(server, 50)
        for name, rows in (
            ("throughput", [await throughput(server, 1000) for _ in range(runs)]),
            ("delay", [await delay(server, 2000, 5) for _ in range(runs)]),
        ):
            medians = {key: round(statistics.median(row[key] for row in rows), 2) for key in rows[0]}
            print(
                json.dumps({"benchmark": f"gateway {name}", "streams": _STREAMS, "runs": runs, **medians}), flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    asyncio.run(measure(parser.parse_args().runs))


if __name__ == "__main__":
    main()
