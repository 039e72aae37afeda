"""The server's counters in the text formats of Prometheus and OpenMetrics.

Import it at the first scrape, because importing prometheus_client would delay the start of every server.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TypeVar, get_args

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from orchard import __version__
from orchard.gateway.memory_status import MemoryStatus
from orchard.gateway.metrics.counters import Histogram, Metrics, ModelMetrics
from orchard.gateway.model_status import ModelStatus, ShownState

F = TypeVar("F", CounterMetricFamily, GaugeMetricFamily)

_COUNTERS: tuple[tuple[str, str, Callable[[ModelMetrics], int]], ...] = (
    ("orchard_prompts", "Prompts that were processed.", lambda model: model.prompts),
    (
        "orchard_prompt_cache_hits",
        "Prompts with at least one cached token.",
        lambda model: model.cache_hits,
    ),
    ("orchard_prompt_tokens", "Prompt tokens, including cached ones.", lambda model: model.prompt_tokens),
    ("orchard_prompt_cached_tokens", "Prompt tokens that came from the cache.", lambda model: model.cached_tokens),
    (
        "orchard_completion_tokens",
        "Generated tokens, including reasoning; one per batch while an answer streams, exact when it ends.",
        lambda model: model.completion_tokens.total,
    ),
    ("orchard_reasoning_tokens", "Reasoning tokens of finished answers.", lambda model: model.reasoning_tokens),
    ("orchard_model_load_failures", "Failed loads.", lambda model: model.failed_loads),
    (
        "orchard_worker_crashes",
        "Workers that died, or were killed because they were silent for too long.",
        lambda model: model.crashes,
    ),
    ("orchard_worker_restarts", "Automatic reloads after a crash.", lambda model: model.restarts),
)

_LABELLED: tuple[tuple[str, str, tuple[str, ...], Callable[[ModelMetrics], Mapping[tuple[str, ...], float]]], ...] = (
    (
        "orchard_requests",
        "Finished requests to a model, by HTTP route and outcome: ok, or the kind of failure.",
        ("route", "outcome"),
        lambda model: model.requests,
    ),
    (
        "orchard_units",
        "What finished requests had made or read besides tokens, by its unit, such as texts.",
        ("unit",),
        lambda model: model.units,
    ),
    ("orchard_model_unloads", "Unloads of a model, by reason.", ("reason",), lambda model: model.unloads),
)

_HISTOGRAMS: tuple[tuple[str, str, Callable[[ModelMetrics], Histogram]], ...] = (
    (
        "orchard_time_to_first_token_seconds",
        "Time from a request's arrival to its first content, including waiting, model loading and prefill.",
        lambda model: model.first_token,
    ),
    ("orchard_inter_token_seconds", "Time between two consecutive batches of a request.", lambda model: model.gap),
    ("orchard_model_load_seconds", "Time from the start of a load until the model is ready.", lambda model: model.load),
)


# Fields of MemoryStatus without `_bytes`.
_MEMORY = {
    "limit": "The most memory that all models together may ever take.",
    "budget": "The most memory that all models together may take now.",
    "total": "Memory of the device that models run on.",
    "available": "Memory of the device that is free.",
    "others": "Memory of the device that other programs use.",
}


def render_metrics(
    metrics: Metrics, now: Mapping[str, ModelStatus], memory: MemoryStatus, accept: str
) -> tuple[bytes, str]:
    """Return the text in the best format that an Accept header allows, and its content type.

    `now` has each model's status; `memory` is for all models together.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(metrics, now, memory))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Scrape:
    """The metrics of one scrape, as a collector of prometheus_client."""

    def __init__(self, metrics: Metrics, now: Mapping[str, ModelStatus], memory: MemoryStatus) -> None:
        self._metrics = metrics
        self._now = now
        self._memory = memory

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with all its samples."""
        yield _family(GaugeMetricFamily, "orchard_info", "The running version.", ["version"], [([__version__], 1)])
        yield GaugeMetricFamily("orchard_uptime_seconds", "Seconds since the start.", self._metrics.uptime)
        for name, text in _MEMORY.items():
            if (size := getattr(self._memory, f"{name}_bytes")) is not None:
                yield GaugeMetricFamily(f"orchard_memory_{name}_bytes", text, size)
        text = "HTTP responses, by route (empty: no such route) and status."
        responses = [([route, str(status)], count) for (route, status), count in self._metrics.responses.items()]
        yield _family(CounterMetricFamily, "orchard_http_responses", text, ["route", "status"], responses)
        yield from self._counters()
        yield from self._gauges()

    def _counters(self) -> Iterator[Metric]:
        models = self._metrics.models.items()
        for name, text, number in _COUNTERS:
            totals = [([model], number(counted)) for model, counted in models]
            yield _family(CounterMetricFamily, name, text, ["model"], totals)
        for name, text, labels, numbers in _LABELLED:
            parts = [([model, *values], count) for model, own in models for values, count in numbers(own).items()]
            yield _family(CounterMetricFamily, name, text, ["model", *labels], parts)
        for name, text, histogram in _HISTOGRAMS:
            family = HistogramMetricFamily(name, text, labels=["model"])
            for model, counted in models:
                found = histogram(counted)
                # The upper bound of each bucket, and the number of values up to it.
                buckets = list(zip([*map(str, found.bounds), "+Inf"], accumulate(found.counts), strict=True))
                family.add_metric([model], buckets, found.sum)
            yield family

    def _gauges(self) -> Iterator[Metric]:
        models = self._now.items()
        text = "1 for the current state, 0 for the others."
        states = [([model, state], state == now.state) for model, now in models for state in get_args(ShownState)]
        yield _family(GaugeMetricFamily, "orchard_model_state", text, ["model", "state"], states)
        text = "Requests that a model is working on."
        running = [([model], now.running) for model, now in models]
        yield _family(GaugeMetricFamily, "orchard_requests_running", text, ["model"], running)
        text = "Requests that wait for a model."
        waiting = [([model], now.waiting) for model, now in models]
        yield _family(GaugeMetricFamily, "orchard_requests_waiting", text, ["model"], waiting)
        text = "Memory of a worker, by what it is for: see docs/metrics.md."
        memory = GaugeMetricFamily("orchard_worker_memory_bytes", text, labels=["model", "kind"])
        for model, now in models:
            for kind, size in now.memory_sizes().items():
                memory.add_metric([model, kind], size)
        yield memory
        yield from self._speculation()

    def _speculation(self) -> Iterator[Metric]:
        told = [
            ([model, source], totals) for model, now in self._now.items() for source, totals in now.speculation.items()
        ]
        text = "Guessed tokens that were checked since the model was loaded, by where the guess came from."
        proposed = [(labels, totals.proposed) for labels, totals in told]
        yield _family(CounterMetricFamily, "orchard_speculation_proposed_tokens", text, ["model", "source"], proposed)
        text = "Guessed tokens that were right since the model was loaded."
        accepted = [(labels, totals.accepted) for labels, totals in told]
        yield _family(CounterMetricFamily, "orchard_speculation_accepted_tokens", text, ["model", "source"], accepted)
        text = "Seconds that steps would have taken longer without guesses since the model was loaded."
        saved = [(labels, totals.saved_seconds) for labels, totals in told]
        yield _family(GaugeMetricFamily, "orchard_speculation_saved_seconds", text, ["model", "source"], saved)


def _family(
    kind: type[F], name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> F:
    family = kind(name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family
