"""What a runner makes of jobs that give their rows to another caller's."""

import itertools
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from orchard.core.request import Sender
from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.scheduler import StepPlan
from tests.support.engine_driver import greedy, prompt
from tests.support.examples import some
from tests.support.tiny_models import LOOSE, Course, alone, make_runner, network, run

ANN, BEN = Sender("ann"), Sender("ben")


@pytest.mark.parametrize(
    ("cache_bytes", "kind"), some([*itertools.product([0, 2**24], ["qwen3", "gemma3_text", "lfm2"])], 2)
)
def test_displaced_jobs_go_on_as_if_nothing_had_been(cache_bytes: int, kind: str) -> None:
    model = network(kind)
    chances = SamplingParams(seed=6, temperature=0.9, top_k=30, repetition_penalty=1.2, frequency_penalty=0.3)
    long = [
        greedy("a", prompt(1, 10), 90, sender=ANN),
        Job("b", prompt(2, 12), chances, 80, choices=2, sender=ANN),
        greedy("c", prompt(3, 1), 90, sender=ANN),
        Job("d", prompt(4, 70), chances, 60, sender=ANN),
    ]
    small = [greedy(f"small {n}", prompt(10 + n, 8), 3, sender=BEN) for n in range(9)]
    # Prompts are read in pieces, so that some are displaced before they are complete.
    runner = make_runner(model, replace(LOOSE, max_rows=5, chunk=4, idle_chunk=8), cache_bytes=cache_bytes)
    waiting = list(small)
    displaced: list[str] = []
    plan = runner._scheduler.plan

    def note() -> StepPlan:
        made = plan()
        displaced.extend(made.displace)
        return made

    runner._scheduler.plan = note  # type: ignore[method-assign]

    def send(course: Course) -> Sequence[Job]:
        """One at a time, so that others go on in between."""
        return [waiting.pop(0)] if waiting and not len(course.steps) % 9 else ()

    course = run(runner, long, send)
    assert not waiting
    for job in [*long, *small]:
        assert course.outcomes[job.id].tokens == alone(model, job), job.id
        assert len(course.outcomes[job.id].begun) == 1
    assert len(displaced) > 3
    assert {"b", "d"} <= set(displaced) <= {"a", "b", "c", "d"}
