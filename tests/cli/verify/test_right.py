"""How answers are compared: what counts as rounding, and what as a fault."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from orchard.cli.verify.proof import Proof, Remedy
from orchard.cli.verify.right import check_cache, check_reasoning, check_restart, compare, completions
from orchard.cli.verify.subject import Answer, Bare, Subject
from orchard.gateway.models.registry import resolve_model


def token(text: str, *others: tuple[str, float], logprob: float = -0.1) -> dict[str, Any]:
    """Make a token as the server tells of it, and the others in its place."""
    top = [(text, logprob), *others]
    listed = [{"bytes": list(piece.encode()), "logprob": value} for piece, value in top]
    return listed[0] | {"top_logprobs": listed}


def prove(check: Callable[[Subject], Awaitable[Proof]], subject: Subject) -> Proof:
    async def run() -> Proof:
        return await check(subject)

    return asyncio.run(run())


@pytest.fixture
def subject() -> Subject:
    """One on a device whose rounding is 0.01."""
    made = Subject(resolve_model("demo"), ["key"], long=False)
    made.bare = Bare([], [], 0.01, 3.0, [], 0.0, 1, 1.0, [])
    return made


def answer(*texts: str, beside: tuple[str, float] = ("x", -9.0), logprob: float = -0.1) -> Answer:
    return Answer("".join(texts), [token(text, beside, logprob=logprob) for text in texts])


def test_equal_answers(subject: Subject) -> None:
    proof = compare(subject, {"a": answer("one", "two")}, {"a": answer("one", "two")}, Remedy("--off"))
    assert (proof.status, proof.seen, proof.advice) == ("ok", "1 of 1 answers are equal", "")


def test_answers_that_part_where_tokens_are_as_likely(subject: Subject) -> None:
    alone = {"a": answer("one", "two", beside=("too", -0.13))}
    proof = compare(subject, alone, {"a": Answer("onetoo")}, Remedy("--off"))
    assert proof.status == "rounding"
    assert proof.figures["largest_gap"] == pytest.approx(0.03)


@pytest.mark.parametrize(("beside", "text"), [(("too", -0.2), "onetoo"), (("x", -0.1), "onefour")])
def test_answers_that_part_where_rounding_does_not_explain_it(
    subject: Subject, beside: tuple[str, float], text: str
) -> None:
    proof = compare(subject, {"a": answer("one", "two", beside=beside)}, {"a": Answer(text)}, Remedy("--off"))
    assert (proof.status, proof.advice) == ("problem", "--off")
    assert "where 'a' parts" in proof.seen


def test_equal_answers_whose_log_probabilities_differ(subject: Subject) -> None:
    others = {"a": answer("one", "two", beside=("x", -9.2))}
    proof = compare(subject, {"a": answer("one", "two")}, others, Remedy("--off"))
    assert proof.status == "problem"
    assert "in 'a' a token's log-probability changes by 0.2" in proof.seen


def test_an_answer_with_another_requests_seed(subject: Subject) -> None:
    alone = {"seed 1": answer("one"), "seed 2": answer("two"), "seed 3": answer("three")}
    proof = compare(subject, alone, alone | {"seed 2": answer("three")}, Remedy("--off"))
    assert proof.status == "problem"
    assert "'seed 2' got the answer of 'seed 3'" in proof.seen


@pytest.mark.parametrize(("names", "status"), [(("seed 1",), "rounding"), (("seed 1", "seed 2"), "problem")])
def test_one_draw_may_change_by_rounding_but_not_most(subject: Subject, names: tuple[str, ...], status: str) -> None:
    alone = {f"seed {number}": answer(str(number)) for number in range(3)}
    others = alone | {name: Answer(f"{name}!") for name in names}
    assert compare(subject, alone, others, Remedy("--off")).status == status


def test_the_requests_without_the_librarys_loop(subject: Subject) -> None:
    subject.bare = None
    bodies = completions(subject)
    assert len(bodies) == 7
    assert len({str(body) for body in bodies.values()}) == 7
    assert all(isinstance(body["prompt"], str) for body in bodies.values())


def test_prompts_fit_into_the_window(subject: Subject) -> None:
    subject.bare = None
    subject.entry = msgspec.structs.replace(subject.entry, context_window=400)
    bodies = completions(subject)
    assert 3 < len(bodies) < 7
    assert all(len(body["prompt"]) + body["max_tokens"] <= 400 for body in bodies.values())


@pytest.mark.parametrize("check", [check_cache, check_restart])
@pytest.mark.parametrize(("cached", "status"), [(7, "ok"), (0, "left out")])
def test_prompts_that_come_from_no_cache_say_nothing_about_it(
    subject: Subject,
    check: Callable[[Subject], Awaitable[Proof]],
    cached: int,
    status: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def complete(body: dict[str, Any], caller: int = 0) -> Answer:
        return Answer("A", [], 10, cached)

    subject.bare = None
    monkeypatch.setattr(subject, "complete", complete)
    assert prove(check, subject).status == status


@pytest.mark.parametrize(
    ("reasoning", "text", "status"),
    [
        ("12 * 3 = 36", "36", "ok"),
        ("", "36", "ok"),
        ("first I write <think>, as random weights may", "36", "ok"),
        ("<think>12 * 3 = 36", "36", "problem"),
        ("", "12 * 3 = 36</think>36", "problem"),
        ("", "<think>12 * 3 = 36", "problem"),
    ],
)
def test_a_tag_that_is_left_of_the_reasoning_is_found(
    subject: Subject, reasoning: str, text: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(path: str, body: dict[str, Any], caller: int = 0) -> Any:
        return {"choices": [{"message": {"content": text, "reasoning_content": reasoning}}]}

    monkeypatch.setattr(subject, "ask", ask)
    assert prove(check_reasoning, subject).status == status
