"""What a step takes beside weights and rows: the estimate is high, and no step takes more than was planned."""

import mlx.core as mx
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.tasks.text_options import TextOptions
from orchard.engine import step_work
from orchard.engine.batching.model import LanguageModel
from orchard.engine.ticket import Limits, StepWork
from tests.support.engine_driver import greedy, prompt
from tests.support.tiny_models import Other, make_runner, network, run
from tests.support.units import finish


def test_the_estimate_is_above_what_is_measured() -> None:
    model = network("qwen3")
    estimate, measured = step_work.estimate_step_work(model), finish(step_work.measure_step_work(model, TextOptions()))
    assert 0 < measured.token <= estimate.token
    assert 0 < measured.place <= estimate.place
    assert measured.row > 0
    assert finish(step_work.measure_step_work(model, TextOptions(kv_bits=8, kv_group_size=32))).place == estimate.place


@given(token=st.integers(1, 50), place=st.integers(0, 3), wide=st.integers(0, 10_000), nbytes=st.integers(-10, 40_000))
def test_the_largest_chunk_that_fits(token: int, place: int, wide: int, nbytes: int) -> None:
    """A pass of many tokens takes more, so it may be that few tokens fit and many don't."""
    work = StepWork(token=token, place=place, wide=wide)
    fitting = work.tokens(nbytes, 7)
    assert fitting == 0 or work.chunk(fitting, 7) <= nbytes
    assert work.chunk(fitting + 1, 7) > nbytes


def test_what_fits_where_only_the_width_of_a_pass_counts() -> None:
    work = StepWork(wide=80)
    assert work.chunk(work.tokens(79, 7), 7) == 0 < work.tokens(79, 7)
    assert work.chunk(work.tokens(80, 7), 7) == 80


def test_a_model_without_known_shapes_is_taken_for_a_large_one() -> None:
    unknown: LanguageModel = Other(network("qwen3"))
    assert step_work.estimate_step_work(unknown).token > step_work.estimate_step_work(network("qwen3")).token


def test_no_step_takes_more_than_was_planned() -> None:
    """A long prompt is read beside rows that decode, and rows join and leave."""
    model = network("qwen3")
    limits = Limits(16, 2**30, 64, 256, work=finish(step_work.measure_step_work(model, TextOptions())))
    runner = make_runner(model, limits)
    before = mx.get_active_memory()
    slack = 2**18  # arrays of a few numbers each, which take a page
    planned = [0]

    def check(course: object) -> list[object]:
        planned.append(runner.planned_bytes)
        assert mx.get_peak_memory() - before <= max(planned[-2:]) + slack
        mx.reset_peak_memory()
        return []

    jobs = [greedy(str(n), prompt(n + 1, 20 + 90 * n), 30, choices=1 + n % 3) for n in range(6)]
    mx.reset_peak_memory()
    run(runner, jobs, check)  # type: ignore[arg-type]
    assert max(planned) < 2**26
