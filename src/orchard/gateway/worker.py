"""One worker process as the gateway sees it: a socket, a process, and the streams that run through it."""

import asyncio
import itertools
import logging
import os
import socket
import sys
from collections.abc import Callable

import msgspec

from orchard import wire
from orchard.config import Settings
from orchard.core.cache import CacheState
from orchard.core.errors import OrchardError
from orchard.core.events import Failed
from orchard.core.request import Request
from orchard.gateway.registry import ModelEntry
from orchard.gateway.stream import EventStream

log = logging.getLogger("orchard.gateway.worker")

_CLOSE_SECONDS = 15.0  # it may save cached prompts, which it gives itself five seconds for


class Worker:
    """`run` spawns it. `on_change` is called when it becomes ready and when it is gone."""

    def __init__(self, entry: ModelEntry, settings: Settings, on_change: Callable[["Worker"], None]) -> None:
        self.entry = entry
        self.ready = False
        self.loaded = False
        """It has been ready, though it may be gone now."""
        self.failure: str | None = None
        """Why the model could not be loaded."""
        self.running = 0
        self.waiting = 0
        self._settings = settings
        self._on_change = on_change
        self._streams: dict[str, EventStream] = {}
        self._questions: dict[int, asyncio.Future[CacheState]] = {}
        self._numbers = itertools.count()
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._closing = False

    @property
    def pid(self) -> int | None:
        """The process id, once there is a process."""
        return self._process.pid if self._process else None

    async def run(self) -> None:
        """Start the process and carry its frames until it is gone; every stream has ended when this returns."""
        try:
            reader = await self._spawn()
            while (message := await wire.read(reader)) is not None:
                self._receive(message)
        except wire.WireError as error:
            log.error("%s: the worker broke the protocol: %s", self.entry.id, error)
        except OSError as error:
            self.failure = f"its process can't be started: {error.strerror or error}"
        finally:
            await self._end()

    def submit(self, request: Request, stream: EventStream) -> None:
        """Hand a request over; its events go to `stream`, and closing the stream cancels it."""
        self._streams[request.id] = stream
        stream.on_drop = lambda: self._cancel(request.id)
        self._send(wire.Submit(request))

    async def cache(self, request_id: str | None) -> CacheState:
        """Ask what is cached, or for the report on one request. Raises OrchardError("unavailable")."""
        number = next(self._numbers)
        answer: asyncio.Future[CacheState] = asyncio.get_running_loop().create_future()
        self._questions[number] = answer
        self._send(wire.AskCache(number, request_id))
        try:
            async with asyncio.timeout(self._settings.cache_timeout):
                return await answer
        except TimeoutError:
            message = f"model '{self.entry.id}' is busy and did not say what it has cached; try again"
            raise OrchardError("unavailable", message, retry_after=1) from None
        finally:
            del self._questions[number]

    def close(self) -> None:
        """Ask the process to end, by the end of its socket."""
        self._closing = True
        if self._writer:
            self._writer.close()

    async def _spawn(self) -> asyncio.StreamReader:
        """Start the process with one end of a socket pair. Raises OSError, for want of files or memory."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command(theirs.fileno()), pass_fds=[theirs.fileno()], env=_environment()
                )
            except OSError:
                ours.close()
                raise
        reader, self._writer = await asyncio.open_connection(sock=ours)
        if self._closing:
            self._writer.close()
        return reader

    def _command(self, fd: int) -> list[str]:
        options = {
            "--fd": str(fd),
            "--backend": self.entry.backend,
            "--path": self.entry.path,
            "--options": msgspec.json.encode(self._settings.text).decode(),
            "--log-level": self._settings.log_level,
        }
        return [sys.executable, "-m", "orchard.worker", *(word for option in options.items() for word in option)]

    def _cancel(self, request_id: str) -> None:
        if self._streams.pop(request_id, None):
            self._send(wire.Cancel(request_id))

    def _send(self, message: wire.ToWorker) -> None:
        if self._writer and not self._writer.is_closing():
            self._writer.write(wire.encode(message))

    def _receive(self, message: object) -> None:
        match message:
            case wire.Step(events, running, waiting):
                self.running, self.waiting = running, waiting
                for request_id, batch in events:
                    # A stream that was cancelled a moment ago is no longer here.
                    if stream := self._streams.get(request_id):
                        stream.push(batch)
                        if stream.ended:
                            del self._streams[request_id]
            case wire.CacheIs(number, state):
                # Whoever asked may have given up.
                if (answer := self._questions.get(number)) and not answer.done():
                    answer.set_result(state)
            case wire.Ready(load_seconds):
                log.info("%s is ready, loaded in %.2f s", self.entry.id, load_seconds)
                self.ready = self.loaded = True
                self._on_change(self)
            case wire.LoadFailed(reason):
                self.failure = reason

    async def _end(self) -> None:
        """The socket is at its end: tell every caller at once, then see the process off."""
        self.ready = False
        self.running = self.waiting = 0
        streams, self._streams = self._streams, {}
        crash = Failed("worker_crashed", f"the process of model '{self.entry.id}' died; it is started again", None, 1)
        for stream in streams.values():
            stream.push([crash])
        for answer in self._questions.values():
            if not answer.done():
                answer.set_exception(crash.error())
        if self._writer:
            self._writer.close()
        if self._process:
            code = await _reap(self._process)
            if not self._closing and self.failure is None:
                log.error("%s: the worker died (exit code %d) with %d requests", self.entry.id, code, len(streams))
        self._on_change(self)


async def _reap(process: asyncio.subprocess.Process) -> int:
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            return await process.wait()
    except TimeoutError:
        process.kill()
        return await process.wait()


def _environment() -> dict[str, str]:
    """A worker never fetches anything: what it serves is already on this machine. Nor has it a use for the keys."""
    own = {name: value for name, value in os.environ.items() if name != "ORCHARD_API_KEY"}
    return own | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
