"""A scripted service for tests and benchmarks of the gateway: the request itself says what the model does.

If the last message or the raw prompt is a JSON object of `Script`'s fields, the service plays it; any other text is the
answer. Media, also of earlier messages, become text: "[image: 3 bytes of image/png, sha256 ba7816bf]".
The path of a model says how it loads: a JSON object of `LoadScript`'s fields, or one of the names in `PATHS`.
"""

import asyncio
import hashlib
import os
import signal
import time
from collections import deque
from typing import TypeVar

import msgspec
from msgspec import Struct

from orchard.backends.service import Emit, Heartbeat, LoadResult, Progress, Service
from orchard.core.cache_report import CacheReport, CacheState
from orchard.core.device_memory import DeviceMemory
from orchard.core.errors import FailureKind, OrchardError
from orchard.core.events import Event, Failed, Finished, Started, Text, Usage
from orchard.core.media import MediaPart
from orchard.core.request import Request, RequestProgress
from orchard.core.tasks.generate import Part, TextPart, ToolResultPart, generate_task
from orchard.core.tasks.text_options import TextOptions

T = TypeVar("T")

_RETRY_AFTER = 5
_MEMORY_BYTES = 2**30


class LoadScript(Struct, frozen=True, forbid_unknown_fields=True):
    """How a model loads: `seconds` in `steps` pieces of progress; then the model takes `bytes`.

    `end`: what comes instead of the last piece; "killed" and "aborted" end the process by a signal, "raised" by an
    exception. `mute`: it never reports what is cached. `once`: a file that the first load makes; if it exists, the load
    succeeds.
    """

    seconds: float = 0.0
    steps: int = 4
    bytes: int = 2**20
    end: str | None = None
    mute: bool = False
    once: str | None = None


PATHS = {
    "fake": LoadScript(),
    "broken": LoadScript(end="broken"),
    "slow": LoadScript(seconds=1),
    "mute": LoadScript(mute=True),
}


class Script(Struct, forbid_unknown_fields=True):
    """Sends `text` `pieces` times, once every `interval` seconds; `fail`, `crash` or `abort` replaces the end.

    With `stamp` each piece is the monotonic clock's time instead, to measure latency. `delay`: seconds before the
    stream starts; `refuse`: the stream fails before it starts. With `hang` the engine is silent from then on.
    `once`: a file that is made first; if it exists, `crash`, `abort` and `hang` are ignored.
    """

    pieces: int = 1
    text: str = "x"
    stamp: bool = False
    interval: float = 0.0
    delay: float = 0.0
    refuse: FailureKind | None = None
    fail: FailureKind | None = None
    crash: bool = False
    abort: bool = False
    hang: bool = False
    once: str | None = None


class FakeService(Service):
    """Plays scripts. Events that are due at the same time are emitted together, as those of an engine's step are."""

    @staticmethod
    def prepare() -> int:
        """Import nothing."""
        return _MEMORY_BYTES

    @staticmethod
    def device_memory(*, has_model: bool) -> DeviceMemory:
        """Pretend to be on a device that nothing else uses."""
        return DeviceMemory(2 * _MEMORY_BYTES, 2 * _MEMORY_BYTES)

    @staticmethod
    def processor() -> str:
        """Pretend to be on a device without a GPU."""
        return "cpu"

    def __init__(self, path: str, options: TextOptions) -> None:
        """`path` says how it loads. It rejects requests beyond the options' `decode_concurrency` plus `queue_size`."""
        self._loads = PATHS.get(path) or _decode_json(path, LoadScript) or LoadScript()
        self._most = options.decode_concurrency + options.queue_size
        self._running: dict[str, asyncio.Task[None]] = {}
        self._going_on: dict[str, asyncio.Event] = {}
        self._due: list[tuple[str, list[Event]]] = []
        self._flush: asyncio.Handle | None = None
        self._hangs_since: float | None = None
        self._reports: deque[CacheReport] = deque(maxlen=16)
        self._progress: dict[str, RequestProgress] = {}

    async def start(self, emit: Emit, progress: Progress) -> LoadResult:
        """Pretend to load."""
        self._emit = emit
        end = None if _has_happened(self._loads.once) else self._loads.end
        for step in range(1, self._loads.steps + 1):
            await asyncio.sleep(self._loads.seconds / self._loads.steps)
            if end and step == self._loads.steps:
                await self._break(end)
            progress(step / self._loads.steps)
        return LoadResult(self._loads.bytes, {"batching": "together"})

    async def _break(self, how: str) -> None:
        match how:
            case "killed" | "crash":
                os.kill(os.getpid(), signal.SIGKILL)
            case "aborted" | "abort":
                os.abort()
            case "raised":
                raise ValueError("the script breaks the worker")
            case "hang":
                self._hangs_since = time.monotonic()
                await asyncio.get_running_loop().create_future()
            case _:
                raise OrchardError("model_failed", "the script says that this model cannot be loaded")

    def submit(self, request: Request) -> None:
        """Begin to play the request's script."""
        if len(self._running) >= self._most:
            self._push(request.id, Failed("overloaded", "the fake model's queue is full", retry_after=_RETRY_AFTER))
            return
        self._going_on[request.id] = asyncio.Event()
        self._going_on[request.id].set()
        before, given = self._reports[-1].given if self._reports else "", _prompt_text(request)
        summary = f"0 of 1 tokens were cached; the closest cached text goes on {before!r}, this prompt {given!r}"
        self._reports.append(CacheReport(request.id, 1, 0, summary, 0, None, "", before, given))
        self._running[request.id] = asyncio.create_task(self._play(request))
        self._schedule()

    def cancel(self, request_id: str) -> None:
        """Stop playing."""
        if task := self._running.pop(request_id, None):
            task.cancel()
            del self._going_on[request_id]
            self._progress.pop(request_id, None)
            self._due = [(id_, events) for id_, events in self._due if id_ != request_id]
            self._schedule()

    def pause(self, request_id: str) -> None:
        """Stop playing before the next piece."""
        if request_id in self._going_on:
            self._going_on[request_id].clear()

    def resume(self, request_id: str) -> None:
        """Continue playing."""
        if request_id in self._going_on:
            self._going_on[request_id].set()

    async def cache_state(self, request_id: str | None) -> CacheState:
        """Return reports that compare each of the last prompts with the one before it; nothing is cached."""
        if self._loads.mute:
            await asyncio.get_running_loop().create_future()
        return CacheState(reports=[report for report in self._reports if request_id in (None, report.request_id)])

    def request_progress(self) -> list[RequestProgress]:
        """Return how many pieces there were of each request."""
        return list(self._progress.values())

    def heartbeat(self) -> Heartbeat:
        """Return the signs of life: a script that hangs is a piece of work that does not end."""
        silent = time.monotonic() - self._hangs_since if self._hangs_since is not None else 0.0
        return Heartbeat(silent, self._loads.bytes)

    async def close(self, save_seconds: float) -> None:
        """Stop playing everything."""
        for request_id in list(self._running):
            self.cancel(request_id)

    async def _play(self, request: Request) -> None:
        text = _prompt_text(request)
        script = _decode_json(text, Script) or Script(text=text)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(script.delay)
        if script.refuse:
            self._end(request.id, Failed(script.refuse, "the script refuses this request"))
            return
        tokens = len(generate_task(request).messages)
        self._push(request.id, Started(prompt_tokens=tokens))
        self._progress[request.id] = RequestProgress(request.id, tokens)
        begin = loop.time()
        for piece in range(script.pieces):
            # Due times count from the start, so that a late step doesn't delay all later ones.
            await asyncio.sleep(max(0.0, begin + (piece + 1) * script.interval - loop.time()))
            ready = loop.time()
            await self._going_on[request.id].wait()
            begin += loop.time() - ready  # pieces don't come faster after a pause
            self._push(request.id, Text(f"{time.monotonic():.6f} " if script.stamp else script.text))
            self._progress[request.id] = RequestProgress(request.id, tokens, tokens, 0, piece + 1)
        for how in ("crash", "abort", "hang"):
            if getattr(script, how) and not _has_happened(script.once):
                await self._break(how)
        if script.fail:
            self._end(request.id, Failed(script.fail, "the script fails this request"))
        else:
            self._end(request.id, Finished(("stop",), Usage(tokens, script.pieces)))

    def _push(self, request_id: str, event: Event) -> None:
        if self._hangs_since is not None:
            return
        self._due.append((request_id, [event]))
        self._schedule()

    def _end(self, request_id: str, event: Event) -> None:
        if self._hangs_since is None:
            del self._running[request_id], self._going_on[request_id]
            self._progress.pop(request_id, None)
        self._push(request_id, event)

    def _schedule(self) -> None:
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._flush = None
        due, self._due = self._due, []
        self._emit(due, len(self._running), 0)


def _has_happened(once: str | None) -> bool:
    """Return whether the file exists; make it if not."""
    if once is None:
        return False
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return True
    return False


def _prompt_text(request: Request) -> str:
    task = generate_task(request)
    if task.prompt is None:
        earlier = (part for message in task.messages[:-1] for part in message.parts if isinstance(part, MediaPart))
        return "".join(map(_describe_part, (*earlier, *task.messages[-1].parts)))
    return task.prompt if isinstance(task.prompt, str) else " ".join(map(str, task.prompt))


def _describe_part(part: Part) -> str:
    match part:
        case TextPart():
            return part.text
        case MediaPart():
            digest = hashlib.sha256(part.data).hexdigest()[:8]
            return f"[{part.kind}: {len(part.data)} bytes of {part.media_type or 'no type'}, sha256 {digest}]"
        case ToolResultPart():
            return "".join(map(_describe_part, part.parts))
    return ""


def _decode_json(text: str, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None
