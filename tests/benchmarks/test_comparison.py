"""The table of benchmarks.serving."""

from benchmarks.comparison import Row, table

from orchard.cli.bench_client import Figures


def figures(scenario: str, **fields: float | None) -> Figures:
    return Figures(scenario=scenario, requests=1, failed=0, **fields)  # type: ignore[arg-type]


def cells(text: str) -> dict[tuple[str, str], list[str]]:
    """The cells of each line after its scenario and figure."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    return {(line[0], line[1]): line[2:] for line in lines}


def test_medians_and_the_ratio_to_the_best_of_the_others() -> None:
    rows = [
        Row("slow", 0, figures("c8", tokens_s=100.0, ttft_p50_ms=20.0)),
        Row("fast", 0, figures("c8", tokens_s=200.0, ttft_p50_ms=50.0)),
        *(
            Row("orchard", number, figures("c8", tokens_s=rate, ttft_p50_ms=40.0))
            for number, rate in enumerate((1, 300, 900))
        ),
    ]
    found = cells(table(rows))
    assert found["scenario", "figure"] == ["orchard", "slow", "fast", "ratio"]
    assert found["c8", "tokens/s, all streams"] == ["300", "100", "200", "**1.50**"]
    assert found["c8", "first token, median ms"] == ["40", "20", "50", "2.00"]
    assert found["c8", "tokens generated"][-1] == ""
    assert ("c8", "failed requests") not in found


def test_failures_and_what_is_missing() -> None:
    failed = Figures(scenario="again", requests=1, failed=1, error="lost")
    rows = [Row("orchard", 0, figures("again", ttft_p50_ms=5.0)), Row("other", 0, failed)]
    found = cells(table(rows))
    assert found["again", "first token, median ms"] == ["5", "", ""]
    assert found["again", "failed requests"] == ["0", "1", ""]


def test_a_server_that_failed_requests_does_not_set_the_mark_unless_all_did() -> None:
    ours = Row("orchard", 0, figures("c8", tokens_s=100.0))
    failing = Row("failing", 0, Figures(scenario="c8", requests=4, failed=2, tokens_s=400.0))
    assert cells(table([ours, failing]))["c8", "tokens/s, all streams"][-1] == "0.25"
    well = Row("well", 0, figures("c8", tokens_s=50.0))
    assert cells(table([ours, failing, well]))["c8", "tokens/s, all streams"][-1] == "**2.00**"


def test_beside_the_bare_loop_stands_one_stream_of_ours() -> None:
    rows = [
        Row("mlx-lm", 0, figures("raw", stream_tokens_s=100.0)),
        Row("orchard", 0, figures("c1", stream_tokens_s=90.0)),
    ]
    assert cells(table(rows))["raw", "tokens/s of one stream"] == ["90", "100", "0.90"]
