"""Embeddings from a text model: the last hidden state of each input's last token, normalised to length 1.

Each input is a job of the engine, so it shares the engine with all other requests. The engine gets only a few inputs of
a request at a time, so that a request with one input doesn't wait for all of a request with thousands.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from orchard.backends.beginnings import yields_of
from orchard.backends.text.media_room import MOST_BYTES
from orchard.backends.text.prompt.media import ReadTask
from orchard.backends.text.prompt.prompter import InputTokens, Prompter
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Finished, Output, Started, Usage
from orchard.core.media import MediaPart
from orchard.core.request import Request
from orchard.core.tasks.embed import Embed, Embedding, EmbedInput, MixedInput, dimensions_error
from orchard.core.tasks.generate import Generate
from orchard.core.tasks.media import input_media
from orchard.device.lane import Lane
from orchard.engine.batching.job import EngineStep, Job
from orchard.engine.engine import Engine
from orchard.engine.sampling.params import SamplingParams

Read = Callable[[Callable[[], ReadTask], Sequence[MediaPart]], Awaitable[ReadTask]]
"""Calls a function that reads the given media, in the right thread and when there is memory for them."""

_AT_ONCE = 8
_UNUSED = SamplingParams(seed=0)


class _EmbeddedRequest:
    """A request whose inputs are tokenised. `with_engine`: inputs that the engine has; `begun`: those in prefill."""

    def __init__(self, request: Request, prompts: Sequence[InputTokens]) -> None:
        self.id = request.id
        self.priority = request.priority
        self.sender = request.sender
        self.tokens = sum(len(prompt.tokens) for prompt in prompts)
        self.inputs = len(prompts)
        self.left = self.inputs
        self.waiting = deque(enumerate(prompts))
        self.with_engine: set[int] = set()
        self.begun: set[int] = set()
        self.started = False
        self.paused = False

    def next_jobs(self) -> Iterator[Job]:
        """Yield the next jobs for the engine."""
        while self.waiting and len(self.with_engine) < _AT_ONCE and not self.paused:
            number, (tokens, media) = self.waiting.popleft()
            self.with_engine.add(number)
            yield Job(
                _job(self.id, number),
                tokens,
                _UNUSED,
                max_tokens=1,
                priority=self.priority,
                spans=media.spans,
                embed=media.embed,
                media_bytes=media.media_bytes,
                hidden=True,
                sender=self.sender,
            )

    def jobs(self) -> Iterator[str]:
        """Yield the ids of the jobs that the engine has."""
        return (_job(self.id, number) for number in self.with_engine)


class TextEmbeddings:
    """The embedding requests of one text model. Only the event loop's thread calls its methods."""

    def __init__(self, engine: Engine[Any], prompts: Lane, prompter: Prompter, width: int, *, truncate: bool) -> None:
        """`prompts`: the lane for tokenising. `width`: how many numbers an embedding has. `truncate`: see `Embed`."""
        self._engine = engine
        self._prompts = prompts
        self._prompter = prompter
        self._width = width
        self._truncate = truncate
        self._live: dict[str, _EmbeddedRequest] = {}

    @property
    def further_jobs(self) -> int:
        """How many jobs the engine works on, not counting one of each request."""
        return sum(max(0, len(one.begun) - 1) for one in self._live.values())

    async def prepare(self, task: Embed, read: Read, salt: bytes) -> list[InputTokens]:
        """Return the tokens and media of each input; `read` reads media. `salt`: that of the request's `CacheScope`.

        Raise OrchardError if the request is wrong or the model can't do what it asks for.
        """
        if task.prompt_name is not None:
            message = "`prompt_name` must be left out: models that generate text have no prompts for embeddings."
            raise OrchardError("invalid_request", message, param="prompt_name")
        if task.dimensions not in (None, self._width):
            raise dimensions_error(f"must be {self._width}: this model gives no fewer and no more")
        # One at a time, so that the prompts of other requests can go in between.
        truncate = self._truncate if task.truncate is None else task.truncate
        found: list[InputTokens] = []
        media_bytes = 0
        for given, param in zip(task.inputs, task.params, strict=True):
            tokens, taken = await self._tokens(given, param, read, salt, truncate=truncate)
            if (media_bytes := media_bytes + taken) > MOST_BYTES:
                message = f"`{param}` and the inputs before it have media of {media_bytes:,} bytes for the model's "
                message += f"encoder; at most {MOST_BYTES:,} are allowed in a request"
                raise OrchardError("invalid_request", message, param=param)
            found.append(tokens)
        return found

    async def _tokens(
        self, given: EmbedInput, param: str, read: Read, salt: bytes, *, truncate: bool
    ) -> tuple[InputTokens, int]:
        """Return an input's tokens, and the bytes of its media as the encoder gets them."""
        parts = list(input_media(given))
        match given:
            case MixedInput():
                found = await read(partial(self._prompter.read_mixed, given, salt), parts)
                return await self._do(found.task, self._prompter.mixed_tokens, found, param), found.media_bytes
            case Generate():
                found = await read(partial(self._prompter.read, given, salt=salt), parts)
                return await self._do(found.task, self._prompter.conversation_tokens, found), found.media_bytes
        return await self._do(given, partial(self._prompter.input_tokens, given, param, truncate=truncate)), 0

    async def _do(self, size: Any, work: Callable[..., InputTokens], *args: Any) -> InputTokens:
        """Tokenise in the prompts' thread; an input of the size of `size` lets smaller ones go first."""
        return await self._prompts.do(work, *args, yields=yields_of(size))

    def begin(self, request: Request, prompts: Sequence[InputTokens]) -> None:
        """Begin to give a request's inputs to the engine, a few at a time."""
        live = self._live[request.id] = _EmbeddedRequest(request, prompts)
        self._go_on(live)

    def cancel(self, request_id: str) -> None:
        """Cancel a request. Unknown ids are ignored."""
        if live := self._live.pop(request_id, None):
            for job in live.jobs():
                self._engine.cancel(job)

    def pause(self, request_id: str) -> None:
        """Stop the engine's work on a request. Unknown ids are ignored."""
        if live := self._live.get(request_id):
            live.paused = True
            for job in live.jobs():
                self._engine.pause(job)

    def resume(self, request_id: str) -> None:
        """Continue a paused request. Unknown ids are ignored."""
        if live := self._live.get(request_id):
            live.paused = False
            for job in live.jobs():
                self._engine.resume(job)
            self._go_on(live)

    def take(self, step: EngineStep) -> dict[str, list[Event]]:
        """Return the events of a step, by request; the last event of a request that has ended is `Finished`."""
        events: dict[str, list[Event]] = {}
        for begun in step.begun:
            request_id, number = _of_job(begun.job)
            if live := self._live.get(request_id):
                live.begun.add(number)
                if not live.started:
                    live.started = True
                    events[request_id] = [Started(live.tokens)]
        for state in step.hidden:
            request_id, number = _of_job(state.job)
            if live := self._live.get(request_id):
                events.setdefault(request_id, []).extend(self._made(live, number, state.vector))
        return events

    def _made(self, live: _EmbeddedRequest, number: int, vector: "np.ndarray[Any, Any]") -> Iterator[Event]:
        live.with_engine.remove(number)
        live.begun.remove(number)
        live.left -= 1
        unit = vector / max(float(np.linalg.norm(vector)), 1e-12)
        yield Output.from_struct(Embedding(unit.astype("<f4").tobytes()), number)
        self._go_on(live)
        if not live.left:
            del self._live[live.id]
            yield Finished((), Usage(live.tokens, 0, units=live.inputs))

    def _go_on(self, live: _EmbeddedRequest) -> None:
        for job in live.next_jobs():
            self._engine.add_job(job)


def request_of(job: str) -> str:
    """Return the id of the request that a job belongs to."""
    return job.partition("/")[0]


def _job(request_id: str, number: int) -> str:
    return f"{request_id}/{number}"


def _of_job(job: str) -> tuple[str, int]:
    request_id, _, number = job.partition("/")
    return request_id, int(number or 0)
