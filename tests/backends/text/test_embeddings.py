"""Embeddings of a model that generates text: of real ones, and with an engine that does only what the test says."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from orchard.backends.text import service as service_module
from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.errors import OrchardError
from orchard.core.events import Finished, Output, Started, Usage
from orchard.core.media import MediaPart
from orchard.core.request import Request
from orchard.core.tasks.embed import Embed, Embedding, MixedInput
from orchard.core.tasks.generate import Generate, Message, Sampling, TextPart
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import HiddenState, JobFailure, JobStart
from tests.support.models import WINDOW
from tests.support.stub_engine import StubEngine
from tests.support.worker_caller import Caller, serving

WIDTH = 32
PICTURE = MixedInput((TextPart("a"), MediaPart("image", "", "input[1].image_url", data=b"any")))
TEXTS = ("Hello, how are you?", "The sea is blue.", "x", " ".join(["fine"] * 100))


@pytest.fixture
async def caller(model_folder: Path) -> AsyncIterator[Caller]:
    """The tiny random model."""
    async with serving(model_folder, warm=True, embeddings=True, decode_concurrency=3) as caller:
        yield caller


@pytest.fixture
async def stubbed(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Caller, StubEngine]]:
    """The tiny model with an engine that does nothing itself."""
    monkeypatch.setattr(StubEngine, "made", [])
    monkeypatch.setattr(service_module, "Engine", StubEngine)
    async with serving(model_folder, embeddings=True) as caller:
        (engine,) = StubEngine.made
        yield caller, engine


@pytest.fixture
async def asked(stubbed: tuple[Caller, StubEngine]) -> tuple[Caller, StubEngine]:
    """The same, asked for the vectors of 20 texts, of which eight are jobs."""
    caller, engine = stubbed
    caller.submit("a", Embed(("a",) * 20))
    await engine.until({"a/7"})
    return caller, engine


def vector_of(output: Output) -> Any:
    return np.frombuffer(output.read(Embedding).vector, "<f4")


async def vectors(caller: Caller, name: str, task: Embed) -> list[Any]:
    collected = await caller.ask(name, task)
    made = sorted(collected.outputs, key=lambda output: output.choice)
    assert [output.choice for output in made] == list(range(len(task.inputs)))
    return [vector_of(output) for output in made]


def expected(folder: Path, tokens: list[int]) -> Any:
    model = load_text_model(str(folder), TextOptions(embeddings=True))
    hidden = np.array(model.hidden_states(mx.array([tokens], mx.uint32), model.new_cache())[0, -1])
    return hidden / np.linalg.norm(hidden)


async def test_vectors_are_last_hidden_states_of_length_one(
    caller: Caller, model: TextModel, model_folder: Path
) -> None:
    tokens = [model.tokenizer.encode(text) for text in TEXTS]
    for form in (TEXTS, tuple(map(tuple, tokens))):
        events = await caller.stream(f"{form is TEXTS}", Embed(form))
        count = sum(map(len, tokens))
        assert events[0] == Started(count)
        assert events[-1] == Finished((), Usage(count, 0, units=len(TEXTS)))
        made = {event.choice: vector_of(event) for event in events if isinstance(event, Output)}
        for number, one in enumerate(tokens):
            assert made[number] == pytest.approx(expected(model_folder, one), abs=1e-5)
    await caller.until_free()


async def test_beside_an_answer_both_are_as_alone(caller: Caller) -> None:
    task = Generate(prompt="The sea", sampling=Sampling(temperature=0.0), max_tokens=30)
    alone, wanted = await caller.ask("a", task), await vectors(caller, "b", Embed(TEXTS * 6))
    both = await asyncio.gather(caller.ask("c", task), vectors(caller, "d", Embed(TEXTS * 6)))
    assert both[0].choices[0].text == alone.choices[0].text
    assert np.allclose(both[1], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("task", "param", "message"),
    [
        (Embed(("a",), dimensions=WIDTH + 1), "dimensions", f"must be {WIDTH}"),
        (Embed(("a",), prompt_name="query"), "prompt_name", "must be left out: models that generate text"),
        (Embed(("a", PICTURE)), "input[1].image_url", "Images can't be read by this model"),
        (Embed(("a", (1, 10**6))), "input[1]", "1000000 is not a token id"),
        (Embed(("fine " * WINDOW,)), "input", rf"has (at least )?\d+ tokens; this model reads at most {WINDOW}"),
        (Embed(("a", (1,) * (WINDOW + 1))), "input[1]", f"has {WINDOW + 1} tokens; this model reads at most"),
    ],
)
async def test_what_is_refused(caller: Caller, task: Embed, param: str, message: str) -> None:
    with pytest.raises(OrchardError, match=message) as caught:
        await caller.ask("a", task)
    assert caught.value.param == param
    await caller.until_free()


async def test_its_own_width_is_no_error(caller: Caller) -> None:
    assert len((await vectors(caller, "a", Embed(("a",), dimensions=WIDTH)))[0]) == WIDTH


async def test_what_is_as_long_as_the_window_is_read_and_what_is_longer_can_be_cut(caller: Caller) -> None:
    (whole,) = await vectors(caller, "a", Embed(((7,) * WINDOW,)))
    (cut,) = await vectors(caller, "b", Embed(((7,) * (WINDOW + 9),), truncate=True))
    assert cut == pytest.approx(whole, abs=1e-6)
    text = "fine " * WINDOW * 3
    tokens = tuple(caller.service._prompter._tokenizer.encode(text)[:WINDOW])
    assert np.allclose(
        await vectors(caller, "c", Embed((text,), truncate=True)),
        await vectors(caller, "d", Embed((tokens,))),
        atol=1e-6,
    )


async def test_the_options_say_whether_texts_are_cut_unless_the_request_does(model_folder: Path) -> None:
    async with serving(model_folder, warm=True, embeddings=True, embeddings_truncate=True) as caller:
        assert len(await vectors(caller, "a", Embed(((7,) * (WINDOW + 9), "fine " * WINDOW)))) == 2
        with pytest.raises(OrchardError, match="this model reads at most"):
            await caller.ask("b", Embed(((7,) * (WINDOW + 9),), truncate=False))


async def test_a_conversation_is_read_up_to_where_an_answer_would_begin(caller: Caller, model: TextModel) -> None:
    asked = Generate((Message("user", (TextPart("The sea?"),)),))
    text = "<|im_start|>user\nThe sea?<|im_end|>\n<|im_start|>assistant\n"
    begun = Generate((*asked.messages, Message("assistant", (TextPart("Blue"),))), continue_last=True)
    found = [(await vectors(caller, name, Embed((one,))))[0] for name, one in (("a", asked), ("b", begun))]
    tokens = [tuple(model.tokenizer.encode(one, add_special_tokens=False)) for one in (text, f"{text}Blue")]
    assert np.allclose(found, await vectors(caller, "c", Embed(tuple(tokens))), atol=1e-6)
    long = Generate((Message("user", (TextPart("fine " * WINDOW),)),))
    with pytest.raises(OrchardError, match="maximum context length") as caught:
        await caller.ask("d", Embed((long,), truncate=True))
    assert caught.value.param == "messages"


def state(job: str) -> HiddenState:
    return HiddenState(job, np.array([3.0, *[0.0] * (WIDTH - 2), 4.0], np.float32))


async def test_a_few_inputs_of_a_request_at_a_time(stubbed: tuple[Caller, StubEngine]) -> None:
    caller, engine = stubbed
    caller.events["a"] = []
    caller.service.submit(Request("a", "tiny", Embed(("a",) * 20), "background"))
    await engine.until({"a/7"})
    assert {job.priority for job in engine.jobs} == {"background"}
    assert [job.id for job in engine.jobs] == [f"a/{number}" for number in range(8)]
    assert all(job.wants_hidden_state and job.max_tokens == 1 for job in engine.jobs)
    engine.step(begun=tuple(JobStart(f"a/{number}", 0) for number in range(4)), running=4)
    await caller.until(lambda: caller.numbers[-1] == (1, 0))  # one request, however many jobs
    engine.step(hidden=(state("a/2"), state("a/0")), running=2)
    await engine.until({"a/8", "a/9"})
    assert len(engine.jobs) == 10
    found = [event for event in caller.events["a"] if isinstance(event, Output)]
    assert [output.choice for output in found] == [2, 0]
    assert vector_of(found[0])[[0, -1]] == pytest.approx([0.6, 0.8])


async def test_a_paused_request_has_no_more_jobs(asked: tuple[Caller, StubEngine]) -> None:
    caller, engine = asked
    caller.service.pause("a")
    assert {f"a/{number}" for number in range(8)} <= set(engine.paused)
    engine.step(begun=(JobStart("a/0", 0),), hidden=(state("a/0"),))
    await caller.until(lambda: len(caller.events["a"]) == 2)
    assert len(engine.jobs) == 8
    engine.paused.remove("a/0")
    caller.service.resume("a")
    assert not engine.paused
    assert len(engine.jobs) == 9


async def test_a_cancelled_request_takes_its_jobs_with_it(asked: tuple[Caller, StubEngine]) -> None:
    caller, engine = asked
    caller.service.cancel("a")
    assert {f"a/{number}" for number in range(8)} <= set(engine.cancelled)
    engine.step(begun=(JobStart("a/0", 0),), hidden=(state("a/0"),), running=0)
    await caller.until_free()
    assert caller.events["a"] == []
    assert len(engine.jobs) == 8


async def test_a_broken_job_ends_its_request(asked: tuple[Caller, StubEngine]) -> None:
    caller, engine = asked
    engine.step(broken=(JobFailure("a/3", "it needs more", too_large=True),), running=0)
    await caller.until(lambda: caller.ended("a"))
    (failed,) = caller.events["a"]
    assert failed.kind == "context_length_exceeded"  # type: ignore[union-attr]
    assert {"a/0", "a/7"} <= set(engine.cancelled)
    await caller.until_free()
