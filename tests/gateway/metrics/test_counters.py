"""What is counted, and how it is told."""

import logging
import math
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from orchard.core.events import Event, Failed, Finished, Reasoning, Started, Text, ToolArgs, ToolStart, Usage
from orchard.core.request import Request
from orchard.core.speculation_report import SourceTotals
from orchard.core.tasks.generate import Count, Generate
from orchard.gateway.memory_status import MemoryStatus
from orchard.gateway.metrics.counters import GAP_BOUNDS, Histogram, Meter, Metrics, Rate, http_scope
from orchard.gateway.metrics.exposition import render_metrics
from orchard.gateway.metrics.stats import server_stats
from orchard.gateway.model_status import ModelStatus

MEMORY = MemoryStatus(
    total_bytes=9000, available_bytes=2000, others_bytes=6000, limit_bytes=4096, budget_bytes=3000, reason="others"
)
NOW = {"apple": ModelStatus(state="ready", running=2, waiting=1, mlx_bytes=1000, rss_bytes=2000)}


class Clock:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Route:
    path = "/v1/chat/completions"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    return Metrics(clock)


def begin(metrics: Metrics, *, count: bool = False) -> Meter:
    task = Count(Generate()) if count else Generate()
    return metrics.meter(Request("req_1", "a name of the client's", task), "apple")


def play(metrics: Metrics, clock: Clock, *batches: Sequence[Event], seconds: float = 1.0) -> Meter:
    """Let batches come, each a second after the one before, the first a second after the request."""
    meter = begin(metrics)
    for events in batches:
        clock.now += seconds
        meter.see(events)
    return meter


def samples(metrics: Metrics, accept: str = "") -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Parse a scrape: values by name and labels."""
    body, _ = render_metrics(metrics, NOW, MEMORY, accept)
    families = list(text_string_to_metric_families(body.decode()))
    assert len({family.name for family in families}) == len(families)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[name, frozenset(labels.items())]


def test_tokens_times_and_outcome_of_a_request(metrics: Metrics, clock: Clock) -> None:
    token = http_scope.set({"route": Route()})
    play(
        metrics,
        clock,
        [Started(10, 4)],
        [Reasoning("hm")],
        [Text("a"), Text("b", 1)],
        [Text("c")],
        [Finished(("stop",), Usage(10, 9, 2, 4))],
        seconds=0.25,
    )
    http_scope.reset(token)
    route = {"model": "apple", "route": "/v1/chat/completions", "outcome": "ok"}
    assert value(metrics, "orchard_requests_total", **route) == 1
    expected = {
        "orchard_prompts_total": 1,
        "orchard_prompt_cache_hits_total": 1,
        "orchard_prompt_tokens_total": 10,
        "orchard_prompt_cached_tokens_total": 4,
        "orchard_completion_tokens_total": 9,
        "orchard_reasoning_tokens_total": 2,
        "orchard_time_to_first_token_seconds_count": 1,
        "orchard_time_to_first_token_seconds_sum": 0.5,
        "orchard_inter_token_seconds_count": 2,
        "orchard_inter_token_seconds_sum": 0.5,
        "orchard_requests_running": 2,
        "orchard_requests_waiting": 1,
    }
    assert {name: value(metrics, name, model="apple") for name in expected} == expected
    assert value(metrics, "orchard_inter_token_seconds_bucket", model="apple", le="0.2") == 0
    assert value(metrics, "orchard_inter_token_seconds_bucket", model="apple", le="0.5") == 2
    assert value(metrics, "orchard_inter_token_seconds_bucket", model="apple", le="+Inf") == 2


def test_tokens_are_counted_while_they_come_and_are_exact_in_the_end(metrics: Metrics, clock: Clock) -> None:
    meter = play(metrics, clock, [Started(3)], [Text("a")], [ToolStart(0, "id", "f"), ToolArgs(0, "{")])
    assert metrics.models["apple"].completion_tokens.total == 2
    meter.see([ToolArgs(0, "}"), Finished(("tool_calls",), Usage(3, 17))])
    assert metrics.models["apple"].completion_tokens.total == 17


@pytest.mark.parametrize(
    "last", [Failed("worker_crashed", "it died"), Finished(("stop",), Usage(3, 1))], ids=["failed", "finished"]
)
def test_the_end_of_a_stream_is_no_token(metrics: Metrics, clock: Clock, last: Event) -> None:
    play(metrics, clock, [Started(3)], [Text("a")], [last])
    counted = metrics.models["apple"]
    assert (sum(counted.first_token.counts), sum(counted.gap.counts)) == (1, 0)
    assert counted.requests == {("", "ok" if isinstance(last, Finished) else "worker_crashed"): 1}


def test_a_request_that_is_begun_anew_has_one_prompt_and_one_end(metrics: Metrics, clock: Clock) -> None:
    meter = play(metrics, clock, [Started(3, 1)], [Started(3, 2), Text("a")], [Failed("internal", "a bug")])
    meter.see([Text("late")])
    meter.end("cancelled")
    counted = metrics.models["apple"]
    assert (counted.prompts, counted.prompt_tokens, counted.cached_tokens) == (1, 3, 1)
    assert counted.requests == {("", "internal"): 1}
    assert counted.completion_tokens.total == 1


def test_a_count_of_tokens_reads_no_prompt(metrics: Metrics) -> None:
    begin(metrics, count=True).see([Started(500), Finished((), Usage(500, 0))])
    counted = metrics.models["apple"]
    assert (counted.prompts, counted.prompt_tokens, sum(counted.first_token.counts)) == (0, 0, 0)
    assert counted.requests == {("", "ok"): 1}


def test_what_the_pool_says_of_loads_and_crashes(metrics: Metrics) -> None:
    counted = metrics.models["apple"]
    counted.load.add(2.0625)
    counted.failed_loads += 1
    counted.unloads["idle",] += 3
    counted.crashes += 2
    counted.restarts += 1
    assert value(metrics, "orchard_model_load_seconds_sum", model="apple") == 2.0625
    assert value(metrics, "orchard_model_load_failures_total", model="apple") == 1
    assert value(metrics, "orchard_model_unloads_total", model="apple", reason="idle") == 3
    assert value(metrics, "orchard_worker_crashes_total", model="apple") == 2
    assert value(metrics, "orchard_worker_restarts_total", model="apple") == 1
    model = server_stats(metrics, NOW, MEMORY)["models"]["apple"]
    fields = ("loads", "load_seconds", "load_failures", "unloads", "crashes", "restarts")
    assert [model[name] for name in fields] == [1, 2.062, 1, 3, 2, 1]


def test_state_and_memory(metrics: Metrics) -> None:
    assert value(metrics, "orchard_model_state", model="apple", state="ready") == 1
    assert value(metrics, "orchard_model_state", model="apple", state="failed") == 0
    assert value(metrics, "orchard_worker_memory_bytes", model="apple", kind="mlx") == 1000
    assert value(metrics, "orchard_worker_memory_bytes", model="apple", kind="rss") == 2000
    sizes = {"limit": 4096, "budget": 3000, "total": 9000, "available": 2000, "others": 6000}
    assert {kind: value(metrics, f"orchard_memory_{kind}_bytes") for kind in sizes} == sizes
    now = {**NOW, "pear": ModelStatus(state="unloaded"), "fig": ModelStatus(state="ready", rss_bytes=5, rows_bytes=7)}
    told = server_stats(metrics, now, MEMORY)
    unknown = {f"{kind}_bytes": None for kind in ("weights", "prompts", "cache", "peak")}
    every = {f"{kind}_bytes": size for kind, size in sizes.items()} | {"reason": "others"}
    assert told["memory"] == {**every, **unknown, "mlx_bytes": 1000, "rss_bytes": 2005, "rows_bytes": 7}
    assert set(told["models"]["pear"]["memory"].values()) == {None}
    assert told["models"]["fig"]["memory"]["rows_bytes"] == 7


def test_a_limit_that_is_not_known_yet(metrics: Metrics) -> None:
    memory = MemoryStatus(total_bytes=9, available_bytes=8, others_bytes=1)
    body, _ = render_metrics(metrics, NOW, memory, "")
    assert b"orchard_memory_others_bytes 1.0" in body
    assert b"orchard_memory_limit_bytes" not in body
    assert server_stats(metrics, NOW, memory)["memory"]["limit_bytes"] is None


def test_what_guesses_have_brought(metrics: Metrics) -> None:
    brought = {"ngram": SourceTotals(200, 150, 1.25), "prediction": SourceTotals(8, 0, -0.5)}
    now = {"apple": ModelStatus(state="ready", speculation=brought)}

    def shown(name: str, source: str) -> float | None:
        registry = text_string_to_metric_families(render_metrics(metrics, now, MEMORY, "")[0].decode())
        labels = {"model": "apple", "source": source}
        samples = [one for family in registry for one in family.samples]
        return next((one.value for one in samples if (one.name, one.labels) == (name, labels)), None)

    assert shown("orchard_speculation_proposed_tokens_total", "ngram") == 200
    assert shown("orchard_speculation_accepted_tokens_total", "ngram") == 150
    assert shown("orchard_speculation_saved_seconds", "prediction") == -0.5
    assert shown("orchard_speculation_saved_seconds", "grammar") is None
    model = server_stats(metrics, now, MEMORY)["models"]["apple"]["speculation"]
    assert model["ngram"] == {"proposed": 200, "accepted": 150, "acceptance": 0.75, "saved_seconds": 1.25}
    assert model["prediction"]["acceptance"] == 0
    assert server_stats(metrics, NOW, MEMORY)["models"]["apple"]["speculation"] == {}


def test_the_parts_of_the_time_to_the_first_sound(metrics: Metrics, caplog: pytest.LogCaptureFixture) -> None:
    assert server_stats(metrics, NOW, MEMORY)["first_sound_ms"] == {"median": None, "p95": None}
    with caplog.at_level(logging.DEBUG):
        metrics.count_first_sound({"transcription": 0.25, "sound": 0.5})
    told = server_stats(metrics, NOW, MEMORY)
    assert told["first_sound_ms"]["median"] == 750
    assert {part: spent["median"] for part, spent in told["first_sound_parts_ms"].items()} == {
        "transcription": 250,
        "sound": 500,
    }
    assert "first sound after 750.0 ms: transcription 250.0, sound 500.0" in caplog.text


def test_stats_tell_of_the_last_minute(metrics: Metrics, clock: Clock) -> None:
    clock.now += 1000
    play(metrics, clock, [Started(8, 6)], *[[Text("a")]] * 29, [Finished(("stop",), Usage(8, 120))])
    told = server_stats(metrics, NOW, MEMORY)
    model = told["models"]["apple"]
    assert (told["tokens_per_second"], model["tokens_per_second"]) == (2, 2)
    assert model["cached_share"] == 0.75
    assert model["first_token_ms"] == {"median": 2000, "p95": 2000}
    assert model["between_tokens_ms"] == {"median": 1000, "p95": 1000}
    assert model["requests"] == {"ok": 1}
    clock.now += 60
    assert server_stats(metrics, NOW, MEMORY)["tokens_per_second"] == 0


def test_the_time_to_the_first_token_is_divided_into_parts(
    metrics: Metrics, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    clock.now = 1000
    token = http_scope.set({"state": {"arrived_at": 999.5}})
    try:
        meter = begin(metrics)
    finally:
        http_scope.reset(token)
    clock.now += 2
    meter.note_submission()
    clock.now += 1
    meter.see([Started(8)])
    clock.now += 3
    meter.see([Text("a")])
    clock.now += 10
    meter.see([Finished(("stop",), Usage(8, 8), (), {"queue": 1.0, "prefill": 2.5})])
    model = server_stats(metrics, NOW, MEMORY)["models"]["apple"]
    assert {part: spent["median"] for part, spent in model["first_token_parts_ms"].items()} == {
        "body": 500,
        "model": 2000,
        "queue": 1000,
        "prefill": 2500,
        "delivery": 500,
    }
    (line,) = caplog.messages
    assert line.startswith("request req_1: first token after 6500.0 ms: body 500.0, model 2000.0, queue 1000.0")
    assert model["first_token_ms"]["median"] == 6000


def test_the_parts_of_a_request_that_is_submitted_again_are_those_of_the_second_time(
    metrics: Metrics, clock: Clock
) -> None:
    meter = begin(metrics)
    meter.note_submission()
    clock.now += 1
    meter.see([Started(8), Text("a")])
    clock.now += 29
    meter.note_submission()
    clock.now += 2
    meter.see([Started(8), Text("a")])
    meter.see([Finished(("stop",), Usage(8, 8), (), {"prefill": 1.5})])
    parts = server_stats(metrics, NOW, MEMORY)["models"]["apple"]["first_token_parts_ms"]
    assert {part: spent["median"] for part, spent in parts.items()} == {
        "body": 0,
        "model": 30000,
        "prefill": 1500,
        "delivery": 500,
    }


def test_an_answer_without_a_token_has_no_parts(metrics: Metrics, clock: Clock) -> None:
    play(metrics, clock, [Started(8), Finished((), Usage(8, 0), (), {"queue": 1.0})])
    assert server_stats(metrics, NOW, MEMORY)["models"]["apple"]["first_token_parts_ms"] == {}


@pytest.mark.parametrize(("uptime", "expected"), [(0.5, 8), (4, 2), (59, 0.14)])
def test_stats_of_a_young_server_cover_the_time_since_its_start(
    metrics: Metrics, clock: Clock, uptime: float, expected: float
) -> None:
    play(metrics, clock, [Started(8), Text("a"), Finished(("stop",), Usage(8, 8))], seconds=uptime)
    assert server_stats(metrics, NOW, MEMORY)["tokens_per_second"] == expected


def test_stats_of_a_model_that_has_done_nothing(metrics: Metrics) -> None:
    model = server_stats(metrics, NOW, MEMORY)["models"]["apple"]
    assert (model["cached_share"], model["load_seconds"]) == (None, None)
    assert model["first_token_ms"] == {"median": None, "p95": None}


@pytest.mark.parametrize(
    ("accept", "expected"),
    [("", "text/plain"), ("application/openmetrics-text; version=1.0.0,text/plain;q=0.5", "application/openmetrics")],
)
def test_the_format_is_the_one_that_is_asked_for(metrics: Metrics, accept: str, expected: str) -> None:
    body, content_type = render_metrics(metrics, NOW, MEMORY, accept)
    assert content_type.startswith(expected)
    assert body.endswith(b"# EOF\n") == ("openmetrics" in content_type)


def test_names_from_outside_stay_labels(metrics: Metrics) -> None:
    name = 'a "quoted"\\ model\nof two lines'
    metrics.models[name].prompt_tokens += 5
    assert value(metrics, "orchard_prompt_tokens_total", model=name) == 5


@given(st.lists(st.floats(0, 100), max_size=1000))
def test_every_value_is_in_the_bucket_that_ends_above_it(values: list[float]) -> None:
    histogram = Histogram(GAP_BOUNDS)
    for one in values:
        histogram.add(one)
    assert histogram.sum == pytest.approx(math.fsum(values))
    ends = [*GAP_BOUNDS, math.inf]
    for place, end in enumerate(ends):
        assert sum(histogram.counts[: place + 1]) == sum(one <= end for one in values)
    median, most = histogram.quantiles(0.5, 1.0)
    assert most == max(values, default=None)
    assert median == (statistics.median_low(values) if values else None)


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(0, 9)), max_size=200))
def test_a_rate_forgets_nothing_of_the_last_minute(steps: list[tuple[float, int]]) -> None:
    rate, now = Rate(), 0.0
    added: list[tuple[float, int]] = []
    for seconds, count in steps:
        now += seconds
        rate.add(count, now)
        added.append((now, count))
    assert rate.total == sum(count for _, count in added)
    assert rate.last_minute(now) == sum(count for time, count in added if int(time) > now - 60)


def test_a_window_says_what_happened_when(metrics: Metrics, clock: Clock) -> None:
    clock.now = 1000.0
    play(metrics, clock, [Started(10, 4), Text("a")], [Text("b")], [Finished(("stop",), Usage(10, 2))])
    play(metrics, clock, [Started(20), Text("a")], [Failed("internal", "x")], seconds=2.0)
    clock.now = 1010.5
    window = server_stats(metrics, {}, MEMORY, 10)["window"]
    assert (window["seconds"], window["step_seconds"], len(window["points"])) == (10, 1, 10)

    def column(name: str) -> list[float]:
        return [point[name] for point in window["points"]]

    assert column("tokens_per_second") == [0, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert column("prompt_tokens") == [0, 10, 0, 0, 0, 20, 0, 0, 0, 0]
    assert column("cached_tokens") == [0, 4, 0, 0, 0, 0, 0, 0, 0, 0]
    assert column("requests") == [0, 0, 0, 1, 0, 0, 0, 1, 0, 0]
    assert column("first_token_ms_p50") == [None, 1000, None, None, None, 2000, None, None, None, None]
    times = column("time")
    assert [round(later - earlier, 2) for earlier, later in pairwise(times)] == [1] * 9
    assert abs(times[-1] - (time.time() - 1.5)) < 1
    assert "window" not in server_stats(metrics, {}, MEMORY)


@example(896, 1053.0)  # the oldest step begins in the oldest second that is needed
@given(st.integers(1, 900), st.floats(1000, 2000))
def test_a_window_has_few_steps_and_whole_ones(window: int, now: float) -> None:
    clock = Clock()
    metrics = Metrics(clock)
    for second in range(int(now) - 910, int(now) + 1):
        metrics.recent.prompt_tokens.add(2, second)
    clock.now = now
    found = server_stats(metrics, {}, MEMORY, window)["window"]
    step = found["step_seconds"]
    assert len(found["points"]) == window // step <= 120
    assert all(point["prompt_tokens"] == 2 * step for point in found["points"])


def test_what_is_known_of_seconds_is_bounded(metrics: Metrics, clock: Clock) -> None:
    for _ in range(5000):
        clock.now += 1
        play(metrics, clock, [Started(1), Text("a")], [Finished(("stop",), Usage(1, 1))])
    assert len(metrics.recent.first_tokens) == 4096
    assert len(list(metrics.recent.requests.recent_counts(0))) == 908
