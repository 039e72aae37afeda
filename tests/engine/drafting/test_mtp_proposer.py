"""A model's own MTP head as a proposer: it guesses what mlx-vlm's pass over the same text guesses."""

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from orchard.engine.batching import traced_pass
from orchard.engine.batching.batch import Pass
from orchard.engine.drafting import mtp_proposer
from orchard.engine.drafting.head import HeadedModel
from orchard.engine.drafting.mtp_proposer import MtpProposer
from orchard.engine.speculation.interface import SpeculatingRow
from orchard.engine.speculation.proposal import Proposal
from tests.support import heads
from tests.support.cuda_attention import as_on_cuda
from tests.support.engine_driver import greedy, prompt
from tests.support.heads import OracleHead, head_runner, headed
from tests.support.speculation import FixedController
from tests.support.tiny_models import alone, run

JOBS = [greedy("a", prompt(1, 30), 14), greedy("b", prompt(4, 9), 25, choices=2), greedy("c", prompt(3, 2), 14)]


def guesses_of_library(text: Sequence[int], count: int) -> list[int]:
    """What mlx-vlm guesses behind a text, whose last token the model has not read."""
    plain, _, library = headed()
    library.reset(plain.network)
    read = mx.array([text[:-1]])
    hidden = headed().model.hidden_states(read, headed().model.new_cache())
    library.prefill_from_target_hidden(read, hidden, text[-1], None, greedy=True)
    return library.draft_block(text[-1], hidden[:, -1:], None, count + 1, None, greedy=True)[0].tolist()  # type: ignore[no-any-return]


class Noting(OracleHead):
    """Notes the texts that it guesses behind, and what the head says there first."""

    noted: list[tuple[list[int], int]]

    def guess(self, one: Pass, rows: Sequence[SpeculatingRow | None], most: int) -> mx.array:
        said: Any = MtpProposer.guess(self, one, rows, most).tolist()
        self.noted += [(list(row.tokens), tokens[0]) for row, tokens in zip(rows, said, strict=True) if row]
        return super().guess(one, rows, most)


@pytest.mark.parametrize(
    ("right", "traced", "kernel"), [(0.6, False, False), (1.0, False, False), (1.0, True, False), (0.6, True, True)]
)
def test_guesses_are_those_of_the_library(
    right: float, traced: bool, kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind tokens that were accepted or not, that share a pass or not, and that were read again."""
    noted: list[tuple[list[int], int]] = []
    monkeypatch.setattr(traced_pass, "RUNS_BEFORE_TRACE", 1)
    monkeypatch.setattr(heads, "OracleHead", Noting)
    monkeypatch.setattr(Noting, "noted", noted, raising=False)
    answers = {job.id: alone(headed().plain, job) for job in JOBS}
    with as_on_cuda() if kernel else nullcontext([0, 1]) as calls:
        course = run(head_runner(headed().model, 3, answers=answers, right=right, traced=traced), JOBS)
    assert set(calls) == {0, 1}  # the model's layers hide no place, the head's hides the first
    assert {job.id: course.outcomes[job.id].tokens for job in JOBS} == answers
    assert len(noted) > 12
    for text, token in noted[::3]:
        assert guesses_of_library(text, 1) == [token], text


def test_guesses_are_read_at_the_positions_of_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the media of a model with M-RoPE, a token's position is not its place."""
    head: Any = type(headed().model.head)
    read, firsts, compared = head.read, list[mx.array](), list[int]()

    def noted(self: Any, tokens: mx.array, before: mx.array, cache: Any, first: Any, **given: Any) -> mx.array:
        firsts.append(first)
        made: mx.array = read(self, tokens, before, cache, first, **given)
        return made

    class Shifted(MtpProposer):
        def guess(self, one: Pass, rows: Sequence[SpeculatingRow | None], most: int) -> mx.array:
            for number, slot in enumerate(one.slots):
                slot.position_delta = 10 * number - 5
            firsts.clear()
            made = super().guess(one, rows, most)
            for slot in one.slots:
                slot.position_delta = 0
            for place, first in enumerate(firsts):
                for number, (row, said) in enumerate(zip(rows, one.to_slots(first).tolist(), strict=True)):  # type: ignore[arg-type]
                    if row:
                        assert said == len(row.tokens) - 1 + place + 10 * number - 5
                        compared.append(number)
            return made

    monkeypatch.setattr(head, "read", noted)
    monkeypatch.setattr(heads, "MtpProposer", Shifted)
    run(head_runner(headed().model, 2), JOBS)
    assert {0, 1} <= set(compared)


def test_later_guesses_follow_the_heads_own(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = FixedController(3)
    run(head_runner(headed().model, 3, controller=controller), JOBS[:1])
    answer = alone(headed().plain, JOBS[0])[0]
    text = [*JOBS[0].prompt, *answer]
    assert len(controller.results) > 3
    place = len(JOBS[0].prompt) + 1  # one token comes before anything can be guessed
    for proposal, proposed, accepted in controller.results:
        assert proposal.source == "mtp"
        assert proposal.tokens[:proposed] == guesses_of_library(text[:place], 3)[:proposed]
        place += accepted + 1


def test_each_row_gets_as_many_guesses_as_it_may_have() -> None:
    """Not as many as the others of its pass: it may be near its end."""
    steps = run(head_runner(headed().model, 3), JOBS).steps
    for job in JOBS:
        begun = 0
        for step in steps:
            own = [one for one in step.tokens if one.job == job.id and one.choice == 0]
            assert all(begun + one.verified.proposed < job.max_tokens for one in own if one.verified)
            begun += len(own)
        assert begun == job.max_tokens


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_promises_what_earlier_guesses_were_worth(right: float) -> None:
    controller = FixedController(3)
    answers = {"a": alone(headed().plain, JOBS[0])}
    run(head_runner(headed().model, 1, answers=answers, right=right, controller=controller), JOBS[:1])
    first, *_, last = [proposal.chances[0] for proposal, _, _ in controller.results]
    assert {proposed for _, proposed, _ in controller.results} == {1}  # no more than it was told
    assert first == pytest.approx(0.7)
    assert last > 0.8 if right else last < 0.3


def test_guesses_that_were_worth_nothing_are_tried_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mtp_proposer, "_PROMISES_UNTIL_RETRY", 3)
    promised: list[float] = []

    class Declining(FixedController):
        def choose(self, offers: Sequence[Sequence[Proposal]]) -> list[Proposal | None]:
            promised.extend(one.chances[0] for offered in offers for one in offered)
            return super().choose(offers) if len(self.results) < 6 else [None] * len(offers)

    answers = {"a": alone(headed().plain, JOBS[0])}
    run(head_runner(headed().model, 1, answers=answers, right=0.0, controller=Declining(1)), JOBS[:1])
    assert min(promised) < 0.3
    assert promised[-1] == pytest.approx(0.7)


def test_what_is_compiled_is_no_cost() -> None:
    """Else a head that was asked once would be thought too slow to be asked again."""
    controller = FixedController(3)
    compiled = run(head_runner(headed().model, 3, controller=controller, traced=True), JOBS[:1]).steps
    drafted = [step for step in compiled if any(one.verified for one in step.tokens)]
    counts = {one.verified.proposed for step in drafted for one in step.tokens if one.verified}
    assert len(controller.drafts) == len(drafted) - len(counts)


@pytest.mark.parametrize("breaks", ["feeding", "guessing"])
def test_a_head_that_raises_fails_nobody(breaks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the rows that are there nor later ones, with prompts that were cached while it was well."""
    plain, model, _ = headed()
    fresh = HeadedModel(plain, model.head)
    answers = {job.id: alone(plain, job) for job in JOBS}
    runner = head_runner(fresh, 3, answers=answers, cache_bytes=2**22)

    def unlucky(*args: Any, **named: Any) -> mx.array:
        raise RuntimeError("unlucky")

    def break_down(course: Any) -> Sequence[Any]:
        if len(course.steps) == 4:
            where: Any = fresh if breaks == "feeding" else MtpProposer
            monkeypatch.setattr(where, "_feed" if breaks == "feeding" else "guess", unlucky)
        return ()

    for time in range(2):
        course = run(runner, JOBS, break_down)
        assert {job.id: course.outcomes[job.id].tokens for job in JOBS} == answers
        assert not any(course.outcomes[job.id].broken for job in JOBS)
        if time and breaks == "feeding":  # what it would guess is worth nothing
            assert not any(one.verified for step in course.steps for one in step.tokens)
    assert fresh.has_failed is (breaks == "feeding")


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_cached_prompts_bring_what_the_head_has_read(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[list[int], int]] = []
    monkeypatch.setattr(heads, "OracleHead", Noting)
    monkeypatch.setattr(Noting, "noted", noted, raising=False)
    first = JOBS[0]
    [answer] = alone(headed().plain, first)
    again = greedy("again", [*first.prompt, *answer, *prompt(5, 3)], 8)
    answers = {job.id: alone(headed().plain, job) for job in (first, again)}
    options: dict[str, Any] = {"cache_bytes": 2**22} | ({"prompt_cache_dir": str(tmp_path)} if where == "disk" else {})
    runner = head_runner(headed().model, 3, answers=answers, **options)
    run(runner, [first])
    if where == "disk":
        runner.close(5.0)
        runner = head_runner(headed().model, 3, answers=answers, **options)
        runner.store.wait_for_files(5.0)
        fetched = threading.Event()
        assert runner.store.fetch(again.prompt, fetched.set)
        assert fetched.wait(5.0)
    noted.clear()
    course = run(runner, [again])
    assert course.outcomes["again"].begun[0].cached_tokens >= len(first.prompt)
    assert course.outcomes["again"].tokens == answers["again"]
    assert noted
    for text, token in noted:
        assert guesses_of_library(text, 1) == [token]
