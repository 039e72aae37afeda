"""The service of a text model. Prompts, media, grammars and tokens have a thread each; the event loop does the rest.

submit ─▶ prompt thread (template, tokenizer) ─▶ grammar thread, if there is a grammar to compile ─▶ engine thread
─▶ answers (characters, format, stop strings) ─▶ emit
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from orchard.backends import model_folder
from orchard.backends.beginnings import yield_seconds
from orchard.backends.service import Emit, Heartbeat, LoadResult, MemoryUse, Progress, Service
from orchard.backends.text.cache_reports import CacheReports
from orchard.backends.text.draft import load_draft
from orchard.backends.text.embeddings import TextEmbeddings, request_id_of_job
from orchard.backends.text.media_room import MEDIA_SHARE, MOST_MEDIA_BYTES, MediaRoom
from orchard.backends.text.model import TextModel, load_text_model
from orchard.backends.text.output import ChoiceOutput, Echo, Vocabulary
from orchard.backends.text.prompt.chat_template import ChatTemplate
from orchard.backends.text.prompt.media import MediaTask, PromptMedia
from orchard.backends.text.prompt.prompter import PreparedPrompt, Prompter
from orchard.core.cache_report import CacheState
from orchard.core.errors import FailureKind, OrchardError
from orchard.core.events import Event, Failed, Finished, FinishReason, SettledSampling, Started, Usage
from orchard.core.fair_queue import has_place
from orchard.core.media import MediaPart
from orchard.core.request import Request, RequestProgress
from orchard.core.speculation_report import SourceTotals, SpeculationReport
from orchard.core.stopwatch import Stopwatch
from orchard.core.tasks.embed import Embed
from orchard.core.tasks.generate import Count, Generate, generate_task
from orchard.core.tasks.media import request_media
from orchard.core.tasks.text_options import Batching, TextOptions
from orchard.device.lane import Lane
from orchard.device.memory import recommended_bytes
from orchard.engine.batching.batch import BatchMode
from orchard.engine.batching.job import DrawnToken, EngineStep, Job, JobStart, Verification
from orchard.engine.engine import Engine
from orchard.engine.memory import memory_limit
from orchard.engine.prefix_cache.values import CacheScope
from orchard.engine.sampling.grammar import BoundGrammar
from orchard.engine.speculation.prediction import PredictedText, PredictionUse
from orchard.formats.families.tagged import TaggedFormat

if TYPE_CHECKING:
    from orchard.backends.ranks.launch import RankLauncher
    from orchard.backends.vision.model import VisionModel

T = TypeVar("T")

log = logging.getLogger("orchard.worker")

_RETRY_AFTER = 5
_SECONDS_TO_LEAVE_RANKS = 2.0
_RANKS_SAVE_SECONDS = 2.0  # so that a group ends within five seconds in any case
# Large work lets other work go first, for a second per amount.
_YIELDING_BYTES = 2 * 2**20  # of files of media
_YIELDING_CHARS = 16 * 2**10  # of a grammar
_BATCHING: dict[BatchMode, Batching] = {
    BatchMode.SHARED: "together",
    BatchMode.BY_LENGTH: "by_length",
    BatchMode.SEQUENTIAL: "in_turn",
}


class _LiveRequest:
    """A request that was submitted and has not ended. `answers` is filled when the engine gets its job."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.stopwatch = Stopwatch()
        self.cache_scope = CacheScope.from_name(request.cache_scope)
        self.preparing: asyncio.Task[None] | None = None
        self.answers: list[ChoiceOutput] = []
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.media_bytes = 0
        self.sampling = SettledSampling()
        self.has_begun = False
        self.predictions: list[PredictionUse] = []  # one per choice, if the request predicts its answer
        self.guess_counts: dict[str, tuple[int, int]] = {}  # by source of guesses: proposed and accepted tokens
        self.echo: Echo | None = None

    def count_guesses(self, guesses: Verification) -> None:
        """Count proposed and accepted tokens."""
        proposed, accepted = self.guess_counts.get(guesses.source, (0, 0))
        self.guess_counts[guesses.source] = proposed + guesses.proposed, accepted + guesses.accepted

    def progress(self, read_tokens: int) -> RequestProgress:
        """Return how far it is; `read_tokens`: how much of its prompt is prefilled, if its prefill is under way."""
        generated = sum(answer.completion_tokens for answer in self.answers)
        read = self.prompt_tokens if generated else max(read_tokens, self.cached_tokens)
        return RequestProgress(self.request.id, self.prompt_tokens, read, self.cached_tokens, generated)

    def finished_event(self) -> Finished:
        """Return the last event; a request that only wants its prompt echoed has no answers."""
        reasons: list[FinishReason] = [answer.reason for answer in self.answers if answer.reason]
        reasons = reasons or ["length"] * generate_task(self.request).n
        completion_tokens = sum(answer.completion_tokens for answer in self.answers)
        reasoning_tokens = sum(answer.reasoning_tokens for answer in self.answers)
        stops = tuple(answer.stops.stopped_by for answer in self.answers)
        usage = Usage(
            self.prompt_tokens,
            completion_tokens,
            reasoning_tokens,
            self.cached_tokens,
            accepted_prediction_tokens=sum(use.accepted_tokens for use in self.predictions),
            rejected_prediction_tokens=sum(use.rejected_tokens for use in self.predictions),
        )
        later = self.stopwatch.seconds_since_stop
        return Finished(tuple(reasons), usage, stops if any(stops) else (), self.stopwatch.seconds, later)


class TextService(Service):
    """Serves one text model from a folder in mlx-lm's format."""

    @staticmethod
    def prepare() -> int:
        """Return the bytes that the device lets models use. Importing this file has imported what a load needs."""
        return recommended_bytes()

    def __init__(self, path: str, options: TextOptions) -> None:
        """`options.queue_size` requests wait, in addition to `options.decode_concurrency`; see `has_place`."""
        self._launcher: RankLauncher | None = None
        if options.is_split:
            from orchard.backends.ranks import launch

            # Ranks may share memory, and each sees to its own part.
            self._launcher = launch.RankLauncher(path, options)
            options = replace(options, memory_limit=memory_limit(options) // self._launcher.memory_shares)
        self._engine: Engine[TextModel | VisionModel] = Engine(
            lambda: self._load(path, options, self._engine.advance),
            self._loop_callback(self._on_step),
            options,
            self._loop_callback(lambda fraction: self._progress(fraction)),  # noqa: PLW0108 - `start` sets it
            lambda model: load_draft(path, model, options),
        )
        self._prompts = Lane("prompt")
        self._readers = Lane("media")
        self._grammars = Lane("grammar")
        self._end_helpers: Callable[[], None] = lambda: None
        self._options = options
        self._most_requests = options.decode_concurrency + options.queue_size
        self._most_bytes = memory_limit(options)
        self._given: tuple[int, int] | None = None  # what the gateway lets the engine take now, and at most
        self._live: dict[str, _LiveRequest] = {}
        self._room = MediaRoom(min(MOST_MEDIA_BYTES, int(memory_limit(options) * MEDIA_SHARE)), self._media_bytes)
        self._running = 0  # as the engine last reported
        self._starved: list[str] = []  # as the engine last reported
        self._last_status: tuple[int, int, list[str]] = (0, 0, [])

    async def start(self, emit: Emit, progress: Progress) -> LoadResult:
        """Load the model, warm it up, and return its size, how it batches and which media it takes.

        Raise OrchardError("model_failed", ...) with the reason.
        """
        self._emit = emit
        self._progress = progress
        self._loop = asyncio.get_running_loop()
        if self._launcher:
            self._launcher.on_memory = partial(self._loop_callback(lambda _: self._limit_engine()), None)
        try:
            model = await asyncio.wrap_future(self._engine.start())
            await self._prompts.do(self._adopt, model)
            media: list[str] = list(self._prompter.media_kinds)
            return LoadResult(self.memory_use().weights_bytes, {"media": media, **self.changing_details()})
        except OrchardError:
            raise
        except Exception as error:
            log.exception("loading failed")
            raise OrchardError("model_failed", f"the model can't be run: {type(error).__name__}: {error}") from error

    def _load(self, path: str, options: TextOptions, progress: model_folder.Progress) -> "TextModel | VisionModel":
        """Load the model, in the engine's thread."""
        if self._launcher:
            return self._launcher.load(options, progress)
        return load_text_model(path, options, progress)

    def _media(self, model: "TextModel | VisionModel", template: ChatTemplate) -> PromptMedia | tuple[()] | None:
        """Return the object that puts media into prompts; () if a vision model takes none; None if it isn't one."""
        return None

    def _adopt(self, model: "TextModel | VisionModel") -> None:
        """Make what prompts and answers need from the model. Don't keep the model: the engine's thread frees it."""
        self._vocabulary = Vocabulary(model.tokenizer)
        self._reports = CacheReports(self._vocabulary)
        self._prompter = Prompter(model, self._vocabulary, self._options, self._media)
        self._end_helpers = self._prompter.close
        width = model.output.width if model.output and self._options.embeddings else 0
        truncate = self._options.embeddings_truncate
        self._embeddings = TextEmbeddings(self._engine, self._prompts, self._prompter, width, truncate=truncate)
        self._prompter.template.check()

    def submit(self, request: Request) -> None:
        """Begin a request. If it is wrong or the queue is full, emit a `Failed` event."""
        callers = [live.request.sender.caller for live in self._live.values()]
        if not has_place(self._most_requests, callers, request.sender.caller):
            message = f"{self._options.queue_size} requests are waiting for this model already"
            self._emit_events([(request.id, [Failed("overloaded", message, retry_after=_RETRY_AFTER)])])
            return
        live = self._live[request.id] = _LiveRequest(request)
        live.preparing = self._loop.create_task(self._prepare(live))
        self._emit_events([])

    def cancel(self, request_id: str) -> None:
        """Cancel a request; none of its events are emitted after this. Unknown ids are ignored."""
        if live := self._live.pop(request_id, None):
            if live.preparing:
                live.preparing.cancel()
            else:
                self._engine.cancel(request_id)
                self._embeddings.cancel(request_id)
            self._log_guesses(live)
            self._emit_events([])

    def pause(self, request_id: str) -> None:
        """Stop the engine's work on a request. Unknown ids are ignored."""
        self._engine.pause(request_id)
        self._embeddings.pause(request_id)

    def resume(self, request_id: str) -> None:
        """Continue a paused request. Unknown ids are ignored."""
        self._engine.resume(request_id)
        self._embeddings.resume(request_id)

    async def cache_state(self, request_id: str | None) -> CacheState:
        """Return the prefix cache's counters and all reports; with a request's id, only its report, if it has one."""
        reports = self._reports.find(request_id)
        if request_id is not None:
            return CacheState({}, reports)
        counters: Future[dict[str, int]] = Future()
        self._engine.report(counters.set_result)
        # The engine sets the result even if nobody waits for it any more.
        return CacheState(await asyncio.shield(asyncio.wrap_future(counters)), reports)

    def request_progress(self) -> list[RequestProgress]:
        """Return how far the requests are; the engine says it of prefills a few times in a second."""
        read = self._engine.read_tokens
        return [live.progress(read.get(id_, 0)) for id_, live in self._live.items()]

    def heartbeat(self) -> Heartbeat:
        """Return the signs of life, also while the model loads: then each report of progress ends a piece of work."""
        lanes = (self._prompts, self._readers, self._grammars)
        silent = max(self._engine.silent_seconds, *(lane.silent_seconds for lane in lanes))
        return Heartbeat(silent, self._engine.mlx_bytes)

    def speculation(self) -> SpeculationReport:
        """Return the results of speculation since the load; they may include steps that are not delivered yet."""
        return self._engine.speculation_report

    def starved_requests(self) -> list[str]:
        """Return the requests that wait because they need more memory than there is for now, even alone."""
        return self._starved

    def changing_details(self) -> dict[str, str | bool | list[str]]:
        """Return how the model batches, and whether it still warms up."""
        return {"batching": _BATCHING[self._engine.batch_mode], "warming_up": self._engine.is_warming_up}

    def memory_use(self) -> MemoryUse:
        """Return what weights, rows and cached prompts take, and what the oldest starved request needs."""
        weights, use = self._engine.weights_bytes, self._engine.use
        wanted, count = weights + use.wanted if use.wanted else 0, self._memory_shares
        ranks = self._launcher.reports if self._launcher else ()
        return MemoryUse(weights * count, use.rows * count, use.prompts * count, wanted * count, ranks)

    @property
    def _memory_shares(self) -> int:
        """How many processes share this one's memory for the model."""
        return self._launcher.memory_shares if self._launcher else 1

    def limit_memory(self, memory_bytes: int, most_bytes: int) -> None:
        """Limit weights, KV caches and cached prompts together to `memory_bytes`: see `Service`."""
        self._most_bytes = most_bytes
        self._given = memory_bytes // self._memory_shares, most_bytes // self._memory_shares
        self._limit_engine()

    def _limit_engine(self) -> None:
        """Limit the engine to what the gateway gives, and to what the other hosts have room for."""
        if self._given:
            given, most = self._given
            weights = self._engine.weights_bytes
            elsewhere = self._launcher.allowed_bytes(weights) if self._launcher and weights else None
            self._engine.limit_memory(given if elsewhere is None else min(given, elsewhere), most)

    async def close(self, save_seconds: float) -> None:
        """Save cached prompts for at most `save_seconds`, stop the engine and free the model.

        After that, another service may be made in this process.
        """
        for request_id in list(self._live):
            self.cancel(request_id)
        if self._launcher:
            save_seconds = min(save_seconds, _RANKS_SAVE_SECONDS) if self._options.prompt_cache_dir else 0.0
        self._engine.close(save_seconds)
        self._end_helpers()
        for lane in (self._grammars, self._readers, self._prompts):
            await asyncio.to_thread(lane.close)
        # A rank that waits for another one in a collective operation waits without end; its process ends after this.
        timeout = save_seconds + _SECONDS_TO_LEAVE_RANKS if self._launcher else None
        await asyncio.to_thread(self._engine.join, timeout)
        if self._launcher:
            await asyncio.to_thread(self._launcher.end)

    async def _prepare(self, live: _LiveRequest) -> None:
        """Make a request's prompt and its grammar, and give its job to the engine."""
        request = live.request
        try:
            salt = live.cache_scope.salt
            if isinstance(request.task, Embed):
                prompts = await self._embeddings.prepare(request.task, partial(self._read_media, live), salt)
                live.preparing = None
                self._embeddings.begin(request, prompts)
                return
            generate = generate_task(request)
            task: Generate | MediaTask = generate
            if parts := list(request_media(request)):
                task = await self._read_media(live, partial(self._prompter.read_media, generate, salt=salt), parts)
            yields = yield_seconds(task.task if isinstance(task, MediaTask) else task)
            if isinstance(request.task, Count):
                count = partial(self._prompter.count_tokens, task, salt, must_fit=request.task.must_fit)
                tokens = await self._prompts.do(count, yield_seconds=yields)
                self._end(request.id, Started(tokens), Finished((), Usage(tokens, 0)))
                return
            prepare = partial(self._prompter.prepare, task, salt, live.stopwatch)
            prepared = await self._prompts.do(prepare, yield_seconds=yields)
            if salt and self._options.prompt_cache_shared:
                count_shared = partial(self._prompter.shared.count, generate, prepared.tokens)
                live.cache_scope = replace(
                    live.cache_scope, shared=await self._prompts.do(count_shared, yield_seconds=yields)
                )
            grammar, constraints = None, self._prompter.constraints
            if (constraint := prepared.constraint) and constraints.is_compiled(constraint):
                grammar = await self._prompts.do(constraints.compile, constraint)
            elif constraint:
                grammar = await self._grammars.do(
                    constraints.compile, constraint, yield_seconds=len(constraint.key) / _YIELDING_CHARS
                )
            live.preparing = None
            self._begin(live, prepared, grammar)
        except OrchardError as error:
            self._end(request.id, Failed.from_error(error))
        except Exception as error:
            log.exception("request %s could not be prepared", request.id)
            self._end(request.id, Failed("internal", f"the prompt could not be prepared: {type(error).__name__}"))

    async def _read_media(
        self, live: _LiveRequest, read: Callable[[], MediaTask], parts: Sequence[MediaPart]
    ) -> MediaTask:
        """Call `read`, which reads the media `parts`, once there is memory for the media."""
        yields = sum(len(part.data) for part in parts) / _YIELDING_BYTES
        # Documents need no room. A request that has media already doesn't wait: two could wait for each other.
        needs_room = not live.media_bytes and any(part.kind != "document" for part in parts)
        async with self._room.turn(yields) if needs_room else contextlib.nullcontext():
            live.stopwatch.lap("queue")
            media_task = await self._readers.do(read, yield_seconds=yields)
            live.media_bytes += media_task.media_bytes
            live.stopwatch.lap("media")
            return media_task

    def _media_bytes(self) -> int:
        return sum(live.media_bytes for live in self._live.values())

    def _begin(self, live: _LiveRequest, prepared: PreparedPrompt, grammar: BoundGrammar | None) -> None:
        request, task = live.request, generate_task(live.request)
        live.prompt_tokens = len(prepared.tokens)
        if task.echo:
            live.echo = Echo(self._vocabulary, prepared.text, prepared.tokens, task.n, task.top_logprobs)
        penalties = prepared.params.presence_penalty, prepared.params.frequency_penalty
        live.sampling = SettledSampling(prepared.params.temperature, prepared.params.top_p, *penalties)
        prompt_logprobs = live.echo.top_logprobs if live.echo else None
        if not prepared.max_tokens and prompt_logprobs is None:
            started = Started(live.prompt_tokens, sampling=live.sampling)
            self._end(request.id, started, *(live.echo.begin() if live.echo else ()), live.finished_event())
            return
        begin_format = partial(self._prompter.family.begin, prepared.text, task.tools, forced=task.must_call)
        live.answers = [
            ChoiceOutput(self._vocabulary, begin_format() if task.prompt is None else TaggedFormat(), task, choice)
            for choice in range(task.n if prepared.max_tokens else 0)
        ]
        if prepared.prediction:
            prediction = PredictedText(prepared.prediction)
            live.predictions = [PredictionUse(prediction) for _ in live.answers]
        self._engine.add_job(
            Job(
                request.id,
                prepared.tokens,
                prepared.params,
                max(prepared.max_tokens, 1),
                len(live.answers) or 1,
                request.priority,
                prepared.boundaries,
                prepared.media.spans,
                prepared.media.embed,
                prepared.media.media_bytes,
                grammar=grammar,
                prompt_logprobs=prompt_logprobs,
                speculates=task.speculates,
                prediction=prepared.prediction,
                cache_scope=live.cache_scope,
                sender=request.sender,
                stopwatch=live.stopwatch,
            )
        )

    def _end(self, request_id: str, *events: Event) -> None:
        """End a request that the engine doesn't have, with these events."""
        del self._live[request_id]
        self._emit_events([(request_id, list(events))])

    def _loop_callback(self, call: Callable[[T], None]) -> Callable[[T], None]:
        """Return a function for the engine's thread that runs `call` on the event loop."""

        def hand_over(news: T) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
                self._loop.call_soon_threadsafe(call, news)

        return hand_over

    def _on_step(self, step: EngineStep) -> None:
        events = self._embeddings.take(step)
        finished = [request_id for request_id, found in events.items() if isinstance(found[-1], Finished)]
        for request_id in finished:
            del self._live[request_id]
        self._running = max(0, step.running - self._embeddings.further_jobs)
        self._starved = list(dict.fromkeys(map(request_id_of_job, step.starved_jobs)))
        for begun in step.starts:
            if live := self._live.get(begun.job):
                events.setdefault(begun.job, []).extend(self._on_begun(live, begun))
        for scored in step.scores:
            if (live := self._live.get(scored.job)) and live.echo:
                events.setdefault(scored.job, []).extend(live.echo.score(scored.samples))
        for drawn in step.tokens:  # do this first: a stop string among the step's tokens may end the request
            if drawn.verified and (live := self._live.get(drawn.job)):
                live.count_guesses(drawn.verified)
        for drawn in step.tokens:
            if live := self._live.get(drawn.job):
                events.setdefault(drawn.job, []).extend(self._on_token(live, drawn))
        for broken in step.failures:
            request_id = request_id_of_job(broken.job)
            if self._live.pop(request_id, None):
                self._embeddings.cancel(request_id)
                failure: FailureKind = "context_length_exceeded" if broken.too_large else "internal"
                kind = "invalid_request" if broken.by_grammar else failure
                failed = Failed.from_error(broken.refusal) if broken.refusal else Failed(kind, broken.message)
                events.setdefault(request_id, []).append(failed)
        self._emit_events([(request_id, found) for request_id, found in events.items() if found])

    def _on_begun(self, live: _LiveRequest, begun: JobStart) -> list[Event]:
        """Return the first events of a request whose prefill has begun."""
        if live.has_begun:  # its prefill began again, after a preemption
            return []
        live.has_begun = True
        live.cached_tokens = begun.cached_tokens
        self._reports.add(begun, live.prompt_tokens)
        started = Started(live.prompt_tokens, begun.cached_tokens, sampling=live.sampling)
        return [started, *(live.echo.begin() if live.echo else ())]

    def _on_token(self, live: _LiveRequest, drawn: DrawnToken) -> list[Event]:
        if not live.answers:  # only the prompt was wanted, but the engine always generates a token
            del self._live[drawn.job]
            return [live.finished_event()]
        answer = live.answers[drawn.choice]
        if answer.reason:  # a stop string ended this choice, and the engine doesn't know yet
            return []
        reasoning = answer.reasoning_tokens
        try:
            events = answer.feed(drawn)
        except Exception as error:
            log.exception("the output of request %s could not be read", drawn.job)
            self._engine.cancel(drawn.job)
            del self._live[drawn.job]
            return [Failed("internal", f"the model's output could not be read: {type(error).__name__}")]
        for note in answer.notes():
            log.info("request %s: %s", drawn.job, note)
        if live.predictions and answer.reasoning_tokens == reasoning:
            live.predictions[drawn.choice].take(drawn.sample.token)
        if answer.reason and not drawn.reason:
            self._engine.cancel(drawn.job, drawn.choice)
        if all(choice.reason for choice in live.answers):
            del self._live[drawn.job]
            events.append(live.finished_event())
            self._log_guesses(live)
        return events

    def _log_guesses(self, live: _LiveRequest) -> None:
        """Log how many guesses of a request were right, and how much time each source has saved in all requests."""
        if not live.guess_counts:
            return
        totals = self._engine.speculation_report
        saved = {source: totals.get(source, SourceTotals()).saved_seconds for source in live.guess_counts}
        counts = (
            f"{right} of {count} by {source} (since the load: {saved[source]:.2f} s saved)"
            for source, (count, right) in live.guess_counts.items()
        )
        log.debug("request %s: guesses that were right: %s", live.request.id, ", ".join(counts))

    def _emit_events(self, events: list[tuple[str, list[Event]]]) -> None:
        """Emit events and the numbers of requests; without events, only if a number or the starved requests changed."""
        self._room.start_next()
        numbers = self._running, max(0, len(self._live) - self._running)
        if events or (*numbers, self._starved) != self._last_status:
            self._last_status = (*numbers, self._starved)
            self._emit(events, *numbers)
