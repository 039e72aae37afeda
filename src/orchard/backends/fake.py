"""A scripted service: the gateway's tests and benchmarks say, in the request itself, what the model does.

A last message or raw prompt that is a JSON object of `Script`'s fields is played; any other is answered with itself.
"""

import asyncio
import os
import signal
import time

import msgspec
from msgspec import Struct

from orchard.backends.service import Emit
from orchard.core.cache import CacheState
from orchard.core.errors import FailureKind, OrchardError
from orchard.core.events import Event, Failed, Finished, Started, Text, Usage
from orchard.core.options import TextOptions
from orchard.core.request import Request, TextPart

_RETRY_AFTER = 5


class Script(Struct, forbid_unknown_fields=True):
    """`pieces` times `text`, one every `interval` seconds; `fail` or `crash` comes instead of the end.

    With `stamp` each piece is the monotonic clock's time instead, for measuring what lies behind. `delay` seconds pass
    before the stream starts; a `refuse` fails it before it has started.
    """

    pieces: int = 1
    text: str = "x"
    stamp: bool = False
    interval: float = 0.0
    delay: float = 0.0
    refuse: FailureKind | None = None
    fail: FailureKind | None = None
    crash: bool = False


class FakeService:
    """Plays scripts, all streams in step: events that fall due together are emitted together, as an engine does."""

    def __init__(self, path: str, options: TextOptions) -> None:
        """`path` "broken" fails to load, "slow" takes a second; anything else loads at once.

        "mute" never says what is cached. More requests than the options' rows and waiting ones together are refused.
        """
        self._path = path
        self._most = options.max_rows + options.max_waiting
        self._running: dict[str, asyncio.Task[None]] = {}
        self._due: list[tuple[str, list[Event]]] = []
        self._flush: asyncio.Handle | None = None

    async def start(self, emit: Emit) -> None:
        """Pretend to load."""
        self._emit = emit
        if self._path == "broken":
            raise OrchardError("model_failed", "the script says that this model cannot be loaded")
        if self._path == "slow":
            await asyncio.sleep(1)

    def submit(self, request: Request) -> None:
        """Begin to play the request's script."""
        if len(self._running) >= self._most:
            self._push(request.id, Failed("overloaded", "the fake model's queue is full", retry_after=_RETRY_AFTER))
            return
        self._running[request.id] = asyncio.create_task(self._play(request))
        self._schedule()

    def cancel(self, request_id: str) -> None:
        """Stop playing."""
        if task := self._running.pop(request_id, None):
            task.cancel()
            self._due = [(id_, events) for id_, events in self._due if id_ != request_id]
            self._schedule()

    async def cache(self, request_id: str | None) -> CacheState:
        """Nothing is cached here."""
        if self._path == "mute":
            await asyncio.get_running_loop().create_future()
        return CacheState()

    async def close(self) -> None:
        """Stop playing everything."""
        for request_id in list(self._running):
            self.cancel(request_id)

    async def _play(self, request: Request) -> None:
        script = _script(request)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(script.delay)
        if script.refuse:
            self._end(request.id, Failed(script.refuse, "the script refuses this request"))
            return
        self._push(request.id, Started(prompt_tokens=len(request.generate.messages)))
        begin = loop.time()
        for piece in range(script.pieces):
            # Due times count from the start, so that a late step doesn't shift all that follow.
            await asyncio.sleep(max(0.0, begin + (piece + 1) * script.interval - loop.time()))
            self._push(request.id, Text(f"{time.monotonic():.6f} " if script.stamp else script.text))
        if script.crash:
            os.kill(os.getpid(), signal.SIGKILL)
        if script.fail:
            self._end(request.id, Failed(script.fail, "the script fails this request"))
        else:
            self._end(request.id, Finished(("stop",), Usage(len(request.generate.messages), script.pieces)))

    def _push(self, request_id: str, event: Event) -> None:
        self._due.append((request_id, [event]))
        self._schedule()

    def _end(self, request_id: str, event: Event) -> None:
        del self._running[request_id]
        self._push(request_id, event)

    def _schedule(self) -> None:
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._flush = None
        due, self._due = self._due, []
        self._emit(due, len(self._running), 0)


def _script(request: Request) -> Script:
    task = request.generate
    if task.prompt is None:
        text = "".join(part.text for part in task.messages[-1].parts if isinstance(part, TextPart))
    else:
        text = task.prompt if isinstance(task.prompt, str) else " ".join(map(str, task.prompt))
    try:
        return msgspec.json.decode(text, type=Script)
    except msgspec.DecodeError:
        return Script(text=text)
