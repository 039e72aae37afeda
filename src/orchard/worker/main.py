"""The worker's main loop: frames from the socket go to the service, the service's events go to the socket."""

import argparse
import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time

import msgspec

from orchard import wire
from orchard.backends.service import Service
from orchard.core.errors import OrchardError
from orchard.core.events import Event
from orchard.core.options import TextOptions

log = logging.getLogger("orchard.worker")

_SWITCH_SECONDS = 0.0005


def _service(backend: str, path: str, options: TextOptions) -> Service:
    if backend == "fake":
        from orchard.backends.fake import FakeService

        return FakeService(path, options)
    from orchard.worker.text import TextService

    return TextService(path, options)


async def serve(sock: socket.socket, service: Service) -> None:
    """Load the model, say Ready or LoadFailed, and serve requests until the gateway closes the socket."""
    reader, writer = await asyncio.open_connection(sock=sock)

    def emit(events: list[tuple[str, list[Event]]], running: int, waiting: int) -> None:
        writer.write(wire.encode(wire.Step(events, running, waiting)))

    begin = time.monotonic()
    try:
        await service.start(emit)
    except OrchardError as error:
        log.error("loading failed: %s", error.message)
        writer.write(wire.encode(wire.LoadFailed(error.message)))
        with contextlib.suppress(ConnectionError):  # the gateway is gone and doesn't need to know
            await writer.drain()
        return
    writer.write(wire.encode(wire.Ready(time.monotonic() - begin)))
    answers: set[asyncio.Task[None]] = set()
    while (message := await wire.read(reader)) is not None:
        match message:
            case wire.Submit(request):
                service.submit(request)
            case wire.Cancel(request_id):
                service.cancel(request_id)
            case wire.AskCache(number, request_id):
                task = asyncio.create_task(_tell_cache(writer, service, number, request_id))
                answers.add(task)
                task.add_done_callback(answers.discard)
    for task in answers:
        task.cancel()
    await service.close()


async def _tell_cache(writer: asyncio.StreamWriter, service: Service, number: int, request_id: str | None) -> None:
    writer.write(wire.encode(wire.CacheIs(number, await service.cache(request_id))))


def main() -> None:
    """Run one worker on the socket whose file descriptor the gateway passed down."""
    parser = argparse.ArgumentParser(prog="orchard.worker")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--backend", choices=("text", "fake"), required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--options", default="{}", help="TextOptions as JSON")
    parser.add_argument("--log-level", default="info")
    args = parser.parse_args()
    logging.basicConfig(level=args.log_level.upper(), format="%(asctime)s %(levelname)-7s worker %(message)s")
    # Ctrl-C reaches the whole process group, systemd's SIGTERM too; it is the gateway that decides when a worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The engine's thread waits so long for its turn where another computes; by default, 5 ms are as long as a step.
    sys.setswitchinterval(_SWITCH_SECONDS)
    options = msgspec.json.decode(args.options, type=TextOptions)
    asyncio.run(serve(socket.socket(fileno=args.fd), _service(args.backend, args.path, options)))
