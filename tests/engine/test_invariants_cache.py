"""What is known of a prompt saves time and changes nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams
from tests.support.engine_driver import Driver, Engines, greedy, prompt
from tests.support.examples import some
from tests.support.models import KINDS

# Keys and values can be cut at any token; a rotating cache and a recurrent state only be kept where they once were.
CUT_ANYWHERE = {"qwen3", "qwen3_moe"}

Make = Callable[[str, list[int]], Job]

every_kind = pytest.mark.parametrize("kind", KINDS)


def cached(engines: Engines, kind: str, driver: Driver, job: Job) -> int:
    """Run the job, which must give what it gives where nothing is cached; says how much of its prompt was known."""
    found, expected = driver.alone(job), engines.alone(kind, job)
    assert (found.tokens, found.reasons) == (expected.tokens, expected.reasons)
    assert found.cached_tokens is not None
    assert expected.cached_tokens == 0
    return found.cached_tokens


def seeded(name: str, tokens: list[int]) -> Job:
    params = SamplingParams(seed=5, temperature=1.2, top_p=0.9, repetition_penalty=1.1)
    return Job(name, tokens, params, 6, choices=2)


# Both ways of drawing for each kind; in the fast profile one for each, in turn.
each_job_or_some = pytest.mark.parametrize(
    ("make", "kind"),
    some([((greedy, seeded)[(place + turn) % 2], kind) for place, kind in enumerate(KINDS) for turn in (0, 1)], 2),
)


@each_job_or_some
def test_the_same_prompt_again(engines: Engines, make: Make, kind: str) -> None:
    """All of it is known but the last token, which gives the first logits."""
    with engines.fresh(kind) as driver:
        for length in (1, 2, 17, 257):
            job = make("a", prompt(length, length))
            assert [cached(engines, kind, driver, job) for _ in range(3)] == [0, length - 1, length - 1]


@every_kind
def test_a_shared_head(engines: Engines, kind: str) -> None:
    marks = (10, 40, 80)
    with engines.fresh(kind) as driver:
        for seed, (shared, boundary) in enumerate(some([(3, 0), (12, 10), (40, 40), (77, 40), (98, 80)], 2)):
            text, other = prompt(seed, 100), prompt(100 + seed, 100)
            assert text[shared] != other[shared]
            first = greedy("a", text, boundaries=marks)
            second = greedy("b", text[:shared] + other[shared:], boundaries=marks)
            assert cached(engines, kind, driver, first) == 0
            assert cached(engines, kind, driver, second) == (shared if kind in CUT_ANYWHERE else boundary)
            # Neither has spoiled the other.
            assert [cached(engines, kind, driver, job) for job in (first, second)] == [99, 99]


@each_job_or_some
def test_a_prompt_that_holds_its_own_answer(engines: Engines, make: Make, kind: str) -> None:
    """The next turn of a conversation, three times. Whether an answer's last token was read is up to the engine."""
    text = prompt(3, 30)
    with engines.fresh(kind) as driver:
        known = 0
        for turn in range(3):
            job = make(f"turn {turn}", text)
            assert cached(engines, kind, driver, job) in ({0} if not known else {known - 1, known})
            text = text + engines.alone(kind, job).tokens[0]
            known = len(text)
            text = text + prompt(10 + turn, 20)


@every_kind
def test_a_prompt_that_ends_within_a_known_one(engines: Engines, kind: str) -> None:
    text = prompt(1, 100)
    with engines.fresh(kind) as driver:
        assert cached(engines, kind, driver, greedy("a", text, boundaries=(30, 60))) == 0
        assert cached(engines, kind, driver, greedy("b", text[:61])) == 60
        assert cached(engines, kind, driver, greedy("c", text[:51])) == (50 if kind in CUT_ANYWHERE else 30)


@every_kind
def test_jobs_at_once_that_share_a_head(engines: Engines, kind: str) -> None:
    text = prompt(1, 60)
    jobs = [seeded(str(n), text + prompt(n, 5 * n)) for n in range(5)]
    with engines.fresh(kind) as driver:
        for _ in range(2):
            results = driver.run(jobs)
            assert [results[job.id].tokens for job in jobs] == [engines.alone(kind, job).tokens for job in jobs]
        assert [results[job.id].cached_tokens for job in jobs] == [len(job.prompt) - 1 for job in jobs]


@every_kind
def test_a_small_cache_forgets_what_is_old(engines: Engines, kind: str) -> None:
    jobs = [greedy(str(seed), prompt(seed, 100), 2) for seed in range(8)]
    with engines.fresh(kind, prompt_cache_bytes=160_000) as driver:
        assert [cached(engines, kind, driver, job) for job in jobs] == [0] * len(jobs)
        assert cached(engines, kind, driver, jobs[-1]) == 99
        assert cached(engines, kind, driver, jobs[0]) == 0


@every_kind
def test_a_cache_of_nothing(engines: Engines, kind: str) -> None:
    job = greedy("a", prompt(1, 50), boundaries=(20,))
    with engines.fresh(kind, prompt_cache_bytes=0) as driver:
        assert [cached(engines, kind, driver, job) for _ in range(2)] == [0, 0]


@every_kind
def test_a_restart_keeps_what_is_on_the_disk(engines: Engines, kind: str, tmp_path: Path) -> None:
    text, other = prompt(1, 200), prompt(2, 200)
    first = greedy("a", text, boundaries=(150,))
    with engines.fresh(kind, prompt_cache_dir=str(tmp_path)) as driver:
        assert cached(engines, kind, driver, first) == 0
    with engines.fresh(kind, prompt_cache_dir=str(tmp_path)) as driver:
        parted = greedy("b", text[:160] + other[160:])
        assert cached(engines, kind, driver, parted) == (160 if kind in CUT_ANYWHERE else 150)
    with engines.fresh(kind, prompt_cache_dir=str(tmp_path)) as driver:
        assert cached(engines, kind, driver, first) == len(text) - 1
