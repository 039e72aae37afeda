"""The server's counters as JSON, for people and scripts."""

import math
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from orchard import __version__
from orchard.core.speculation_report import SourceTotals
from orchard.gateway.memory_status import MemoryStatus
from orchard.gateway.metrics.counters import RATE_SECONDS, WINDOW_POINTS, Histogram, Metrics, ModelMetrics, Rate
from orchard.gateway.model_status import MEMORY_KINDS, ModelStatus


def server_stats(
    metrics: Metrics, now: Mapping[str, ModelStatus], memory: MemoryStatus, window: int | None = None
) -> dict[str, Any]:
    """Return the body of /v1/stats. `now` has each model's status; `memory` is for all.

    `window`: for how many of the last seconds to say what happened when, at most WINDOW_SECONDS; None: don't.
    """
    models = {name: _model_stats(metrics, metrics.models[name], here) for name, here in now.items()}
    return {
        "object": "stats",
        "version": __version__,
        "uptime_seconds": round(metrics.uptime, 1),
        "running": sum(here.running for here in now.values()),
        "waiting": sum(here.waiting for here in now.values()),
        "tokens_per_second": round(sum(model["tokens_per_second"] for model in models.values()), 2),
        "first_sound_ms": _quantiles_ms(metrics.first_sound),
        "first_sound_parts_ms": {part: _quantiles_ms(spent) for part, spent in metrics.first_sound_parts.items()},
        "memory": {**memory.as_json(), **_memory_sums(*now.values())},
        "models": models,
        **({"window": _window_stats(metrics, window)} if window else {}),
    }


def _window_stats(metrics: Metrics, window: int) -> dict[str, Any]:
    """Return what happened in the last seconds, at most `WINDOW_POINTS` steps of equal length, the oldest first.

    Steps begin at whole multiples of their length, so that a step is the same in later answers.
    """
    recent, step = metrics.recent, math.ceil(window / WINDOW_POINTS)
    end = int(metrics.clock() // step) * step
    begins = range(end - window // step * step, end, step)

    def sums(*rates: Rate) -> list[int]:
        counts = Counter[int]()
        for rate in rates:
            for second, count in rate.recent_counts(begins.start):
                counts[second // step] += count
        return [counts[begin // step] for begin in begins]

    first_tokens: defaultdict[int, list[float]] = defaultdict(list)
    for at, seconds in recent.first_tokens:
        first_tokens[int(at // step)].append(seconds)
    epoch = time.time() - metrics.clock()
    medians = [statistics.median_low(first_tokens[begin // step] or [math.nan]) for begin in begins]
    columns: dict[str, list[Any]] = {
        "time": [round(epoch + begin, 3) for begin in begins],
        "tokens_per_second": [
            round(count / step, 2) for count in sums(*(model.completion_tokens for model in metrics.models.values()))
        ],
        "first_token_ms_p50": [None if math.isnan(median) else _round(median, 1e3) for median in medians],
        "requests": sums(recent.requests),
        "prompt_tokens": sums(recent.prompt_tokens),
        "cached_tokens": sums(recent.cached_tokens),
    }
    points = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return {"seconds": window, "step_seconds": step, "points": points}


def _model_stats(metrics: Metrics, counted: ModelMetrics, now: ModelStatus) -> dict[str, Any]:
    # The last minute, or the time since the start if it is shorter.
    seconds = min(RATE_SECONDS, max(1.0, metrics.uptime))
    outcomes: Counter[str] = Counter()
    for (_, outcome), count in counted.requests.items():
        outcomes[outcome] += count
    return {
        "state": now.state,
        "reason": now.reason,
        "note": now.note or None,
        "processor": now.processor,
        "pinned": now.pinned,
        "unload_at": now.unload_at,
        "context_window": now.context_window,
        "running": now.running,
        "waiting": now.waiting,
        "requests": dict(outcomes),
        "tokens": {
            "prompt": counted.prompt_tokens,
            "cached": counted.cached_tokens,
            "completion": counted.completion_tokens.total,
            "reasoning": counted.reasoning_tokens,
        },
        "units": {unit: round(count, 3) for (unit,), count in counted.units.items()},
        "tokens_per_second": round(counted.completion_tokens.last_minute(metrics.clock()) / seconds, 2),
        "cached_share": round(counted.cached_tokens / counted.prompt_tokens, 4) if counted.prompt_tokens else None,
        "speculation": {source: _speculation_stats(totals) for source, totals in now.speculation.items()},
        "first_token_ms": _quantiles_ms(counted.first_token),
        "first_token_parts_ms": {part: _quantiles_ms(spent) for part, spent in counted.first_token_parts.items()},
        "between_tokens_ms": _quantiles_ms(counted.gap),
        "memory": _memory_sums(now),
        "ranks": now.rank_rows(),
        "loads": sum(counted.load.counts),
        "load_failures": counted.failed_loads,
        "load_seconds": _round(counted.load.quantiles(0.5)[0], digits=3),
        "unloads": sum(counted.unloads.values()),
        "crashes": counted.crashes,
        "restarts": counted.restarts,
    }


def _speculation_stats(totals: SourceTotals) -> dict[str, float | int | None]:
    return {
        "proposed": totals.proposed,
        "accepted": totals.accepted,
        "acceptance": round(totals.accepted / totals.proposed, 4) if totals.proposed else None,
        "saved_seconds": round(totals.saved_seconds, 3),
    }


def _quantiles_ms(seconds: Histogram) -> dict[str, float | None]:
    """Return the median and the 95th percentile in milliseconds."""
    median, p95 = seconds.quantiles(0.5, 0.95)
    return {"median": _round(median, 1e3), "p95": _round(p95, 1e3)}


def _round(number: float | None, factor: float = 1, digits: int = 2) -> float | None:
    return None if number is None else round(number * factor, digits)


def _memory_sums(*models: ModelStatus) -> dict[str, int | None]:
    """Return the memory of these models together in bytes; None if none of them has reported it."""
    known = Counter[str]()
    for model in models:
        known.update(model.memory_sizes())
    return {f"{kind}_bytes": known.get(kind) for kind in MEMORY_KINDS}
