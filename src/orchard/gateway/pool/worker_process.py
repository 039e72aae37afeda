"""The gateway's side of a worker process: its socket, its process, and the streams of its requests."""

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from orchard import wire
from orchard.config import Settings
from orchard.core.cache_report import CacheState
from orchard.core.errors import OrchardError, reports_out_of_memory
from orchard.core.events import Failed, Progressed
from orchard.core.request import LoadOptions, Request, RequestProgress
from orchard.core.speculation_report import SpeculationReport
from orchard.gateway.caller import environment_without_keys
from orchard.gateway.crash_reason import CrashReason, count_oom_kills, hide_folders, reap
from orchard.gateway.model_status import ModelStatus
from orchard.gateway.pool.waiting import Timer
from orchard.gateway.replies.event_stream import EventStream
from orchard.kinds import Backend

log = logging.getLogger("orchard.gateway.pool.worker_process")

_CLOSE_SECONDS = 8.0  # it may take five seconds to save cached prompts
_CRASH_SECONDS = 1.0  # for the process to end by itself, so that its exit code is known
_PROGRESS_SECONDS = 1.0  # what the gateway itself knows is shown then
_START_SECONDS = 60.0  # it answers nothing while it imports its libraries

# starting: it imports its libraries. idle: it can load. ending: its socket is closed. gone: its memory is free, too.
Phase = Literal["starting", "idle", "loading", "ready", "unloading", "ending", "gone"]


class Watchdog:
    """Counts how long a worker has been silent.

    Count ticks instead of reading a clock, so that a pause of the gateway is not taken for silence of the worker.
    """

    def __init__(self, limit: float) -> None:
        """`limit`: the most seconds of silence; 0: no limit."""
        self._limit = limit
        self._silent = 0.0

    @property
    def interval(self) -> float:
        """Seconds between ticks."""
        return min(1.0, self._limit / 4) if self._limit else 1.0

    def reset(self, silent_seconds: float = 0.0) -> None:
        """Note a sign of life. `silent_seconds`: how long the engine has worked on its current piece of work."""
        self._silent = silent_seconds

    def tick(self, at_least: float = 0.0) -> bool:
        """Count an interval; return whether the worker has been silent for too long.

        `at_least`: seconds that its current work may take even if the limit is lower.
        """
        self._silent += self.interval
        return self._limit > 0 and self._silent > max(self._limit, at_least)


class Launch:
    """A process that has just started, with one end of a socket pair; nobody needs to listen to it yet."""

    def __init__(self, command: Callable[[int], list[str]]) -> None:
        """`command` gets the file descriptor of the process's end of the socket.

        Raise OSError if files or memory are short, OrchardError if its environment is missing.
        """
        self.socket, theirs = socket.socketpair()
        self.last_words = CrashReason()
        with theirs:
            try:
                self.process = subprocess.Popen(
                    command(theirs.fileno()),
                    pass_fds=[theirs.fileno()],
                    stderr=self.last_words.write_end,
                    env=_environment(),
                    start_new_session=True,  # or a signal to the server's group may end it before it ignores signals
                )
            except (OSError, OrchardError):
                self.socket.close()
                self.last_words.close()
                raise
            finally:
                self.last_words.close_write_end()


def launch(backend: Backend, settings: Settings) -> Launch:
    """Start a worker's process; it begins to import its libraries. Raise what `Launch` raises."""
    options = ["--log-level", settings.log_level]
    if settings.log_file:
        options += ["--log-file", settings.log_file]
    return Launch(lambda fd: [*backend.command, "--fd", str(fd), *options, *backend.arguments])


class WorkerProcess:
    """A process, which `run` starts unless it was started before.

    `on_change` is called when its phase has changed, `on_report` when it has reported what holds its memory.
    """

    def __init__(self, backend: Backend, settings: Settings, launched: Launch | None = None) -> None:
        """Take the process if it has started already (`launched`)."""
        self.backend = backend
        self._options = backend.options()  # the load options of its model
        self.phase: Phase = "starting"
        self.on_change: Callable[[], None] = lambda: None
        self.on_report: Callable[[], None] = lambda: None
        self.on_starved: Callable[[Sequence[str]], None] = lambda ids: None
        """Called with the requests that wait for memory, when they have changed."""
        self.name = "spare"
        """The name of its model, for the log."""
        self.memory_bytes = 0
        """The bytes that the device offers to models; 0 until the process is idle."""
        self.processor: str | None = None
        """What it computes with: "gpu" or "cpu"; None: not known."""
        self.progress = 0.0
        self.loaded = wire.Ready(0.0)
        """The `Ready` of the model that was loaded last."""
        self.loads = 0
        self.failure: str | None = None
        """Why it ended or can't be started, without names of folders."""
        self.refused = False
        """It could not load its model and was closed, or it could not be started."""
        self.out_of_memory = False
        """It died because memory ran out for its model, as far as that can be known."""
        self.running = 0
        self.waiting = 0
        self.memory = wire.MemoryReport()
        """The newest report of what holds memory."""
        self.mlx_bytes = 0
        self.rss_bytes = 0
        self.speculation: SpeculationReport = {}
        """The totals of its model's guesses."""
        self.empty_rss_bytes = 0
        """The bytes of memory that it used before its first load."""
        self._settings = settings
        self._watchdog = Watchdog(settings.watchdog_timeout)
        self._ticking = Timer(self.tick)
        self._streams: dict[str, EventStream] = {}
        self._progress: dict[str, Progressed] = {}
        self._starved: Sequence[str] = []
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()
        self._ping: int | None = None
        self._launched = launched
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._last_words: CrashReason | None = None
        self._closing = False
        self._killed = False
        self._oom_kills: int | None = None

    @property
    def pid(self) -> int | None:
        """The process id, once there is a process."""
        return self._process.pid if self._process else None

    @property
    def total_progress(self) -> Progressed | None:
        """How much is done of all its requests that report progress; None: none does."""
        reports = self._progress.values()
        return Progressed(sum(one.done for one in reports), sum(one.total for one in reports)) if reports else None

    def complete_status(self, status: ModelStatus) -> ModelStatus:
        """Return the status of its model with the facts that the process adds."""
        return replace(
            status,
            running=self.running,
            waiting=status.waiting + self.waiting,
            mlx_bytes=self.mlx_bytes,
            rss_bytes=self.rss_bytes,
            weights_bytes=self.memory.weights_bytes or (self.loaded.weights_bytes if status.state == "ready" else 0),
            rows_bytes=self.memory.rows_bytes,
            prompts_bytes=self.memory.prompts_bytes,
            cache_bytes=self.memory.device.cache_bytes,
            peak_bytes=self.memory.device.peak_bytes,
            speculation=self.speculation,
            ranks=self.memory.ranks,
            pid=self.pid,
            processor=self.processor,
            details={"media": [], **self.loaded.details} if status.state == "ready" else {},
        )

    @property
    def can_load_again(self) -> bool:
        """Whether it can load a model after the last one."""
        return not self._options.ends_process

    @property
    def has_crashed(self) -> bool:
        """Whether it ended without having been closed."""
        return not self._closing

    async def run(self) -> None:
        """Start the process, and receive its messages until it has ended."""
        try:
            reader = await self._spawn()
            self._ticking.start(self._watchdog.interval)
            while (message := await wire.read_message(reader)) is not None:
                self._receive(message)
        except wire.WireError as error:
            self.failure = f"it broke the protocol: {error}"
        except OrchardError as error:
            self.failure = error.message
            self.refused = True
        except OSError as error:
            self.failure = f"its process can't be started: {error.strerror or error}"
            self.refused = True
        finally:
            await self._end()

    def load(self, name: str, path: str, options: LoadOptions) -> None:
        """Load a model; it must be idle."""
        self.name = name
        self._options = options
        self.speculation = {}
        self.loads += 1
        self._oom_kills = count_oom_kills()
        self._watchdog.reset()
        self._send(wire.Load(name, path, wire.encode_struct(options)))
        self._become("loading")

    def unload(self) -> None:
        """Free the model; it must be ready and have no requests. The process then becomes idle."""
        self._watchdog.reset()
        self._send(wire.Unload())
        self._become("unloading")

    def limit_memory(self, memory_bytes: int, most_bytes: int) -> None:
        """Limit the memory of the model from now on: see `wire.LimitMemory`. It must be loading or ready."""
        self._send(wire.LimitMemory(memory_bytes, most_bytes))

    def send_request(self, request: Request, stream: EventStream) -> None:
        """Send a request; its events go to `stream`, and closing the stream cancels it."""
        try:
            self.backend.check_task(self.name, type(request.task), self._options)
        except OrchardError as error:  # the model's kind was unknown before its download
            stream.push([Failed.from_error(error)])
            return
        if not self._streams:
            self._watchdog.reset()
        self._streams[request.id] = stream
        stream.on_drop = lambda: self._cancel(request.id)
        stream.on_lag = lambda lags: self._send(wire.Pause(request.id) if lags else wire.Resume(request.id))
        self._write(wire.encode_submission(request))

    async def read_cache(self, request_id: str | None) -> CacheState:
        """Return what is cached, or the report on one request. Raise OrchardError("unavailable", "worker_crashed")."""
        number = next(self._numbers)
        try:
            async with asyncio.timeout(self._settings.cache_timeout):
                state: CacheState = await self._ask(number, wire.AskCache(number, request_id))
        except TimeoutError:
            message = f"model '{self.name}' is busy and did not say what it has cached; try again"
            raise OrchardError("unavailable", message, retry_after=1) from None
        return state

    async def read_progress(self) -> list[RequestProgress]:
        """Return how far the requests are; an empty list if the process doesn't answer in time, or has died."""
        number = next(self._numbers)
        with contextlib.suppress(TimeoutError, OrchardError):
            async with asyncio.timeout(_PROGRESS_SECONDS):
                progress: list[RequestProgress] = await self._ask(number, wire.AskProgress(number))
                return progress
        return []

    async def _ask(self, number: int, question: wire.ToWorker) -> Any:
        """Send the question of a number, and return its answer. Raise OrchardError("worker_crashed")."""
        answer = self._questions[number] = asyncio.get_running_loop().create_future()
        self._send(question)
        try:
            return await answer
        finally:
            del self._questions[number]

    def close(self) -> None:
        """Ask the process to end, by closing its socket."""
        if self.phase in ("ending", "gone"):
            return
        if self.phase == "starting":  # it does not read its socket before it has imported everything
            self.kill()
        self._closing = True
        if self._writer:
            self._writer.close()
        self._become("unloading")

    def tick(self) -> None:
        """Ping the process, kill it if it has work and has been silent for too long, and schedule the next tick."""
        if self.phase in ("ending", "gone"):
            return
        self._ticking.start(self._watchdog.interval)
        least = _START_SECONDS if self.phase == "starting" else 0.0
        if not self._streams and self.phase in ("idle", "ready"):
            self._watchdog.reset()
        elif self._watchdog.tick(least):
            self.failure = f"it did not answer for {max(self._settings.watchdog_timeout, least):g} seconds"
            log.error("%s: %s; its process is killed", self.name, self.failure)
            self.kill()
        if self.phase != "starting":
            self._send_ping()

    def _send_ping(self) -> None:
        if self._ping is None:
            self._ping = next(self._numbers)
            self._send(wire.Ping(self._ping))

    async def _spawn(self) -> asyncio.StreamReader:
        """Start the process, and listen to it. Raise what `Launch` raises."""
        launched = self._launched or self._launch()
        self._process, self._last_words = launched.process, launched.last_words
        self._last_words.begin()
        reader, self._writer = await asyncio.open_connection(sock=launched.socket)
        if self._killed:
            self.kill()
        if self._closing:
            self._writer.close()
        return reader

    def _launch(self) -> Launch:
        return launch(self.backend, self._settings)

    def _cancel(self, request_id: str) -> None:
        self._progress.pop(request_id, None)
        if self._streams.pop(request_id, None):
            self._send(wire.Cancel(request_id))

    def _send(self, message: wire.ToWorker) -> None:
        self._write([wire.encode(message)])

    def _write(self, pieces: list[bytes]) -> None:
        """Write the pieces of a frame."""
        if self._writer and not self._writer.is_closing():
            for piece in pieces:
                self._writer.write(piece)

    def _become(self, phase: Phase) -> None:
        self.phase = phase
        self.on_change()

    def _receive(self, message: object) -> None:
        if isinstance(message, wire.Step):
            self._deliver_step(message)
            return
        self._watchdog.reset()
        match message:
            case wire.CacheIs(number, found) | wire.ProgressIs(number, found):
                # The caller may have given up.
                if (answer := self._questions.get(number)) and not answer.done():
                    answer.set_result(found)
            case wire.Pong(_, silent_seconds, mlx_bytes, rss_bytes):
                self._ping = None
                self._watchdog.reset(silent_seconds)
                self.mlx_bytes, self.rss_bytes = mlx_bytes, rss_bytes
                self.empty_rss_bytes = self.empty_rss_bytes or rss_bytes
            case _ if self._closing:
                pass
            case wire.MemoryReport():
                self.memory = message
                self.on_report()
            case wire.Hello(memory_bytes, device, processor):
                self.memory_bytes, self.memory = memory_bytes, wire.MemoryReport(device)
                self.processor = processor or None
                self.on_report()
                self._send_ping()  # to learn its memory without a model
                self._become("idle")
            case wire.Loading(fraction):
                self.progress = fraction
            case wire.Ready():
                self.loaded = message
                self._become("ready")
            case wire.Details(details):
                self.loaded = replace(self.loaded, details={**self.loaded.details, **details})
            case wire.LoadFailed(reason, lacks_memory):
                remedy = self.backend.remedy if self.phase == "starting" else ""
                self.failure = hide_folders(reason) + (f": {remedy}" if remedy else "")
                self.refused, self.out_of_memory = True, lacks_memory
                self.close()
            case wire.Unloaded(rss_bytes):
                self.rss_bytes = rss_bytes
                self.memory = wire.MemoryReport()
                self._note_starved([])
                self.name, self.progress = "spare", 0.0
                self._become("idle")

    def _deliver_step(self, step: wire.Step) -> None:
        self.running, self.waiting, self.speculation = step.running, step.waiting, step.speculation
        for request_id, batch in step.events:
            # The stream may just have been cancelled.
            if stream := self._streams.get(request_id):
                for event in batch:
                    if isinstance(event, Progressed):
                        self._progress[request_id] = event
                stream.push(batch)
                if stream.ended:
                    self._streams.pop(request_id, None)
                    self._progress.pop(request_id, None)
        self._note_starved(step.starved)

    def _note_starved(self, ids: Sequence[str]) -> None:
        if ids != self._starved:
            self._starved = ids
            self.on_starved(ids)

    async def _end(self) -> None:
        """Tell the owner that the socket has closed, then wait for the process to end."""
        self.running = self.waiting = 0
        self._streams.clear()
        self._progress.clear()
        self._note_starved([])
        for answer in self._questions.values():
            if not answer.done():
                message = f"the process of model '{self.name}' died before it answered"
                answer.set_exception(OrchardError("worker_crashed", message, retry_after=1))
        if self._writer:
            self._writer.close()
        self._become("ending")
        if self._process:
            code = await reap(self._wait, _CRASH_SECONDS if self.has_crashed else _CLOSE_SECONDS, self.kill)
            self._kill_group()
            said = ""
            if self._last_words:
                await self._last_words.end()
                said = hide_folders(self._last_words.reason)
            self.failure = self.failure or _exit_reason(code, said)
            self.out_of_memory = self.out_of_memory or self._ran_out_of_memory(code, said)
            if self.has_crashed:
                log.error("%s: the worker died: %s", self.name, self.failure)
        self._become("gone")

    async def _wait(self) -> int:
        """Wait for the process to end, in a thread; return its exit code."""
        assert self._process
        return await asyncio.to_thread(self._process.wait)

    def _ran_out_of_memory(self, code: int, said: str) -> bool:
        if not self.loads:
            return False
        if code == -signal.SIGKILL:
            kills = count_oom_kills()
            return not self._killed and (kills is None or kills != self._oom_kills)
        return reports_out_of_memory(said) and (code > 0 or code == -signal.SIGABRT)

    def kill(self) -> None:
        """Kill the process."""
        self._killed = True
        if self._process and self._process.returncode is None:
            self._kill_group()

    def _kill_group(self) -> None:
        """Kill the process and what it has started: a program that is stopped, such as ssh, doesn't end with it.

        No other process gets the number of the group while one of these is left.
        """
        if self._process:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS forbids it if only zombies are left
                os.killpg(self._process.pid, signal.SIGKILL)


def _exit_reason(code: int, said: str) -> str:
    known = {one.value: one.name for one in signal.Signals}
    how = f"ended with exit code {code}" if code >= 0 else f"was ended by {known.get(-code, f'signal {-code}')}"
    # A process that aborts has said why, as C++ does for an exception. A killed one can't have.
    why = f": {said}" if said and (code > 0 or code == -signal.SIGABRT) else ""
    return f"its process {how}{why}"


def _environment() -> dict[str, str]:
    """Return the environment variables of a worker, which downloads nothing and gets no API keys."""
    quiet = {"TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1"}  # no PyTorch warning
    quiet["TQDM_DISABLE"] = "1"  # progress bars of mlx-audio's speech models
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    # CUDA graphs are slower where each prompt length brings new ones, and MLX 0.32.4 stops working after 800 of them.
    no_graphs = {"MLX_USE_CUDA_GRAPHS": "0", "MLX_ENABLE_CACHE_THRASHING_CHECK": "0"}
    return no_graphs | environment_without_keys() | quiet | offline
