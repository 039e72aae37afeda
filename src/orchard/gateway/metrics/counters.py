"""The server's counters: requests, tokens, times, loads and crashes of each model.

Counting is plain arithmetic on the event loop's thread. `exposition` writes the numbers for Prometheus, `stats` as
JSON.
"""

import logging
import math
import time
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal

from orchard.core.events import Event, Failed, Finished, Started
from orchard.core.request import Request
from orchard.core.stopwatch import Part

log = logging.getLogger("orchard.gateway.metrics.counters")

Clock = Callable[[], float]

# The upper bounds of the histograms' buckets in seconds. One more bucket has the values above the last bound.
FIRST_TOKEN_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
GAP_BOUNDS = (0.002, 0.004, 0.007, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0)
LOAD_BOUNDS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
RATE_SECONDS = 60
WINDOW_SECONDS = 900
"""The most seconds that a window of /v1/stats may have."""
WINDOW_POINTS = 120
"""The most steps of such a window."""
# Steps begin at whole multiples of their length, so that a window may begin so much earlier, in seconds.
_LONGEST_STEP = math.ceil(WINDOW_SECONDS / WINDOW_POINTS)
_RECENT = 1000
_MOST_FIRST_TOKENS = 4096

# The ASGI scope of the HTTP request that is being served; empty if there is none.
http_scope: ContextVar[Mapping[str, Any]] = ContextVar("http_scope", default={})  # noqa: B039 - nobody writes to it


def route_of(scope: Mapping[str, Any]) -> str:
    """Return the path of a request's route, with the names of its parameters; "" if it has no route."""
    return getattr(scope.get("route"), "path", "")


class Histogram:
    """The number of values in each bucket, and the last thousand values."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self._recent: deque[float] = deque(maxlen=_RECENT)

    def add(self, value: float) -> None:
        """Count a value. A value that equals a bucket's upper bound belongs to this bucket."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
        self._recent.append(value)

    def quantiles(self, *shares: float) -> list[float | None]:
        """Return the quantiles of the last thousand values at `shares` above 0 (nearest rank); None: no values."""
        ordered = sorted(self._recent)
        return [ordered[math.ceil(share * len(ordered)) - 1] if ordered else None for share in shares]


class Rate:
    """A growing number, and its growth in each of the last seconds."""

    def __init__(self) -> None:
        self.total = 0
        self._seconds: deque[list[int]] = deque(maxlen=WINDOW_SECONDS + _LONGEST_STEP)  # (second, count)

    def add(self, count: int, now: float) -> None:
        """Add `count` at the time `now`, in seconds."""
        second = int(now)
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append([second, 0])
        self._seconds[-1][1] += count
        self.total += count

    def last_minute(self, now: float) -> int:
        """Return the growth in the minute before `now`."""
        return sum(count for second, count in self.recent_counts(math.floor(now - RATE_SECONDS) + 1))

    def recent_counts(self, begin: float) -> Iterator[tuple[int, int]]:
        """Yield the last seconds that begin at `begin` or later, in whole seconds, with the growth in each of them."""
        for second, count in reversed(self._seconds):
            if second < begin:
                return
            yield second, count


SoundPart = Literal["transcription", "text", "clause", "sound"]
"""What takes the time to the first sound of a spoken answer, in order. docs/metrics.md explains each part."""


class ModelMetrics:
    """The counters of one model."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, ...]] = Counter()
        """By route and outcome: `ok`, or the kind of failure."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        """Prompt tokens that came from the cache."""
        self.prompts = 0
        self.cache_hits = 0
        """Prompts with at least one cached token."""
        self.completion_tokens = Rate()
        """One per batch while an answer streams; exact when it ends."""
        self.reasoning_tokens = 0
        self.units: defaultdict[tuple[str, ...], float] = defaultdict(float)
        """What finished requests made or read besides tokens, by the unit of their task."""
        self.first_token = Histogram(FIRST_TOKEN_BOUNDS)
        self.first_token_parts: defaultdict[Part, Histogram] = defaultdict(lambda: Histogram(FIRST_TOKEN_BOUNDS))
        """What the time to the first token consists of, in finished requests whose worker says so."""
        self.gap = Histogram(GAP_BOUNDS)
        self.load = Histogram(LOAD_BOUNDS)
        self.failed_loads = 0
        self.unloads: Counter[tuple[str, ...]] = Counter()
        """By reason."""
        self.crashes = 0
        self.restarts = 0
        """Crashes after which it was loaded again, at once or after a pause."""


class Recent:
    """What happened in the last seconds, in all models. Their generated tokens are in `ModelMetrics`."""

    def __init__(self) -> None:
        self.requests = Rate()
        """Requests that have ended."""
        self.prompt_tokens = Rate()
        self.cached_tokens = Rate()
        self.first_tokens: deque[tuple[float, float]] = deque(maxlen=_MOST_FIRST_TOKENS)
        """When requests had their first content, and after how many seconds."""


class Metrics:
    """All counters of one server. Models are counted by their ids, never by names that a client chose."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self._began = clock()
        self.models: defaultdict[str, ModelMetrics] = defaultdict(ModelMetrics)
        self.responses: Counter[tuple[str, int]] = Counter()
        """HTTP responses by route and status."""
        self.recent = Recent()
        self.first_sound = Histogram(FIRST_TOKEN_BOUNDS)
        """The time to the first sound of answers that are spoken while they are generated."""
        self.first_sound_parts: defaultdict[SoundPart, Histogram] = defaultdict(lambda: Histogram(FIRST_TOKEN_BOUNDS))

    def count_first_sound(self, seconds: Mapping[SoundPart, float]) -> None:
        """Count the parts of the time to the first sound of an answer, and log them."""
        whole = sum(seconds.values())
        self.first_sound.add(whole)
        for part, spent in seconds.items():
            self.first_sound_parts[part].add(spent)
        parts = ", ".join(f"{part} {spent * 1e3:.1f}" for part, spent in seconds.items())
        log.debug("first sound after %.1f ms: %s", whole * 1e3, parts)

    @property
    def uptime(self) -> float:
        """Seconds since the server began."""
        return self.clock() - self._began

    def meter(self, request: Request, model_id: str) -> "Meter":
        """Return the observer of a request to a model that belongs to the current HTTP request."""
        return Meter(self.models[model_id], self.recent, http_scope.get(), self.clock, request)


class Meter:
    """Observes the events of one request as they come in.

    All content that arrives at once is a batch. If the task samples tokens, a batch is that of one engine step: usually
    one token of each choice, and more if guesses were right or text was held back, as part of a character or a tag.
    """

    def __init__(
        self, model: ModelMetrics, recent: Recent, scope: Mapping[str, Any], clock: Clock, request: Request
    ) -> None:
        """`scope`: that of the request's HTTP request."""
        self._model = model
        self._recent = recent
        self._route = route_of(scope)
        self._clock = clock
        self._request_id = request.id
        self._started = not request.task.reads_prompt
        self._draws_tokens = request.task.draws_tokens
        self._unit = request.task.unit
        self._begin = self._submitted_at = clock()
        self._arrived_at: float = scope.get("state", {}).get("arrived_at", self._begin)
        self._first: float | None = None
        self._last: float | None = None
        self._counted = 0
        self._ended = False

    @property
    def route(self) -> str:
        """The path of the route of its HTTP request."""
        return self._route

    @property
    def batches(self) -> int:
        """How many batches of tokens have come."""
        return self._counted

    @property
    def decode_seconds(self) -> float:
        """The seconds between its first content and its last so far."""
        return 0.0 if self._first is None or self._last is None else self._last - self._first

    def note_submission(self) -> None:
        """Note that a worker gets the request now, for the first time or again."""
        self._submitted_at = self._clock()
        self._first = None

    def see(self, events: Sequence[Event]) -> None:
        """Observe the next events, at least one. Events of a restarted request may repeat."""
        if self._ended:
            return
        first = events[0]
        content = type(first)
        if isinstance(first, Started):
            if not self._started:
                self._started = True
                self._model.prompts += 1
                self._model.cache_hits += first.cached_tokens > 0
                self._model.prompt_tokens += first.prompt_tokens
                self._model.cached_tokens += first.cached_tokens
                self._recent.prompt_tokens.add(first.prompt_tokens, self._clock())
                self._recent.cached_tokens.add(first.cached_tokens, self._clock())
            content = type(events[1]) if len(events) > 1 else Failed
        if content is not Finished and content is not Failed:
            self._batch()
        last = events[-1]
        if type(last) is Finished:
            uncounted = max(0, last.usage.completion_tokens - self._counted)
            self._model.completion_tokens.add(uncounted, self._clock())
            self._model.reasoning_tokens += last.usage.reasoning_tokens
            if self._unit:
                self._model.units[(self._unit,)] += last.usage.units
            self._count_parts(last.first_token_seconds)
            self.end("ok")
        elif type(last) is Failed:
            self.end(last.kind)

    def end(self, outcome: str) -> None:
        """Count the request with its outcome, only once."""
        if not self._ended:
            self._ended = True
            self._model.requests[self._route, outcome] += 1
            self._recent.requests.add(1, self._clock())

    def _count_parts(self, worker_seconds: Mapping[Part, float]) -> None:
        """Count the parts of the time to the first token, and log them."""
        if self._first is None or not worker_seconds:
            return
        delivery = self._first - self._submitted_at - sum(worker_seconds.values())
        seconds: dict[Part, float] = {
            "body": self._begin - self._arrived_at,
            "model": self._submitted_at - self._begin,
            **worker_seconds,
            "delivery": max(delivery, 0.0),
        }
        for part, spent in seconds.items():
            self._model.first_token_parts[part].add(spent)
        parts = ", ".join(f"{part} {spent * 1e3:.1f}" for part, spent in seconds.items())
        log.debug("request %s: first token after %.1f ms: %s", self._request_id, sum(seconds.values()) * 1e3, parts)

    def _batch(self) -> None:
        now = self._clock()
        self._first = self._first or now
        if self._last is None:
            self._model.first_token.add(now - self._begin)
            self._recent.first_tokens.append((now, now - self._begin))
        elif self._draws_tokens:
            self._model.gap.add(now - self._last)
        self._last = now
        if self._draws_tokens:
            self._counted += 1
            self._model.completion_tokens.add(1, now)
