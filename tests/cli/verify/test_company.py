"""Images, speech, transcriptions and answers under pressure that company changes are found."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orchard.cli.verify import memory, other_kinds
from orchard.cli.verify.proof import Proof
from orchard.cli.verify.subject import Answer, Heard, Refusal, Subject
from orchard.gateway.models.registry import resolve_model

_NUMBERS = itertools.count()


@pytest.fixture
def subject() -> Subject:
    return Subject(resolve_model("demo"), ["key"], long=True)


class Company:
    """Counts the requests that run at once, and gives each an answer that may depend on them."""

    def __init__(self, answer: Callable[[Any, int], Any]) -> None:
        self._answer = answer
        self._running = 0

    async def __call__(self, subject: Subject, asked: Any = None, caller: int = 0) -> Any:
        self._running += 1
        await asyncio.sleep(0)
        made = self._answer(asked, self._running)
        await asyncio.sleep(0)
        self._running -= 1
        return made


def prove(check: Callable[[Subject], Awaitable[Proof]], subject: Subject) -> tuple[str, str]:
    async def run() -> Proof:
        return await check(subject)

    proof = asyncio.run(run())
    return proof.status, proof.seen


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        (lambda seed, company: f"image {seed}", "ok", "2 images at once"),
        (lambda seed, company: f"image {seed + (company > 1) * (23 - 2 * seed)}", "problem", "its neighbour's seed"),
        (lambda seed, company: f"image {seed} {company}", "problem", "differs from the one alone"),
        (lambda seed, company: "image", "problem", "two seeds give the same image"),
    ],
)
def test_images(answer: Any, status: str, told: str, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_kinds, "_draw", Company(answer))
    found = prove(other_kinds.check_seeds, subject)
    assert (found[0], told in found[1]) == (status, True)


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        (lambda text, company: text.encode(), "ok", "2 texts"),
        (lambda text, company: text.encode() * company, "problem", "differs from speech alone"),
        (lambda text, company: b"\0\0", "problem", "silent"),
        (lambda text, company: str(next(_NUMBERS)).encode(), "left out", "no seed"),
    ],
)
def test_speech(answer: Any, status: str, told: str, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_kinds, "_speak", Company(answer))
    found = prove(other_kinds.check_speech, subject)
    assert (found[0], told in found[1]) == (status, True)


@pytest.mark.parametrize(("others", "status"), [(9, "ok"), (3, "problem"), (1, "problem")])
def test_recordings(others: int, status: str, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """`others`: more requests at once than these change a transcription."""
    company = Company(lambda recording, running: ("word" if recording else "chat", running > others))
    monkeypatch.setattr(other_kinds, "_transcribe", company)
    monkeypatch.setattr(other_kinds, "_chat", company)
    assert prove(other_kinds.check_recordings, subject)[0] == status


@pytest.mark.parametrize(
    ("ours", "theirs", "status"),
    [
        (("one two", 0.0), ("one two", 0.0), "ok"),
        (("one two", 0.0), ("one too", 0.0), "problem"),
        (("", 0.0), ("one", 0.0), "problem"),
        (("", 0.0), ("", 0.0), "left out"),
        (("one two", 0.4), ("one too", 0.0), "left out"),
        (("one two", 0.0), ("one too", 0.2), "left out"),
        (("one two", 0.0), None, "left out"),
    ],
)
def test_what_the_library_hears(
    ours: tuple[str, float], theirs: Any, status: str, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def transcribe(*_: Any) -> Any:
        return f" {ours[0]}", [(0.0, 1.0, ours[0], ours[1])]

    monkeypatch.setattr(other_kinds, "_transcribe", transcribe)
    subject.heard = [Heard(*theirs)] * 2 if theirs else None
    assert prove(other_kinds.check_sound_library, subject)[0] == status


@pytest.mark.parametrize(
    ("padding", "status"),
    [
        (lambda texts, company: 0.0, "ok"),
        (lambda texts, company: 0.2 * (len(texts) > 1), "problem"),
        (lambda texts, company: 0.2 * (company > 1), "problem"),
    ],
)
def test_embeddings(padding: Any, status: str, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """`padding`: how much of other texts comes into an embedding."""
    company = Company(lambda texts, running: [[float(len(text)), padding(texts, running) * 99] for text in texts])
    monkeypatch.setattr(other_kinds, "_embed", company)
    assert prove(other_kinds.check_embeddings, subject)[0] == status


@pytest.mark.parametrize(("step", "status"), [(0.0, "ok"), (0.02, "problem")])
def test_scores(step: float, status: str, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_kinds, "_rank", Company(lambda texts, running: [0.5 + step * len(texts) for _ in texts]))
    assert prove(other_kinds.check_scores, subject)[0] == status


class Pressed(Subject):
    """A subject whose answers change, or whose process ends, once memory was taken."""

    def __init__(self, fault: str) -> None:
        super().__init__(resolve_model("demo"), ["key"], long=True)
        self.fault = fault
        self.taken = False

    async def read(self, path: str) -> Any:
        budget = 100 if self.taken else 1000
        pid = 2 if self.taken and self.fault == "ended" else 1
        return {"memory": {"budget_bytes": budget}, "models": {self.served_name: {"pid": pid}}}

    async def complete(self, body: dict[str, Any], caller: int = 0) -> Answer:
        await asyncio.sleep(0)
        if self.taken and self.fault == "refused":
            raise Refusal(503, "memory is short")
        token = {"bytes": [65], "logprob": -0.1 - self.taken * (self.fault == "wrong")}
        return Answer("A", [token | {"top_logprobs": [token]}])

    async def ask(self, path: str, body: dict[str, Any], caller: int = 0) -> Any:
        if self.taken:
            raise Refusal(503, "memory is short")


@pytest.mark.parametrize(
    ("fault", "status", "told"),
    [
        ("", "ok", "another program took 7 bytes"),
        ("refused", "left out", "21 of 21 others were told that memory is short"),
        ("wrong", "problem", "log-probability changes by 1"),
        ("ended", "problem", "the model's process ended"),
    ],
)
def test_memory_is_taken(fault: str, status: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Pressed(fault)

    @asynccontextmanager
    async def taken() -> AsyncIterator["asyncio.Task[int]"]:
        async def take() -> int:
            await asyncio.sleep(0)
            subject.taken = True
            return 7

        yield asyncio.create_task(take())

    monkeypatch.setattr(memory, "_memory_taken", taken)
    monkeypatch.setattr(memory, "_NOTICE_SECONDS", 0)
    found = prove(memory.check_memory_taken, subject)
    assert (found[0], told in found[1]) == (status, True), found
