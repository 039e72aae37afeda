"""Embeddings from a text model: the last hidden state of each input's last token, normalised to length 1.

Each input is a job of the engine, so it shares the engine with all other requests. The engine gets only a few inputs of
a request at a time, so that a request with one input doesn't wait for all of a request with thousands.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from orchard.backends.beginnings import yield_seconds
from orchard.backends.text.media_room import MOST_MEDIA_BYTES
from orchard.backends.text.prompt.media import MediaTask
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

MediaRead = Callable[[Callable[[], MediaTask], Sequence[MediaPart]], Awaitable[MediaTask]]
"""Calls a function that reads the given media, in the right thread and when there is memory for them."""

_MOST_ENGINE_INPUTS = 8
_UNUSED_PARAMS = SamplingParams(seed=0)


class _EmbeddingRequest:
    """A request whose inputs are tokenised.

    `engine_inputs`: the inputs that the engine has; `begun_inputs`: those whose prefill has begun.
    """

    def __init__(self, request: Request, prompts: Sequence[InputTokens]) -> None:
        self.id = request.id
        self.priority = request.priority
        self.sender = request.sender
        self.token_count = sum(len(prompt.tokens) for prompt in prompts)
        self.input_count = len(prompts)
        self.unfinished_inputs = self.input_count
        self.waiting_inputs = deque(enumerate(prompts))
        self.engine_inputs: set[int] = set()
        self.begun_inputs: set[int] = set()
        self.has_started = False
        self.is_paused = False

    def next_jobs(self) -> Iterator[Job]:
        """Yield the next jobs for the engine."""
        while self.waiting_inputs and len(self.engine_inputs) < _MOST_ENGINE_INPUTS and not self.is_paused:
            number, (tokens, media) = self.waiting_inputs.popleft()
            self.engine_inputs.add(number)
            yield Job(
                _job_id(self.id, number),
                tokens,
                _UNUSED_PARAMS,
                max_tokens=1,
                priority=self.priority,
                spans=media.spans,
                embed=media.embed,
                media_bytes=media.media_bytes,
                wants_hidden_state=True,
                sender=self.sender,
            )

    def job_ids(self) -> Iterator[str]:
        """Yield the ids of the jobs that the engine has."""
        return (_job_id(self.id, number) for number in self.engine_inputs)


class TextEmbeddings:
    """The embedding requests of one text model. Only the event loop's thread calls its methods."""

    def __init__(self, engine: Engine[Any], prompts: Lane, prompter: Prompter, width: int, *, truncate: bool) -> None:
        """`prompts`: the lane for tokenising. `width`: how many numbers an embedding has. `truncate`: see `Embed`."""
        self._engine = engine
        self._prompts = prompts
        self._prompter = prompter
        self._width = width
        self._truncate = truncate
        self._live: dict[str, _EmbeddingRequest] = {}

    @property
    def further_jobs(self) -> int:
        """The number of jobs that the engine works on, without the first of each request."""
        return sum(max(0, len(live.begun_inputs) - 1) for live in self._live.values())

    async def prepare(self, task: Embed, read: MediaRead, salt: bytes) -> list[InputTokens]:
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
        prompts: list[InputTokens] = []
        media_bytes = 0
        for embed_input, param in zip(task.inputs, task.params, strict=True):
            prompt, input_bytes = await self._tokenize_input(embed_input, param, read, salt, truncate=truncate)
            if (media_bytes := media_bytes + input_bytes) > MOST_MEDIA_BYTES:
                message = f"`{param}` and the inputs before it have media of {media_bytes:,} bytes for the model's "
                message += f"encoder; at most {MOST_MEDIA_BYTES:,} are allowed in a request"
                raise OrchardError("invalid_request", message, param=param)
            prompts.append(prompt)
        return prompts

    async def _tokenize_input(
        self, embed_input: EmbedInput, param: str, read: MediaRead, salt: bytes, *, truncate: bool
    ) -> tuple[InputTokens, int]:
        """Return an input's tokens, and the bytes of its media as the encoder gets them."""
        parts = list(input_media(embed_input))
        match embed_input:
            case MixedInput():
                media_task = await read(partial(self._prompter.read_mixed, embed_input, salt), parts)
                tokens = await self._tokenize(media_task.task, self._prompter.mixed_tokens, media_task, param)
                return tokens, media_task.media_bytes
            case Generate():
                media_task = await read(partial(self._prompter.read_media, embed_input, salt=salt), parts)
                tokens = await self._tokenize(media_task.task, self._prompter.conversation_tokens, media_task, salt)
                return tokens, media_task.media_bytes
        tokenize = partial(self._prompter.input_tokens, embed_input, param, truncate=truncate)
        return await self._tokenize(embed_input, tokenize), 0

    async def _tokenize(self, size: Any, work: Callable[..., InputTokens], *args: Any) -> InputTokens:
        """Tokenise in the prompts' thread; an input of the size of `size` lets smaller ones go first."""
        return await self._prompts.do(work, *args, yield_seconds=yield_seconds(size))

    def begin(self, request: Request, prompts: Sequence[InputTokens]) -> None:
        """Begin to give a request's inputs to the engine, a few at a time."""
        live = self._live[request.id] = _EmbeddingRequest(request, prompts)
        self._add_next_jobs(live)

    def cancel(self, request_id: str) -> None:
        """Cancel a request. Unknown ids are ignored."""
        if live := self._live.pop(request_id, None):
            for job in live.job_ids():
                self._engine.cancel(job)

    def pause(self, request_id: str) -> None:
        """Stop the engine's work on a request. Unknown ids are ignored."""
        if live := self._live.get(request_id):
            live.is_paused = True
            for job in live.job_ids():
                self._engine.pause(job)

    def resume(self, request_id: str) -> None:
        """Continue a paused request. Unknown ids are ignored."""
        if live := self._live.get(request_id):
            live.is_paused = False
            for job in live.job_ids():
                self._engine.resume(job)
            self._add_next_jobs(live)

    def take(self, step: EngineStep) -> dict[str, list[Event]]:
        """Return the events of a step, by request; the last event of a request that has ended is `Finished`."""
        events: dict[str, list[Event]] = {}
        for begun in step.starts:
            request_id, number = _parse_job_id(begun.job)
            if live := self._live.get(request_id):
                live.begun_inputs.add(number)
                if not live.has_started:
                    live.has_started = True
                    events[request_id] = [Started(live.token_count)]
        for state in step.hidden_states:
            request_id, number = _parse_job_id(state.job)
            if live := self._live.get(request_id):
                events.setdefault(request_id, []).extend(self._embedding_events(live, number, state.vector))
        return events

    def _embedding_events(
        self, live: _EmbeddingRequest, number: int, vector: "np.ndarray[Any, Any]"
    ) -> Iterator[Event]:
        live.engine_inputs.remove(number)
        live.begun_inputs.remove(number)
        live.unfinished_inputs -= 1
        unit = vector / max(float(np.linalg.norm(vector)), 1e-12)
        yield Output.from_struct(Embedding(unit.astype("<f4").tobytes()), number)
        self._add_next_jobs(live)
        if not live.unfinished_inputs:
            del self._live[live.id]
            yield Finished((), Usage(live.token_count, 0, units=live.input_count))

    def _add_next_jobs(self, live: _EmbeddingRequest) -> None:
        for job in live.next_jobs():
            self._engine.add_job(job)


def request_id_of_job(job: str) -> str:
    """Return the id of the request that a job belongs to."""
    return job.partition("/")[0]


def _job_id(request_id: str, number: int) -> str:
    return f"{request_id}/{number}"


def _parse_job_id(job: str) -> tuple[str, int]:
    request_id, _, number = job.partition("/")
    return request_id, int(number or 0)
