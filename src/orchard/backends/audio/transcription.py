"""The service of a model that transcribes recordings: requests take turns, one window of 30 s at a time."""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import mlx.core as mx

from orchard.backends.audio import listeners, whisper
from orchard.backends.audio.diarization.diarizers import load_diarizer
from orchard.backends.audio.diarization.recognizer import DiarizedRecognizer
from orchard.backends.audio.recognizer import Advance, Recognizer
from orchard.backends.service import Emit, Heartbeat, LoadResult, Progress, Service
from orchard.backends.turns import Turns, load_in_thread
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output, Progressed, Started, Usage
from orchard.core.fair_queue import has_place
from orchard.core.request import Request
from orchard.core.tasks.transcribe import Recording, Segment, Transcribe, TranscribeOptions
from orchard.device.memory import limit_device, recommended_bytes
from orchard.device.mlx_thread import MlxThread

log = logging.getLogger("orchard.worker")

_RETRY_AFTER = 5
_CACHE_BYTES = 256 * 2**20  # the most that MLX caches for its next computation


class _TranscriptionCancelled(Exception):
    """The request was cancelled."""


class _TranscriptionRequest:
    """A request that was submitted and has not ended."""

    def __init__(self, request: Request) -> None:
        assert isinstance(request.task, Transcribe)
        self.request = request
        self.id = request.id
        self.task = request.task
        self.cancelled = False
        self.can_continue = asyncio.Event()
        self.can_continue.set()
        self.seconds = 0.0
        self.tokens = 0


class TranscriptionService(Service):
    """Serves one transcription model from a folder."""

    @staticmethod
    def prepare() -> int:
        """Import mlx-audio, and return the bytes that the device lets models use."""
        return recommended_bytes()

    def __init__(self, path: str, options: TranscribeOptions) -> None:
        self._path = Path(path)
        self._options = options
        self._thread = MlxThread()
        self._turns = Turns()
        self._live: dict[str, _TranscriptionRequest] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._recognizer: Recognizer | None = None
        self._cache_bytes = _CACHE_BYTES

    async def start(self, emit: Emit, progress: Progress) -> LoadResult:
        """Load the model."""
        self._emit = emit
        limit_device(self._options.memory_limit or recommended_bytes())
        model = await load_in_thread(self._thread, self._load, progress)
        self._recognizer = model
        mx.set_cache_limit(self._cache_bytes)
        return LoadResult(model.weights_bytes, {"batching": "in_turn"})

    def _load(self, progress: Progress) -> Recognizer:
        """Load the model and its diarizer, in the thread that owns MLX."""
        load: Callable[[Path, Progress], Recognizer] = (
            whisper.load_whisper if whisper.is_whisper(self._path) else listeners.load_listener
        )
        model = load(self._path, progress)
        if self._options.diarizer is None:
            return model
        diarizer = load_diarizer(Path(self._options.diarizer), lambda fraction: progress(1.0))
        return DiarizedRecognizer(model, diarizer.hear, diarizer.weights_bytes)

    def submit(self, request: Request) -> None:
        """Begin a request, unless there are too many."""
        callers = [live.request.sender.caller for live in self._live.values()]
        if not has_place(self._options.most_requests, callers, request.sender.caller):
            message = f"the model is working on {self._options.most_requests} recordings already"
            self._tell(request.id, Failed("overloaded", message, retry_after=_RETRY_AFTER))
            return
        live = _TranscriptionRequest(request)
        if live.task.speakers and not (self._recognizer and self._recognizer.tells_speakers):
            message = (
                "`response_format` can't be served: this model doesn't tell speakers apart. The setting `diarizer`"
            )
            message += " of the model names a model that does"
            self._tell(request.id, Failed("invalid_request", message, "response_format"))
            return
        self._live[request.id] = live
        task = self._tasks[request.id] = asyncio.create_task(self._serve(live))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def cancel(self, request_id: str) -> None:
        """Cancel a request; its current window ends with the next token."""
        if live := self._live.pop(request_id, None):
            live.cancelled = True
            self._tasks.pop(request_id).cancel()
            self._tell()

    def pause(self, request_id: str) -> None:
        """Begin no window of a request until it is resumed."""
        if live := self._live.get(request_id):
            live.can_continue.clear()

    def resume(self, request_id: str) -> None:
        """Continue a paused request."""
        if live := self._live.get(request_id):
            live.can_continue.set()

    def heartbeat(self) -> Heartbeat:
        """Return the signs of life: each token and each block of a recording is a piece of work."""
        return Heartbeat(self._thread.silent_seconds, self._thread.mlx_bytes)

    def limit_memory(self, memory_bytes: int, most_bytes: int) -> None:
        """Let MLX cache less for its next computation if the memory is short."""
        limit_device(memory_bytes)
        weights = self._recognizer.weights_bytes if self._recognizer else 0
        self._cache_bytes = max(0, min(_CACHE_BYTES, memory_bytes - weights))
        mx.set_cache_limit(self._cache_bytes)

    async def close(self, save_seconds: float) -> None:
        """Cancel all requests and free the model."""
        for request_id in list(self._live):
            self.cancel(request_id)
        while self._ending:
            await asyncio.wait(self._ending)
        self._recognizer = None
        await self._thread.close()

    async def _serve(self, live: _TranscriptionRequest) -> None:
        """Do a request's work piece by piece, and emit the events of each."""
        assert self._recognizer
        work = self._recognizer.transcribe(live.task, lambda: self._beat(live))
        try:
            while (step := await self._run_piece(live, work)) is not None:
                self._tell(live.id, *_events_of_advance(live, step))
                await live.can_continue.wait()
            self._end(live, Finished((), Usage(0, live.tokens, units=live.seconds)))
        except OrchardError as error:
            self._end(live, Failed.from_error(error))
        except Exception as error:
            if not live.cancelled:
                log.exception("transcribing failed")
                self._end(live, Failed("internal", f"transcribing failed: {type(error).__name__}"))
        finally:
            closing = asyncio.create_task(self._thread.do(work.close))
            self._ending.add(closing)
            closing.add_done_callback(self._ending.discard)

    async def _run_piece(self, live: _TranscriptionRequest, work: Generator[Advance, None, None]) -> Advance | None:
        """Do one piece of a request's work, in its turn; return None if none is left."""
        await self._turns.take(live.request)
        try:
            return await self._thread.do(next, work, None)
        finally:
            self._turns.give_back()

    def _beat(self, live: _TranscriptionRequest) -> None:
        """Note a sign of life, in MLX's thread; raise if the request was cancelled."""
        self._thread.advance()
        if live.cancelled:
            raise _TranscriptionCancelled

    def _end(self, live: _TranscriptionRequest, last: Event) -> None:
        if self._live.pop(live.id, None):
            del self._tasks[live.id]
            self._tell(live.id, last)

    def _tell(self, request_id: str = "", *events: Event) -> None:
        """Emit the events of a request, and the numbers of running and waiting requests."""
        self._emit([(request_id, list(events))] if events else [], min(1, len(self._live)), max(0, len(self._live) - 1))


def _events_of_advance(live: _TranscriptionRequest, step: Advance) -> Iterator[Event]:
    """Yield the events of a piece of work."""
    for one in step.results:
        if isinstance(one, Recording):
            live.seconds = one.seconds
            yield Started(0)
        elif isinstance(one, Segment):
            live.tokens += len(one.tokens)
        yield Output.from_struct(one)
    if live.seconds:
        yield Progressed(step.done_seconds, live.seconds)
