"""Two ranks take the same steps, whatever happens, although only rank 0 decides."""

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.core.request import Sender
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import Job
from orchard.engine.memory import Shares
from orchard.engine.prefix_cache import radix_tree
from orchard.engine.ranks import shared_store
from orchard.engine.ranks.follower import DivergedError
from orchard.engine.sampling.params import SamplingParams
from tests.support.engine_driver import greedy, prompt
from tests.support.examples import examples, some
from tests.support.grammars import lark, schema
from tests.support.rank_pair import RankPair
from tests.support.tiny_models import LOOSE, Course, alone, footprint, make_runner, network, run

KINDS = ["qwen3", "gemma3_text", "lfm2"]


@st.composite
def jobs(draw: st.DrawFn, name: str) -> Job:
    """Few texts, so that many prompts share their heads."""
    penalties: dict[str, Any] = draw(
        st.sampled_from([{}, {"repetition_penalty": 1.2, "frequency_penalty": 0.3}, {"thinking_budget": 2}])
    )
    params = SamplingParams(
        seed=draw(st.integers(0, 1)),
        temperature=draw(st.sampled_from([0.0, 0.9])),
        think_end=7,
        top_logprobs=draw(st.sampled_from([None, 2])),
        **penalties,
    )
    return Job(
        name,
        prompt(draw(st.integers(0, 1)), draw(st.sampled_from([1, 5, 20, 40, 60]))),
        params,
        draw(st.sampled_from([1, 4, 12])),
        draw(st.integers(1, 2)),
        priority=draw(st.sampled_from(["normal", "interactive", "background"])),
        boundaries=(9, 20),
        prompt_logprobs=draw(st.sampled_from([None, None, None, 1])),
        sender=Sender(draw(st.sampled_from(["ann", "ben"]))),
    )


@pytest.mark.parametrize("kind", some(KINDS, 3))
@examples(60, derandomize=True, database=None)
@given(data=st.data())
def test_a_follower_does_what_rank_0_does(kind: str, data: st.DataObject) -> None:
    """Nothing diverges, although each of its own tokens would be another one, and rank 0's answers are right."""
    model = network(kind)
    row_bytes = footprint(model, TextOptions()).bytes(60)
    limits = replace(LOOSE, max_rows=4, memory_bytes=2**40, chunk=8, idle_chunk=16, room=4)
    cache_bytes = data.draw(st.sampled_from([0, row_bytes * 3, 2**24]))
    pair = RankPair(model, limits, cache_bytes, errors_come_late=data.draw(st.booleans()))
    course, given_jobs, gone = Course(), dict[str, Job](), set[str]()
    paused: list[str] = []
    for name in "abcdef":
        job = data.draw(jobs(name))
        course.expect(job)
        pair.add(job)
        given_jobs[name] = job
        for _ in range(data.draw(st.integers(0, 6))):
            course.take(pair.step())
        other = data.draw(st.sampled_from(sorted(given_jobs)))
        match data.draw(st.sampled_from(["go on", "cancel one", "cancel", "pause", "resume", "limit"])):
            case "cancel one" if course.outcomes[other].begun:
                pair.leader.cancel(other, 0)
                gone.add(other)
            case "cancel":
                pair.leader.cancel(other)
                gone.add(other)
            case "pause":
                pair.leader.pause(other)
                paused.append(other)
            case "resume" if paused:
                pair.leader.resume(paused.pop())
            case "limit":
                most = row_bytes * data.draw(st.integers(4, 12))
                pair.limit_memory(Shares(2**40, row_bytes * 3, most))
    for name in paused:
        pair.leader.resume(name)
    pair.limit_memory(Shares(2**40, row_bytes * 3, 2**40))
    while not pair.leader.is_idle:
        course.take(pair.step())
        assert len(course.steps) < 2000
    for name, job in given_jobs.items():
        outcome, expected = course.outcomes[name], alone(model, replace(job, sender=Sender(), priority="normal"))
        assert not outcome.broken
        if name not in gone:
            assert outcome.tokens == expected, name
    assert not pair.follower._work


def test_a_follower_that_lacks_a_cached_prompt_says_so_before_its_next_step() -> None:
    pair = RankPair(network("qwen3"), cache_bytes=2**24)
    for name in "ab":
        pair.add(greedy(name, prompt(1, 40), 3))
        while not pair.is_idle:
            pair.step()
    pair.follower.store.drop_all()
    pair.add(greedy("c", prompt(1, 40), 3))
    with pytest.raises(DivergedError, match="not those of rank 0"):
        pair.step()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_without_memory_does_not_go_on_alone(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = RankPair(network("qwen3"))
    pair.add(greedy("a", prompt(1, 20), 8))
    pair.step()

    def fail(*_: object, **given: object) -> mx.array:
        raise RuntimeError("[malloc] Unable to allocate 99 bytes.")

    monkeypatch.setattr(pair.models[rank], "forward", fail)
    with pytest.raises(RuntimeError, match="Unable to allocate"):
        pair.step()


@pytest.mark.parametrize("kind", some(KINDS, 1))
@examples(25, derandomize=True, database=None)
@given(data=st.data())
def test_disks_that_differ_do_not_make_ranks_differ(kind: str, data: st.DataObject) -> None:
    """Some files are lost or damaged between restarts, and each rank writes when it likes."""
    model = network(kind)
    limits = replace(LOOSE, max_rows=4, chunk=8, idle_chunk=16, room=4)
    budget = footprint(model, TextOptions()).bytes(60) * data.draw(st.sampled_from([2, 20]))
    with tempfile.TemporaryDirectory() as parent, mock.patch.object(radix_tree, "MAX_EDGE", 16):
        folders = [Path(parent) / "first", Path(parent) / "second"]
        for life in range(3):
            for file in sorted(Path(parent).glob("*/*/*.safetensors")):
                match data.draw(st.sampled_from(["keep", "keep", "keep", "lose", "damage"])):
                    case "lose":
                        file.unlink()
                    case "damage":
                        file.write_bytes(file.read_bytes()[:-1] + b"?")
            pair, course = RankPair(model, limits, budget, folders=folders), Course()
            given_jobs, gone = [data.draw(jobs(f"{life}{name}")) for name in "abc"], set[str]()
            for job in given_jobs:
                course.expect(job)
                pair.add(job)
                for _ in range(data.draw(st.integers(0, 8))):
                    course.take(pair.step())
                match data.draw(st.sampled_from(["go on", "cancel", "write", "write"])):
                    case "cancel":
                        pair.cancel(job.id)
                        gone.add(job.id)
                    case "write":
                        pair.follower.write_back()
                        if pair.is_idle:
                            pair.leader.write_back()
            while not pair.is_idle:
                course.take(pair.step())
            pair.close()
            for job in given_jobs:
                expected = alone(model, replace(job, sender=Sender(), priority="normal"))
                assert job.id in gone or course.outcomes[job.id].tokens == expected


def answer(pair: RankPair, *given_jobs: Job) -> list[int | None]:
    """See that the answers are right; return how many tokens of each prompt came from the cache."""
    course = Course()
    for job in given_jobs:
        course.expect(job)
        pair.add(job)
    while not pair.is_idle:
        course.take(pair.step())
    assert [course.outcomes[job.id].tokens for job in given_jobs] == [
        alone(network("qwen3"), job) for job in given_jobs
    ]
    return [course.outcomes[job.id].begun[0].cached_tokens for job in given_jobs]


def test_prompts_come_back_from_the_disk_of_every_rank(tmp_path: Path) -> None:
    """Only if all have them: a rank whose files are gone, or whose disk is slow, makes that a miss for all."""
    folders = [tmp_path / "first", tmp_path / "second"]
    job, longer = greedy("a", prompt(1, 40), 3), greedy("b", prompt(1, 60), 3)

    def restart() -> RankPair:
        return RankPair(network("qwen3"), cache_bytes=2**24, folders=folders)

    pair = restart()
    assert answer(pair, job) == [0]
    pair.close()
    pair = restart()
    first, second = ([*folder.glob("*/*.payload.safetensors")] for folder in folders)
    assert len(first) == len(second) > 0
    assert answer(pair, job) == [39]
    pair.close()
    shutil.rmtree(folders[1])
    pair = restart()
    assert answer(pair, job) == [0]
    pair.close()
    pair = restart()
    # While the first prompt is read, the others wait. They need not read it again.
    assert answer(pair, longer, job, replace(longer, id="c")) == [40, 39, 40]
    pair.close()
    pair = restart()
    pair.add(longer)
    pair.cancel(longer.id)
    assert answer(pair, job) == [39]
    pair.close()


def test_a_rank_whose_disk_is_slow_makes_a_miss_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    pair = RankPair(network("qwen3"), cache_bytes=2**24, folders=folders)
    assert answer(pair, greedy("a", prompt(1, 40), 3)) == [0]
    pair.close()
    pair = RankPair(network("qwen3"), cache_bytes=2**24, folders=folders)
    hold, disk = threading.Event(), pair.follower.store._disk
    assert disk
    read = disk._read

    def read_late(*given: Any) -> None:
        assert hold.wait(60.0)
        read(*given)

    monkeypatch.setattr(shared_store, "_SECONDS_FOR_OTHERS", 0.01)
    monkeypatch.setattr(disk, "_read", read_late)
    assert answer(pair, greedy("a", prompt(1, 40), 3)) == [0]
    hold.set()
    pair.close()


def test_only_rank_0_has_grammars() -> None:
    """One that fails takes only its own job with it, on both ranks in the same step."""
    model = network("qwen3")
    stuck = lark(f'start: "hello" <[{model.vocab_size - 1}]>')  # there is no such token
    given_jobs = [
        greedy("schema", prompt(1, 20), 40, grammar=schema()),
        greedy("free", prompt(2, 9), 20),
        greedy("stuck", prompt(3, 30), 40, choices=2, grammar=stuck),
    ]
    expected = run(make_runner(model, cache_bytes=2**24, short=16), given_jobs)
    pair, course = RankPair(model, cache_bytes=2**24), Course()
    for job in given_jobs:
        course.expect(job)
        pair.add(job)
    while not pair.is_idle:
        course.take(pair.step())
    for name, outcome in course.outcomes.items():
        assert (outcome.tokens, outcome.broken) == (expected.outcomes[name].tokens, expected.outcomes[name].broken)
    assert course.outcomes["stuck"].broken
    assert not pair.follower._work
