"""The table that benchmarks.serving prints: medians over the rounds, and Orchard's ratio to the best of the others."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from orchard.cli.bench_client import Figures

OURS = "orchard"


class Row(NamedTuple):
    """One server's figures in one round."""

    server: str
    round: int
    figures: Figures


class _Line(NamedTuple):
    """A figure worth a line: what it is called, its field, and whether more of it is better (None: neither)."""

    title: str
    field: str
    more_is_better: bool | None


_TTFT = _Line("first token, median ms", "ttft_p50_ms", False)
_CACHED = _Line("cached tokens, as reported", "cached_tokens", None)
_STREAMS = (
    _Line("tokens/s, all streams", "tokens_s", True),
    _Line("tokens/s of one stream", "stream_tokens_s", True),
    _TTFT,
    _Line("first token, p99 ms", "ttft_p99_ms", False),
    _Line("between tokens, median ms", "gap_p50_ms", False),
    _Line("between tokens, p99 ms", "gap_p99_ms", False),
    _Line("tokens generated", "tokens", None),
)
_LINES = {
    "shared": (_TTFT, _CACHED),
    "growing": (_TTFT, _CACHED),
    "long": (_Line("longest gap in the running streams, ms", "gap_max_ms", False), _TTFT),
    "again": (_TTFT, _CACHED),
    "restart": (_TTFT, _CACHED),
    "first": (_TTFT, _CACHED),
    "later": (_TTFT, _CACHED),
    "beside": (_Line("longest gap, ms", "gap_max_ms", False),),
    "beside-images": (_Line("longest gap, ms", "gap_max_ms", False),),
    "raw": (_Line("tokens/s of one stream", "stream_tokens_s", True), _TTFT),
}
_FAILED = _Line("failed requests", "failed", None)


def table(rows: Sequence[Row]) -> str:
    """Give the table as markdown. A ratio is Orchard's figure over the best of the others; bold: Orchard is ahead.

    A server that failed requests of a scenario had less to do: it counts there only where all others failed some too.
    """
    servers = sorted(dict.fromkeys(row.server for row in rows), key=lambda server: server != OURS)
    lines = [f"| scenario | figure | {' | '.join(servers)} | ratio |", "|---|---|" + "---:|" * (len(servers) + 1)]
    for scenario in dict.fromkeys(row.figures.scenario for row in rows):
        failed = {row.server for row in rows if row.figures.scenario == scenario and row.figures.failed}
        counting = set(servers) - failed if set(servers) - failed - {OURS} else set(servers)
        chosen = [*_LINES.get(scenario, _STREAMS), *([_FAILED] if failed else [])]
        for line in chosen:
            medians = [_median(rows, server, scenario, line.field) for server in servers]
            if scenario == "raw" and OURS in servers:  # beside the bare loop stands our server with one stream
                medians[servers.index(OURS)] = _median(rows, OURS, "c1", line.field)
            cells = " | ".join(_cell(median) for median in medians)
            others = [
                median
                for server, median in zip(servers, medians, strict=True)
                if server in counting - {OURS} and median
            ]
            ratio = _ratio(medians[servers.index(OURS)] if OURS in servers else None, others, line.more_is_better)
            lines.append(f"| {scenario} | {line.title} | {cells} | {ratio} |")
    return "\n".join(lines)


def _median(rows: Sequence[Row], server: str, scenario: str, field: str) -> float | None:
    found = [
        value
        for row in rows
        if row.server == server and row.figures.scenario == scenario
        if (value := getattr(row.figures, field)) is not None
    ]
    return statistics.median(found) if found else None


def _ratio(ours: float | None, others: Sequence[float], more_is_better: bool | None) -> str:
    if more_is_better is None or ours is None or not others:
        return ""
    ratio = ours / (max(others) if more_is_better else min(others))
    ahead = ratio > 1 if more_is_better else ratio < 1
    return f"**{ratio:.2f}**" if ahead else f"{ratio:.2f}"


def _cell(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:,.1f}" if number < 1000 and number != math.floor(number) else f"{number:,.0f}"
