"""The worker's main loop: passes messages from the socket to the service, and the service's events to the socket."""

import argparse
import asyncio
import contextlib
import ctypes
import functools
import gc
import logging
import operator
import os
import pkgutil
import re
import resource
import signal
import socket
import sys
import time
from collections.abc import Sequence
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import NamedTuple

import psutil
from msgspec.msgpack import Decoder

from orchard import wire
from orchard.backends.service import Heartbeat, MemoryUse, Service
from orchard.core.errors import OrchardError
from orchard.core.events import Event
from orchard.core.request import LoadOptions, Request, Task
from orchard.worker import quick_transformers
from orchard.worker.memory_changes import MemoryChanges

log = logging.getLogger("orchard.worker")

SAVE_SECONDS = 1.0
"""How long saving cached prompts may take at an unload: another model may be waiting for the memory."""
LAST_SAVE_SECONDS = 5.0
"""How long saving cached prompts may take when the process and the server end."""
OOM_SCORE = 500
"""What Linux adds to a worker's out-of-memory score, of 1000: it kills a worker before the gateway, and before other
programs that take less than half of the memory."""
REPORT_SECONDS = 1.0
"""The fewest seconds between two memory reports."""
SWITCH_SECONDS = 0.0005
"""How long the engine's thread waits for the interpreter's lock; the default of 5 ms is as long as a step."""


class ServiceTypes(NamedTuple):
    """A service's class, and the decoders of its options and of its tasks: see `kinds.Backend`."""

    service: type[Service]
    options: Decoder[LoadOptions]
    tasks: Decoder[Task]


def import_service(service: str, options: str, tasks: Sequence[str]) -> ServiceTypes:
    """Import a service and its types, each named as `package.module:Class`. Raise ImportError if one is missing."""
    quick_transformers.install_quick_import()
    # The import of mlx-lm changes the limit of open files. That may be forbidden, and the server has set its own limit.
    set_limit, resource.setrlimit = resource.setrlimit, lambda *_: None
    try:
        made = pkgutil.resolve_name(service)
    finally:
        resource.setrlimit = set_limit
    for handler in logging.getLogger("transformers").handlers:
        handler.addFilter(_is_for_users)
    known = functools.reduce(operator.or_, map(pkgutil.resolve_name, tasks))
    return ServiceTypes(made, Decoder(pkgutil.resolve_name(options)), Decoder(known))


def _is_for_users(line: logging.LogRecord) -> bool:
    """Return whether a log line of transformers is for users, not for the program that calls it, such as mlx-vlm."""
    return not re.search("deprecated|pass the `sampling_rate`", line.getMessage())


_log_fields = {"origin": "worker"}
"""An additional field of each log line: the worker, with the name of its model."""


class Worker:
    """The main loop of one process, which has one model at a time, or none."""

    def __init__(self, writer: asyncio.StreamWriter, types: ServiceTypes) -> None:
        self._writer = writer
        self._types = types
        self._service: Service | None = None
        self._model = ""
        self._ready = False
        self._details: dict[str, str | bool | list[str]] = {}
        self._memory = MemoryChanges()
        self._unloading: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Serve until the gateway closes the socket."""
        service = self._types.service
        self._send(wire.Hello(service.prepare(), service.device_memory(has_model=False), service.processor()))
        self._begin(self._report_changes())
        while (message := await wire.read_message(reader)) is not None:
            self._receive(message)
        for task in self._tasks:
            if task is not self._unloading:
                task.cancel()
        # A model that is still loading has nothing to save, and the load may take long.
        if self._unloading:
            await asyncio.wait([self._unloading])
        elif self._service and self._ready:
            await self._service.close(LAST_SAVE_SECONDS)

    def _receive(self, message: object) -> None:
        match message:
            case wire.Submit(request_id, task, priority, sender, cache_scope):
                known = self._types.tasks.decode(task)
                self._current_service.submit(
                    Request(request_id, self._model, known, priority, sender=sender, cache_scope=cache_scope)
                )
            case wire.Cancel(request_id):
                self._current_service.cancel(request_id)
            case wire.Pause(request_id):
                self._current_service.pause(request_id)
            case wire.Resume(request_id):
                self._current_service.resume(request_id)
            case wire.Ping(number):
                heartbeat = self._service.heartbeat() if self._service else Heartbeat()
                self._send(wire.Pong(number, heartbeat.silent_seconds, heartbeat.mlx_bytes, _rss_bytes()))
            case wire.AskCache(number, request_id):
                self._begin(self._report_cache(number, request_id))
            case wire.AskProgress(number):
                self._send(wire.ProgressIs(number, self._current_service.request_progress()))
            case wire.Load(name, path, options):
                self._model, _log_fields["origin"] = name, f"worker[{name}]"
                self._service = self._types.service(path, self._types.options.decode(options))
                self._begin(self._load(self._service))
            case wire.LimitMemory(memory_bytes, most_bytes):
                self._current_service.limit_memory(memory_bytes, most_bytes)
            case wire.Unload():
                self._unloading = self._begin(self._unload())

    @property
    def _current_service(self) -> Service:
        assert self._service, "the gateway used a model before it loaded one"
        return self._service

    async def _load(self, service: Service) -> None:
        begin = time.monotonic()
        emit = functools.partial(self._emit, service)
        try:
            loaded = await service.start(emit, lambda fraction: self._send(wire.Loading(fraction)))
        except OrchardError as error:
            from orchard.device.out_of_memory import is_out_of_memory

            log.error("loading failed: %s", error.message)
            self._send(wire.LoadFailed(error.message, is_out_of_memory(error)))
            return
        self._details = loaded.details
        self._ready = True
        self._send(wire.Ready(time.monotonic() - begin, loaded.weights_bytes, loaded.details))

    async def _unload(self) -> None:
        self._ready = False
        await self._current_service.close(SAVE_SECONDS)
        self._service = self._unloading = None
        gc.collect()
        if sys.platform == "linux":  # return freed memory to the system, as far as the C library's heap allows it
            with contextlib.suppress(OSError, AttributeError):  # not every C library has this function
                ctypes.CDLL(None).malloc_trim(0)
        _log_fields["origin"] = "worker"
        self._memory = MemoryChanges()  # the gateway forgets the model's reports, too
        self._send(wire.Unloaded(_rss_bytes()))

    async def _report_cache(self, number: int, request_id: str | None) -> None:
        self._send(wire.CacheIs(number, await self._current_service.cache_state(request_id)))

    async def _report_changes(self) -> None:
        """Report once a second what holds memory, if it has changed noticeably, and details that have changed."""
        while True:
            # In a thread, because the device's driver may block.
            device = await asyncio.to_thread(self._types.service.device_memory, has_model=self._service is not None)
            if report := self._memory.report(device, self._service.memory_use() if self._service else MemoryUse()):
                self._send(report)
            if self._service and self._ready:
                details = self._service.changing_details()
                if not details.items() <= self._details.items():
                    self._details = {**self._details, **details}
                    self._send(wire.Details(details))
            await asyncio.sleep(REPORT_SECONDS)

    def _begin(self, work: "asyncio._CoroutineLike[None]") -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            # Otherwise the callers would wait forever.
            log.critical("the worker is broken and exits", exc_info=error)
            _end_process(1)

    def _emit(self, service: Service, events: list[tuple[str, list[Event]]], running: int, waiting: int) -> None:
        self._send(wire.Step(events, running, waiting, service.speculation(), service.starved_requests()))

    def _send(self, message: wire.FromWorker) -> None:
        self._writer.write(wire.encode(message))


async def serve_socket(sock: socket.socket, service: str, options: str, tasks: Sequence[str]) -> None:
    """Load models and serve requests until the gateway closes the socket; then end the process."""
    reader, writer = await asyncio.open_connection(sock=sock)
    try:
        types = import_service(service, options, tasks)
    except ModuleNotFoundError as error:
        writer.write(wire.encode(wire.LoadFailed(f"the package '{error.name}' is not installed")))
        await writer.drain()
    else:
        await Worker(writer, types).run(reader)
    _end_process(0)


def _rss_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def _end_process(code: int) -> None:
    """End the process now, without the slow exit handlers of its libraries."""
    logging.shutdown()
    os._exit(code)


def main() -> None:
    """Run one worker on the socket whose file descriptor the gateway passed down."""
    parser = argparse.ArgumentParser(prog="orchard.worker")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--service", required=True, help="the service's class, as package.module:Class")
    parser.add_argument("--options", required=True, help="the class of the options that its models are loaded with")
    parser.add_argument("--tasks", required=True, nargs="+", help="the classes of the tasks that it does")
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--log-file", help="a file for the log, besides stderr; the gateway rotates it")
    args = parser.parse_args()
    os.umask(0o077)  # only the owner may read the log and cached prompts
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if args.log_file:
        handlers.append(WatchedFileHandler(args.log_file, encoding="utf-8"))
    line = logging.Formatter("%(asctime)s %(levelname)-7s %(origin)s %(message)s", defaults=_log_fields)
    for handler in handlers:
        handler.setFormatter(line)
    logging.basicConfig(level=args.log_level.upper(), handlers=handlers)
    # systemd's SIGTERM reaches every process of a service, but the gateway decides when a worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.setswitchinterval(SWITCH_SECONDS)
    with contextlib.suppress(OSError):  # only Linux has this file
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))
    # Write no core file: until it was written, the socket of an aborted process would stay open and callers would wait.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        asyncio.run(serve_socket(socket.socket(fileno=args.fd), args.service, args.options, args.tasks))
    except Exception:
        log.critical("the worker is broken and exits", exc_info=True)
        _end_process(1)
