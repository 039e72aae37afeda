"""Work without end, or without bounds, ends with an error for its caller, while others' requests are answered."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil
import pytest

from orchard.backends.text.prompt import chat_template, documents
from orchard.backends.text.prompt.documents import DocumentReader
from orchard.backends.text.service import TextService
from orchard.backends.vision.service import VisionService
from orchard.core.events import Failed, Finished
from orchard.core.media import MediaPart
from orchard.core.tasks.generate import Generate, Message, TextPart
from tests.support.bombs import film_of, jpeg_of_scans
from tests.support.documents import pdf
from tests.support.examples import some
from tests.support.hostile_pdfs import hostile_pdfs, nested_forms
from tests.support.models import model_folder
from tests.support.random_pdfs import random_pdf
from tests.support.vision_models import vision_folder
from tests.support.worker_caller import Caller, serving

__all__ = ["model_folder", "vision_folder"]

PARAM = "messages[0].content[0].file.file_data"


def ask(*parts: TextPart | MediaPart) -> Generate:
    return Generate((Message("user", parts or (TextPart("Hello"),)),), max_tokens=2)


def document(data: bytes) -> Generate:
    return ask(MediaPart("document", "", PARAM, data=data))


def reader(caller: Caller) -> DocumentReader:
    return caller.service._prompter._documents


async def read_beside_others(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Let a service read PDFs, one after the other; see that each is refused or read, and that no process is left."""
    before = set(psutil.Process().children())
    async with serving(folder) as caller:
        reader(caller)._process.limits = documents.LIMITS._replace(cpu_seconds=0.3)
        for name, data in files:
            hostile, other = await asyncio.gather(caller.stream(name, document(data)), caller.ask("other", ask()))
            assert other.choices
            assert len(set(psutil.Process().children()) - before) <= 1, name
            if isinstance(end := hostile[-1], Finished):
                continue
            assert isinstance(end, Failed), name
            if end.kind != "context_length_exceeded":  # it was read, and its text is long
                assert (end.kind, end.param) == ("invalid_request", PARAM), name
                assert end.message.startswith(f"`{PARAM}` can't be read: "), name
        assert (await caller.ask("innocent", document(pdf("The sea is blue.")))).choices
    assert set(psutil.Process().children()) <= before


async def test_hostile_documents_are_refused_or_read_beside_other_requests(model_folder: Path) -> None:
    await read_beside_others(model_folder, hostile_pdfs().items())


@pytest.mark.timeout(1200)
async def test_random_documents_are_refused_or_read_beside_other_requests(model_folder: Path) -> None:
    numbers = some(range(200), 35)  # one of each kind in the fast profile
    await read_beside_others(model_folder, ((str(number), random_pdf(number)) for number in numbers))


async def test_a_document_that_nobody_waits_for_is_given_up(model_folder: Path) -> None:
    async with serving(model_folder) as caller:
        caller.submit("endless", document(nested_forms(depth=14, width=10, pages=900)))
        while not (running := reader(caller)._process._last):
            await caller.ask("other", ask())
        process = psutil.Process(running.process.pid)
        assert (await caller.ask("another", ask())).choices
        assert not caller.ended("endless")
        caller.service.cancel("endless")
        assert (await caller.ask("innocent", document(pdf("The sea is blue.")))).choices
        assert not process.is_running()


async def test_a_service_that_closes_leaves_no_process(model_folder: Path) -> None:
    async with serving(model_folder) as caller:
        await caller.ask("document", document(pdf("The sea is blue.")))
        running = reader(caller)._process._last
        assert running
        caller.submit("endless", document(nested_forms(depth=14, width=10, pages=900)))
        await caller.ask("other", ask())
    assert not psutil.pid_exists(running.process.pid)


async def test_text_alone_starts_no_process(model_folder: Path) -> None:
    before = set(psutil.Process().children())
    async with serving(model_folder) as caller:
        await caller.ask("text", document(b"The sea is blue."))
        assert set(psutil.Process().children()) == before


async def test_a_frame_that_takes_hours_is_given_up_beside_other_requests(
    vision_folder: Callable[[str], Path],
) -> None:
    film = MediaPart("video", "", PARAM, data=film_of(jpeg_of_scans(4000, 3000, 20_000)))
    async with serving(vision_folder("qwen2_5_vl"), VisionService) as caller:
        media = caller.service._prompter._media
        assert media
        films = media._reader._films._process
        films.limits = films.limits._replace(seconds=1.0)
        failure, other = await asyncio.gather(caller.failure("film", ask(film)), caller.ask("other", ask()))
        assert other.choices
        assert (failure.kind, failure.param) == ("invalid_request", PARAM)
        assert "could not be decoded within 1 seconds" in failure.message


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "did not finish within"),
        ("{% for a in range(100000) %}{{ 'a' * 10000 }}{% endfor %}", "more than 67,108,864 characters"),
        ("{{ 'a' * 10 ** 12 }}", "more than 67,108,864 characters"),
        ("{{ 10 ** (10 ** 9) }}", "a number of more than"),
    ],
)
async def test_an_endless_template_is_ended_and_blames_the_messages(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch, template: str, words: str
) -> None:
    monkeypatch.setattr(chat_template, "_RENDER_SECONDS", 2.0)
    async with serving(model_folder) as caller:
        hostile: TextService = caller.service
        condition = "{% if messages[0].content == 'attack' %}" + template + "{% else %}Hi{% endif %}"
        hostile._prompter.template._hf.chat_template = condition
        failure = await caller.failure("attack", ask(TextPart("attack")))
        assert (failure.kind, failure.param) == ("invalid_request", "messages")
        assert words in failure.message
        assert (await caller.ask("other", ask())).choices
