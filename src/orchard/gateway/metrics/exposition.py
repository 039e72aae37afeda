"""What the server counts, in the text formats of Prometheus and OpenMetrics.

prometheus_client is imported with the first scrape: it would make the start of every server longer.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, get_args

from orchard import __version__
from orchard.gateway.metrics.counters import Histogram, Metrics, ModelMetrics
from orchard.gateway.model_status import ModelStatus, ShownState

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_COUNTERS: tuple[tuple[str, str, Callable[[ModelMetrics], int]], ...] = (
    ("orchard_prompts", "Prompts that were read.", lambda model: model.prompts),
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

_LABELLED: tuple[tuple[str, str, tuple[str, ...], Callable[[ModelMetrics], Mapping[tuple[str, ...], int]]], ...] = (
    (
        "orchard_requests",
        "Finished requests to a model, by HTTP route and outcome: ok, or the kind of failure.",
        ("route", "outcome"),
        lambda model: model.requests,
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


def render(
    metrics: Metrics, now: Mapping[str, ModelStatus], memory_limit: int | None, accept: str
) -> tuple[bytes, str]:
    """Return the text in the best format that an Accept header takes, and its content type.

    `now` is each model's status; `memory_limit`, in bytes, is that of all models together.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics, now, memory_limit))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Collector:
    """The metrics of one scrape, as prometheus_client asks for them."""

    def __init__(self, metrics: Metrics, now: Mapping[str, ModelStatus], memory_limit: int | None) -> None:
        self._metrics = metrics
        self._now = now
        self._memory_limit = memory_limit

    def collect(self) -> Iterator["Metric"]:
        """Return each metric with all its samples."""
        yield from self._server()
        yield from self._counters()
        yield from self._histograms()
        yield from self._gauges()

    def _server(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        info = GaugeMetricFamily("orchard_info", "The running version.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        yield GaugeMetricFamily("orchard_uptime_seconds", "Seconds since the start.", self._metrics.uptime)
        if self._memory_limit is not None:
            yield GaugeMetricFamily(
                "orchard_memory_limit_bytes", "Memory limit for all models together.", self._memory_limit
            )
        text = "HTTP responses, by route (empty: no such route) and status."
        responses = CounterMetricFamily("orchard_http_responses", text, labels=["route", "status"])
        for (route, status), count in self._metrics.responses.items():
            responses.add_metric([route, str(status)], count)
        yield responses

    def _counters(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily

        for name, text, number in _COUNTERS:
            counter = CounterMetricFamily(name, text, labels=["model"])
            for model, counted in self._metrics.models.items():
                counter.add_metric([model], number(counted))
            yield counter
        for name, text, labels, numbers in _LABELLED:
            counter = CounterMetricFamily(name, text, labels=["model", *labels])
            for model, counted in self._metrics.models.items():
                for values, count in numbers(counted).items():
                    counter.add_metric([model, *values], count)
            yield counter

    def _histograms(self) -> Iterator["Metric"]:
        from prometheus_client.core import HistogramMetricFamily

        for name, text, histogram in _HISTOGRAMS:
            family = HistogramMetricFamily(name, text, labels=["model"])
            for model, counted in self._metrics.models.items():
                family.add_metric([model], _buckets(histogram(counted)), histogram(counted).sum)
            yield family

    def _gauges(self) -> Iterator["Metric"]:
        from prometheus_client.core import GaugeMetricFamily

        text = "1 for the current state, 0 for the others."
        states = GaugeMetricFamily("orchard_model_state", text, labels=["model", "state"])
        running = GaugeMetricFamily(
            "orchard_requests_running", "Requests that a model is working on.", labels=["model"]
        )
        waiting = GaugeMetricFamily("orchard_requests_waiting", "Requests that wait for a model.", labels=["model"])
        text = "Memory that MLX holds in a worker (mlx), and resident memory of its process (rss)."
        memory = GaugeMetricFamily("orchard_worker_memory_bytes", text, labels=["model", "kind"])
        for model, now in self._now.items():
            for state in get_args(ShownState):
                states.add_metric([model, state], state == now.state)
            running.add_metric([model], now.running)
            waiting.add_metric([model], now.waiting)
            for kind, size in (("mlx", now.mlx_bytes), ("rss", now.rss_bytes)):
                if size is not None:
                    memory.add_metric([model, kind], size)
        yield from (states, running, waiting, memory)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return the upper end of each bucket, and how many values are not above it."""
    return list(zip([*map(str, histogram.bounds), "+Inf"], accumulate(histogram.counts), strict=True))
