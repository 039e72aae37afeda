"""The service of models that need one forward pass per text: texts of all requests share passes.

submit ─▶ tokenizer's thread ─▶ waiting texts, by length ─▶ MLX's thread, one pass at a time ─▶ emit
"""

import asyncio
import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import mlx.core as mx
from msgspec import Struct

from orchard.backends.beginnings import yield_seconds
from orchard.backends.embeddings.waiting import TextPlace, TextQueue
from orchard.backends.service import Emit, Heartbeat, LoadResult, MemoryUse, Progress, Service
from orchard.backends.turns import load_in_thread
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output, Started, Usage
from orchard.core.fair_queue import has_place
from orchard.core.request import Request
from orchard.core.tasks.batch_options import BatchOptions
from orchard.device.lane import Lane
from orchard.device.memory import limit_device, recommended_bytes
from orchard.device.mlx_thread import MlxThread
from orchard.device.out_of_memory import run_in_parts

B = TypeVar("B", bound=BatchOptions)

log = logging.getLogger("orchard.worker")

_CRASHED = 70  # sysexits.h: EX_SOFTWARE
_RETRY_AFTER = 5
_TOKENS = {"cpu": 2048, "gpu": 16_384}  # per pass, with padding
_MOST_BYTES = 2**20  # of a pass's results: a slow reader gets no more before it has read them
_PASSES_PER_CLEAR = 64
_SECONDS_UNTIL_CLEAR = 5.0


class TokenizedText(Struct, frozen=True):
    """The tokens of a text; `types`: the part of a pair that each token belongs to, for models that use it.

    `choice`: for a piece of a document, the choice of its result; None: its place among the request's texts.
    """

    tokens: Sequence[int]
    types: Sequence[int] = ()
    choice: int | None = None


def _check_driver(driver: asyncio.Task[None]) -> None:
    """End the process if `_drive` failed; otherwise callers would wait forever."""
    if not driver.cancelled() and (error := driver.exception()):
        log.critical("the batches of texts broke; this worker ends", exc_info=error)
        logging.shutdown()
        os._exit(_CRASHED)


def _halve_texts(texts: Sequence[TokenizedText]) -> list[Sequence[TokenizedText]]:
    middle = len(texts) // 2
    return [texts[:middle], texts[middle:]] if middle else []


class PassModel(Protocol):
    """A model that computes one result per text, for many texts in one pass."""

    @property
    def result_bytes(self) -> int:
        """The bytes of a text's result."""

    def read_task(self, task: Any) -> list[TokenizedText]:
        """Return the tokens of a task's texts, in the tokenizer's thread. Raise OrchardError if a text is wrong.

        Long work gives way between the texts, see `orchard.device.lane.give_way`.
        """

    def cost(self, rows: int, length: int) -> int:
        """Return the bytes of a pass over `rows` texts of `length` tokens, without the weights."""

    def compute(self, texts: Sequence[TokenizedText]) -> Sequence[Any]:
        """Return the result of each text, in MLX's thread."""

    def result(self, task: Any, found: Any) -> Struct:
        """Return a result in the form of a task's `Output`."""


class _BatchedRequest:
    """A request that was submitted and has not ended. The task `reading` tokenises its texts."""

    reading: asyncio.Task[None]

    def __init__(self, request: Request) -> None:
        self.request = request
        self.texts: list[TokenizedText] = []
        self.needed_bytes = 0  # for a pass with only its longest text
        self.texts_left = 0
        self.begun = False
        self.paused = False

    @property
    def token_count(self) -> int:
        return sum(len(text.tokens) for text in self.texts)

    @property
    def input_count(self) -> int:
        """How many texts there are; a document's pieces count as one."""
        return len({number if text.choice is None else text.choice for number, text in enumerate(self.texts)})


class BatchService(Service, Generic[B]):
    """Serves one model, which a subclass loads."""

    @staticmethod
    def prepare() -> int:
        """Return the bytes that the device lets models use. Importing this module already imports what a load needs."""
        return recommended_bytes()

    def __init__(self, path: str, options: B) -> None:
        """`options.queue_size`: the most requests that wait, see `has_place`."""
        self._path = Path(path)
        self._options = options
        self._memory = self._most_memory = options.memory_limit or recommended_bytes()
        self._thread = MlxThread()
        self._reader = Lane("tokens")
        self._live: dict[str, _BatchedRequest] = {}
        self._waiting = TextQueue()
        self._driver: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._weights_bytes = 0
        self._last_report: tuple[int, int, list[str]] = (0, 0, [])

    @staticmethod
    @abstractmethod
    def _load(path: Path, options: B, progress: Progress, beat: Callable[[], None]) -> PassModel:
        """Load the model, in MLX's thread. Raise OrchardError with the reason if it can't be loaded."""

    async def start(self, emit: Emit, progress: Progress) -> LoadResult:
        """Load the model, let it read a text, and return its size.

        Raise OrchardError("model_failed", ...) with the reason.
        """
        self._emit = emit
        limit_device(self._memory)

        def load(advance: Progress) -> PassModel:
            model = self._load(self._path, self._options, advance, self._thread.advance)
            self._weights_bytes = mx.get_active_memory()
            model.compute([TokenizedText([0, 0], [0, 0])])
            return model

        self._model = await load_in_thread(self._thread, load, progress)
        self._driver = asyncio.create_task(self._drive())
        self._driver.add_done_callback(_check_driver)
        return LoadResult(self._weights_bytes, {"batching": "together"})

    def submit(self, request: Request) -> None:
        """Begin a request. If it is wrong, emit a `Failed` event."""
        callers = [live.request.sender.caller for live in self._live.values()]
        if not has_place(self._options.queue_size, callers, request.sender.caller):
            message = f"{self._options.queue_size} requests are waiting for this model already"
            self._tell([(request.id, [Failed("overloaded", message, retry_after=_RETRY_AFTER)])])
            return
        live = self._live[request.id] = _BatchedRequest(request)
        live.reading = asyncio.create_task(self._read_texts(live))
        self._tell([])

    def cancel(self, request_id: str) -> None:
        """Cancel a request; its waiting texts are dropped. Unknown ids are ignored."""
        if live := self._live.pop(request_id, None):
            live.reading.cancel()
            self._waiting.drop(request_id)
            self._tell([])

    def pause(self, request_id: str) -> None:
        """Compute no more texts of a request until it is resumed. Unknown ids are ignored."""
        self._set_paused(request_id, True)

    def resume(self, request_id: str) -> None:
        """Continue a paused request. Unknown ids are ignored."""
        self._set_paused(request_id, False)

    def _set_paused(self, request_id: str, paused: bool) -> None:
        if live := self._live.get(request_id):
            live.paused = paused
            self._admit(live)

    def _admit(self, live: _BatchedRequest) -> None:
        """Let a request's texts wait for a pass, unless the request is paused or needs more memory than is free."""
        if live.paused or self._is_starved(live):
            self._waiting.pause(live.request.id)
        else:
            self._waiting.resume(live.request.id)
            self._wake.set()

    def _is_starved(self, live: _BatchedRequest) -> bool:
        return live.texts_left > 0 and live.needed_bytes > self._memory - self._weights_bytes

    def starved_requests(self) -> list[str]:
        """Return the requests that wait because a text needs more memory than there is now."""
        return [live.request.id for live in self._starving]

    def memory_use(self) -> MemoryUse:
        """Return what the weights take, and what the oldest starved request needs."""
        starved = self._starving
        return MemoryUse(
            self._weights_bytes, wanted_bytes=self._weights_bytes + starved[0].needed_bytes if starved else 0
        )

    @property
    def _starving(self) -> list[_BatchedRequest]:
        """The starved requests, the oldest first. Any thread may read this."""
        return [live for live in list(self._live.values()) if not live.paused and self._is_starved(live)]

    def heartbeat(self) -> Heartbeat:
        """Return the signs of life: a piece of work is a layer of the model, or the tokens of a few texts."""
        return Heartbeat(max(self._thread.silent_seconds, self._reader.silent_seconds), self._thread.mlx_bytes)

    def limit_memory(self, memory_bytes: int, most_bytes: int) -> None:
        """Limit the weights and a pass together to `memory_bytes` from now on."""
        limit_device(memory_bytes)
        self._memory, self._most_memory = memory_bytes, most_bytes
        for live in self._live.values():
            self._admit(live)
        self._tell([])

    async def close(self, save_seconds: float) -> None:
        """End all requests and free the model."""
        for request_id in list(self._live):
            self.cancel(request_id)
        if self._driver:
            self._driver.cancel()
            await asyncio.wait([self._driver])
        await asyncio.to_thread(self._reader.close)
        vars(self).pop("_model", None)  # there is no model if its load failed
        await self._thread.close()

    # The texts of a request

    async def _read_texts(self, live: _BatchedRequest) -> None:
        """Tokenise a request's texts, in the tokenizer's thread, and let them wait for a pass."""
        request = live.request
        try:
            live.texts = await self._reader.do(
                self._model.read_task, request.task, yield_seconds=yield_seconds(request.task)
            )
            live.needed_bytes = self._needed_bytes(live.texts)
        except OrchardError as error:
            self._end(request.id, Failed.from_error(error))
        except Exception as error:
            log.exception("the texts of request %s could not be read", request.id)
            self._end(request.id, Failed("internal", f"the texts could not be read: {type(error).__name__}"))
        else:
            live.texts_left = len(live.texts)
            self._waiting.add(request, [len(text.tokens) for text in live.texts])
            self._admit(live)
            self._tell([])

    def _needed_bytes(self, texts: Sequence[TokenizedText]) -> int:
        """Return the bytes of a pass with only the longest text. Raise OrchardError if they can never be free."""
        longest = max(len(text.tokens) for text in texts)
        needed = self._model.cost(1, longest)
        if needed > self._most_memory - self._weights_bytes:
            message = f"a text of {longest} tokens needs more memory than there is for this model"
            raise OrchardError("context_length_exceeded", message)
        return needed

    # Passes

    async def _drive(self) -> None:
        """Compute waiting texts, one pass at a time."""
        passes = 0
        while True:
            while self._waiting:
                await self._run_pass(self._waiting.take(self._fits))
                passes += 1
                if passes % _PASSES_PER_CLEAR == 0:
                    await self._thread.do(mx.clear_cache)
            self._wake.clear()
            try:
                async with asyncio.timeout(_SECONDS_UNTIL_CLEAR if passes else None):
                    await self._wake.wait()
            except TimeoutError:
                await self._thread.do(mx.clear_cache)
                passes = 0

    def _fits(self, rows: int, length: int) -> bool:
        tokens = self._options.halve_tokens(self._options.batch_tokens or _TOKENS[mx.default_device().type.name])
        return (
            rows * length <= tokens
            and rows * self._model.result_bytes <= _MOST_BYTES
            and self._model.cost(rows, length) <= self._memory - self._weights_bytes
        )

    async def _run_pass(self, places: list[TextPlace]) -> None:
        """Compute some texts, perhaps of several requests, and emit their results."""
        texts = [self._live[place.request_id].texts[place.number] for place in places]
        events: dict[str, list[Event]] = {}
        for request_id in dict.fromkeys(place.request_id for place in places):
            live = self._live[request_id]
            if not live.begun:
                live.begun = True
                events[request_id] = [Started(live.token_count)]
        self._tell(list(events.items()))
        try:
            results = await self._thread.do(self._compute, texts)
        except Exception as error:
            log.exception("a pass over %d texts failed", len(texts))
            failed = Failed("internal", f"the model failed on this batch of texts: {type(error).__name__}")
            for request_id in {place.request_id for place in places} & self._live.keys():
                self._end(request_id, failed)
            return
        made: dict[str, list[Event]] = {}
        for place, result in zip(places, results, strict=True):
            if (still := self._live.get(place.request_id)) is None:
                continue
            if isinstance(result, OrchardError):
                made.pop(place.request_id, None)
                self._end(place.request_id, Failed.from_error(result))
            else:
                found = self._model.result(still.request.task, result)
                choice = still.texts[place.number].choice
                output = Output.from_struct(found, place.number if choice is None else choice)
                made.setdefault(place.request_id, []).append(output)
                still.texts_left -= 1
        for request_id, outputs in made.items():
            live = self._live[request_id]
            if not live.texts_left:
                outputs.append(Finished((), Usage(live.token_count, 0, units=live.input_count)))
                del self._live[request_id]
        self._tell(list(made.items()))

    def _compute(self, texts: Sequence[TokenizedText]) -> list[Any]:
        """Return each text's result, or an OrchardError if memory is too short even for a pass of its own."""
        results: list[Any] = []
        for part, found in run_in_parts(self._model.compute, texts, _halve_texts):
            results += [found] * len(part) if isinstance(found, OrchardError) else found
        return results

    def _end(self, request_id: str, event: Event) -> None:
        del self._live[request_id]
        self._waiting.drop(request_id)
        self._tell([(request_id, [event])])

    def _tell(self, events: list[tuple[str, list[Event]]]) -> None:
        """Emit events; without any, report the running, waiting and starved requests only if these changed."""
        running = sum(live.begun for live in self._live.values())
        numbers = running, len(self._live) - running
        if events or (*numbers, self.starved_requests()) != self._last_report:
            self._last_report = (*numbers, self.starved_requests())
            self._emit(events, *numbers)
