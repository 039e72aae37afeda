"""What the server counts, as JSON for people and scripts."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from orchard import __version__
from orchard.gateway.metrics.counters import RATE_SECONDS, Histogram, Metrics, ModelMetrics
from orchard.gateway.model_status import ModelStatus


def stats(metrics: Metrics, now: Mapping[str, ModelStatus], memory_limit: int | None) -> dict[str, Any]:
    """Return the body of /v1/stats. `now` is each model's status; `memory_limit` is that of all models together."""
    models = {name: _model(metrics, metrics.of(name), here) for name, here in now.items()}
    return {
        "object": "stats",
        "version": __version__,
        "uptime_seconds": round(metrics.uptime, 1),
        "running": sum(here.running for here in now.values()),
        "waiting": sum(here.waiting for here in now.values()),
        "tokens_per_second": round(sum(model["tokens_per_second"] for model in models.values()), 2),
        "memory": {"limit_bytes": memory_limit, **_memory(*now.values())},
        "models": models,
    }


def _model(metrics: Metrics, counted: ModelMetrics, now: ModelStatus) -> dict[str, Any]:
    outcomes: Counter[str] = Counter()
    for (_, outcome), count in counted.requests.items():
        outcomes[outcome] += count
    return {
        "state": now.state,
        "reason": now.reason,
        "note": now.note or None,
        "running": now.running,
        "waiting": now.waiting,
        "requests": dict(outcomes),
        "tokens": {
            "prompt": counted.prompt_tokens,
            "cached": counted.cached_tokens,
            "completion": counted.completion_tokens.total,
            "reasoning": counted.reasoning_tokens,
        },
        "tokens_per_second": round(_rate(metrics, counted), 2),
        "cached_share": round(counted.cached_tokens / counted.prompt_tokens, 4) if counted.prompt_tokens else None,
        "first_token_ms": _spread(counted.first_token),
        "between_tokens_ms": _spread(counted.gap),
        "memory": _memory(now),
        "loads": sum(counted.load.counts),
        "load_failures": counted.failed_loads,
        "load_seconds": _median(counted.load),
        "unloads": sum(counted.unloads.values()),
        "crashes": counted.crashes,
        "restarts": counted.restarts,
    }


def _rate(metrics: Metrics, counted: ModelMetrics) -> float:
    """Return the tokens per second over the last minute, or since the start if that is later."""
    seconds = min(RATE_SECONDS, max(1.0, metrics.uptime))
    return counted.completion_tokens.last_minute(metrics.clock()) / seconds


def _spread(seconds: Histogram) -> dict[str, float | None]:
    median, p95 = seconds.quantiles(0.5, 0.95)
    return {"median": _milliseconds(median), "p95": _milliseconds(p95)}


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 2)


def _median(seconds: Histogram) -> float | None:
    (median,) = seconds.quantiles(0.5)
    return None if median is None else round(median, 3)


def _memory(*models: ModelStatus) -> dict[str, int | None]:
    """Return the memory of all these models; None if none of them has reported it."""
    mlx = [now.mlx_bytes for now in models if now.mlx_bytes is not None]
    rss = [now.rss_bytes for now in models if now.rss_bytes is not None]
    return {"mlx_bytes": sum(mlx) if mlx else None, "rss_bytes": sum(rss) if rss else None}
