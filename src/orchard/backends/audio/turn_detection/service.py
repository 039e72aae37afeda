"""The service of models of turn detection: the pauses of all requests are judged one after the other."""

import logging
from pathlib import Path

from orchard.backends.audio.turn_detection.smart_turn import SmartTurn, load_smart_turn
from orchard.backends.service import Emit, LoadResult, Progress
from orchard.backends.turns import TurnService
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output, Started, Usage
from orchard.core.request import Request
from orchard.core.tasks.judge_turn import JudgeTurn, TurnDetectionOptions

log = logging.getLogger("orchard.worker")

MAX_REQUESTS = 256
"""The most pauses that are judged or wait, see `has_place`."""
_RETRY_AFTER = 1


class _Pause:
    """A request that has not ended."""

    def __init__(self, request: Request, task: JudgeTurn) -> None:
        self.request = request
        self.task = task
        self.begun = False
        self.paused = False


class TurnDetectionService(TurnService[_Pause]):
    """Serves one model."""

    def __init__(self, path: str, options: TurnDetectionOptions) -> None:
        """`path`: the model's folder."""
        super().__init__(options.memory_limit)
        self._folder = Path(path)
        self._model: SmartTurn | None = None

    async def start(self, emit: Emit, progress: Progress) -> LoadResult:
        """Load the model, let it judge a second of silence, and return its size.

        Raise OrchardError("model_failed", ...) with the reason.
        """
        self._emit = emit
        self._model = await self._load_model(lambda advance: load_smart_turn(self._folder, advance), progress)
        return LoadResult(self._model.weights_bytes, {"batching": "in_turn"})

    def submit(self, request: Request) -> None:
        """Begin a request. If there are too many, emit a `Failed` event."""
        task = request.task
        assert isinstance(task, JudgeTurn)
        if not self._has_place(MAX_REQUESTS, request):
            message = f"{MAX_REQUESTS} pauses wait for this model already"
            self._tell((request.id, [Failed("overloaded", message, retry_after=_RETRY_AFTER)]))
            return
        self._add(_Pause(request, task))
        self._tell()
        self._start_work()

    def cancel(self, request_id: str) -> None:
        """Cancel a request; the model may still finish it. Unknown ids are ignored."""
        if self._forget(request_id):
            self._tell()

    async def close(self, save_seconds: float) -> None:
        """Stop after the current pause and free the model; nothing is saved."""
        await self._cancel_work()
        self._live.clear()
        self._model = None
        await self._free()

    async def _run(self) -> None:
        assert self._model
        while pause := next(iter(self._queue), None):
            pause.begun = True
            events: list[Event]
            try:
                judgement = await self._thread.do(self._model.judge, pause.task)
                events = [Started(0), Output.from_struct(judgement), Finished((), Usage(0, 0, units=1))]
            except OrchardError as error:
                events = [Failed.from_error(error)]
            except Exception as error:
                log.exception("judging a turn failed")
                events = [Failed("internal", f"judging a turn failed: {type(error).__name__}")]
            self._queue.charge(pause.request.id, 1)
            if self._forget(pause.request.id):
                self._tell((pause.request.id, events))
