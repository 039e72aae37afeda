"""The service: requests of many callers in the same passes, and what becomes of each of them."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import replace

from orchard.backends.embeddings import service as service_module
from orchard.backends.embeddings.embedder import Embedder, EmbeddingsService
from orchard.backends.embeddings.networks import PassCost
from orchard.backends.embeddings.reranker import RerankService
from orchard.backends.embeddings.service import BatchService, PassModel, TokenizedText
from orchard.backends.service import MemoryUse, Progress
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output, Started
from orchard.core.media import MediaPart
from orchard.core.request import Priority, Request, Sender
from orchard.core.tasks.batch_options import BatchOptions
from orchard.core.tasks.embed import Embed, Embedding, EmbeddingOptions, MixedInput
from orchard.core.tasks.generate import Generate, Message, TextPart
from orchard.core.tasks.rerank import Relevance, Rerank, RerankOptions
from tests.support.embedding_models import make_model

ENDS = (Finished, Failed)


class Asked:
    """Submits requests to a service, and waits for what is emitted."""

    def __init__(self, service: Any) -> None:
        self.service = service
        self.events: dict[str, list[Event]] = {}
        self.numbers = (0, 0)
        self._news = asyncio.Event()

    def emit(self, events: list[tuple[str, list[Event]]], running: int, waiting: int) -> None:
        for request_id, found in events:
            self.events.setdefault(request_id, []).extend(found)
        self.numbers = running, waiting
        self._news.set()

    async def until(self, test: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not test():
                self._news.clear()
                await self._news.wait()

    def submit(self, request_id: str, task: Any, priority: Priority = "normal", caller: str = "") -> None:
        self.service.submit(Request(request_id, "m", task, priority, sender=Sender(caller)))

    async def all_read(self) -> None:
        """Wait until the texts of all requests are tokenised."""
        await asyncio.wait([live.reading for live in self.service._live.values()])

    def ended(self, request_id: str) -> bool:
        return any(isinstance(event, ENDS) for event in self.events.get(request_id, [])[-1:])

    async def ask(self, request_id: str, task: Any) -> list[Event]:
        self.submit(request_id, task)
        await self.until(lambda: self.ended(request_id))
        return self.events[request_id]

    async def vectors(self, request_id: str, task: Any) -> Any:
        events = await self.ask(request_id, task)
        assert isinstance(events[0], Started), events
        outputs = sorted((event for event in events if isinstance(event, Output)), key=lambda event: event.choice)
        assert [event.choice for event in outputs] == list(range(len(outputs)))
        return np.array([np.frombuffer(event.read(Embedding).vector, "<f4") for event in outputs])

    async def scores(self, request_id: str, task: Rerank) -> list[float]:
        events = await self.ask(request_id, task)
        assert isinstance(events[0], Started), events
        outputs = sorted((event for event in events if isinstance(event, Output)), key=lambda event: event.choice)
        return [event.read(Relevance).score for event in outputs]

    async def failure(self, request_id: str, task: Any) -> Failed:
        (last,) = await self.ask(request_id, task)
        assert isinstance(last, Failed)
        return last


async def started(service: Any) -> Asked:
    asked = Asked(service)
    await service.start(asked.emit, lambda fraction: None)
    return asked


# A model that computes as the test says: a text is its tokens' sum.


class StubResult(Struct):
    total: int


class StubModel(PassModel):
    result_bytes = 4

    def __init__(self) -> None:
        self.passes: list[list[int]] = []
        self.gate: Callable[[], object] = lambda: None

    def read_task(self, task: Any) -> list[TokenizedText]:
        if "unreadable" in task.inputs:
            raise OrchardError("invalid_request", "no", param="input[0]")
        if "broken" in task.inputs:
            raise ValueError("a bug")
        return [TokenizedText(tokens) for tokens in task.inputs]

    def cost(self, rows: int, length: int) -> int:
        return rows * length

    def compute(self, texts: Sequence[TokenizedText]) -> list[int]:
        totals = [sum(text.tokens) for text in texts]
        if any(totals):  # not the one at the start
            self.passes.append(totals)
            self.gate()
        if len(texts) * max(totals) >= 5000:
            raise RuntimeError("[malloc] Unable to allocate 8 bytes.")
        if 666 in totals:
            raise RuntimeError("the device is gone")
        return totals

    def result(self, task: Any, found: int) -> Struct:
        return StubResult(found)


class StubService(BatchService[BatchOptions]):
    model = StubModel()

    @staticmethod
    def _load(path: Path, options: BatchOptions, progress: Progress, beat: Callable[[], None]) -> PassModel:
        progress(1.0)
        return StubService.model


@pytest.fixture
async def stub(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    monkeypatch.setattr(StubService, "model", StubModel())
    asked = await started(StubService("", BatchOptions(queue_size=3, batch_tokens=8)))
    yield asked
    await asked.service.close(0)


class Gate:
    """Holds the first pass until it is opened."""

    def __init__(self, model: StubModel) -> None:
        self.reached, self._open = threading.Event(), threading.Event()
        model.gate = self

    def __call__(self) -> None:
        self.reached.set()
        assert self._open.wait(60)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 60)

    def open(self) -> None:
        self._open.set()


async def test_requests_that_wait_share_the_next_pass(stub: Asked) -> None:
    gate = Gate(stub.service.model)
    stub.submit("first", Embed(((1,),)))
    await gate.wait()
    for name in "ab":
        stub.submit(name, Embed(((10, 1), (20, 2))))
    await stub.until(lambda: stub.numbers == (1, 2))
    await stub.all_read()
    await asyncio.sleep(0)
    gate.open()
    await stub.until(lambda: stub.ended("a") and stub.ended("b"))
    assert [sorted(one) for one in stub.service.model.passes] == [[1], [11, 11, 22, 22]]
    *_, last = stub.events["a"]
    assert isinstance(last, Finished)
    assert (last.reasons, last.usage.prompt_tokens, last.usage.units) == ((), 4, 2)
    assert stub.numbers == (0, 0)


async def test_texts_of_a_cancelled_request_are_not_computed(stub: Asked) -> None:
    gate = Gate(stub.service.model)
    stub.submit("a", Embed(tuple((5,) * 8 for _ in range(3))))
    await gate.wait()
    stub.service.cancel("a")
    stub.service.cancel("a")
    gate.open()
    await stub.ask("b", Embed(((1,),)))
    assert stub.service.model.passes == [[40], [1]]
    assert [type(event) for event in stub.events["a"]] == [Started]


async def test_a_paused_request_goes_on_when_it_is_resumed(stub: Asked) -> None:
    gate = Gate(stub.service.model)
    stub.submit("a", Embed(tuple((5,) * 8 for _ in range(3))))
    await gate.wait()
    stub.service.pause("a")
    gate.open()
    await stub.ask("b", Embed(((1,),)))
    assert stub.service.model.passes == [[40], [1]]
    stub.service.resume("a")
    await stub.until(lambda: stub.ended("a"))
    assert stub.service.model.passes == [[40], [1], [40], [40]]


async def test_a_failure_ends_the_requests_of_its_pass_alone(stub: Asked) -> None:
    gate = Gate(stub.service.model)
    stub.submit("first", Embed(((1,),)))
    await gate.wait()
    stub.submit("bad", Embed(((600, 66), (1,) * 8)))
    stub.submit("beside", Embed(((3, 4),)))
    await stub.all_read()
    await asyncio.sleep(0)
    gate.open()
    await stub.until(lambda: stub.ended("bad") and stub.ended("beside"))
    for name in ("bad", "beside"):
        failed = stub.events[name][-1]
        assert isinstance(failed, Failed)
        assert failed.kind == "internal"
    assert isinstance((await stub.ask("next", Embed(((2,),))))[-1], Finished)


async def test_a_pass_for_which_memory_is_short_is_halved(stub: Asked) -> None:
    gate = Gate(stub.service.model)
    stub.submit("first", Embed(((1,),)))
    await gate.wait()
    stub.submit("a", Embed(((2000,), (2001,), (2002,))))
    stub.submit("bad", Embed(((2003,), (6000,))))
    await stub.all_read()
    await asyncio.sleep(0)
    gate.open()
    await stub.until(lambda: stub.ended("a") and stub.ended("bad"))
    made = {event.choice: event.read(StubResult).total for event in stub.events["a"] if isinstance(event, Output)}
    assert made == {0: 2000, 1: 2001, 2: 2002}
    assert isinstance(stub.events["a"][-1], Finished)
    failed = stub.events["bad"][-1]
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.retry_after) == ("insufficient_memory", 5)
    assert stub.service.model.passes.count([6000]) == 2
    assert isinstance((await stub.ask("next", Embed(((2,),))))[-1], Finished)


async def test_what_cannot_be_read_is_an_error_of_that_request(stub: Asked) -> None:
    failed = await stub.failure("a", Embed(("unreadable",)))
    assert (failed.kind, failed.param) == ("invalid_request", "input[0]")
    assert (await stub.failure("b", Embed(("broken",)))).kind == "internal"
    assert stub.numbers == (0, 0)


async def test_more_requests_than_the_queue_takes_are_refused(stub: Asked) -> None:
    gate = Gate(stub.service.model)
    for name in "abc":
        stub.submit(name, Embed(((1,),)))
    assert (await stub.failure("d", Embed(((1,),)))).kind == "overloaded"
    stub.submit("e", Embed(((1,),)), caller="ben")
    gate.open()
    await stub.until(lambda: stub.ended("e"))
    assert isinstance(stub.events["e"][0], Started)


async def test_passes_stay_below_the_memory_limit(stub: Asked) -> None:
    service = stub.service
    service.limit_memory(service._weights_bytes + 6, service._weights_bytes + 6)
    failed = await stub.failure("a", Embed(((1,) * 7,)))
    assert failed.kind == "context_length_exceeded"
    await stub.ask("b", Embed(((1, 1),) * 4))
    assert [len(one) for one in service.model.passes] == [3, 1]


async def test_a_pass_has_fewer_texts_after_memory_ran_out() -> None:
    asked = await started(StubService("", BatchOptions(batch_tokens=128, halvings=1)))
    await asked.ask("a", Embed(((1,) * 32,) * 4))
    assert [len(one) for one in asked.service.model.passes] == [2, 2]
    await asked.service.close(0)


def test_a_gpu_reads_more_texts_in_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    service = StubService("", BatchOptions())
    service._model = StubModel()
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.cpu))
    assert not service._fits(32, 100)
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu))
    assert service._fits(32, 100)


async def test_wired_memory_is_limited_to_the_models_share(wired: list[int]) -> None:
    asked = await started(StubService("", BatchOptions(memory_limit=2**34)))
    asked.service.limit_memory(2**33, 2**33)
    await asked.service.close(0)
    assert wired == [2**34, 2**33]


async def test_a_text_that_is_too_long_for_the_memory_of_now_waits_for_more(stub: Asked) -> None:
    service = stub.service
    service.limit_memory(service._weights_bytes + 6, service._weights_bytes + 9)
    stub.submit("long", Embed(((1,) * 7,)))
    assert (await stub.failure("longer", Embed(((1,) * 10,)))).kind == "context_length_exceeded"
    await stub.ask("short", Embed(((1, 1),)))
    service.pause("long")
    assert service.starved_requests() == []
    assert service.memory_use() == MemoryUse(service._weights_bytes)
    service.resume("long")
    stub.submit("later", Embed(((1,) * 9,)))
    await stub.all_read()
    assert service.starved_requests() == ["long", "later"]
    assert not stub.ended("long")
    wanted = service.memory_use().wanted_bytes
    assert wanted == service._weights_bytes + 7
    service.limit_memory(wanted, service._weights_bytes + 9)
    await stub.until(lambda: stub.ended("long"))
    assert isinstance(stub.events["long"][-1], Finished)
    assert service.starved_requests() == ["later"]
    assert service.memory_use().wanted_bytes == service._weights_bytes + 9
    service.limit_memory(service._weights_bytes + 9, service._weights_bytes + 9)
    await stub.until(lambda: stub.ended("later"))
    assert service.starved_requests() == []
    assert service.memory_use().wanted_bytes == 0


async def test_results_of_a_pass_are_bounded(stub: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_MOST_BYTES", 8)
    await stub.ask("a", Embed(((1,),) * 5))
    assert [len(one) for one in stub.service.model.passes] == [2, 2, 1]


async def test_a_long_pass_is_a_sign_of_life_only_from_its_last_layer_on(stub: Asked) -> None:
    gate = Gate(stub.service.model)
    assert stub.service.heartbeat().silent_seconds == 0
    stub.submit("a", Embed(((1,),)))
    await gate.wait()
    assert stub.service.heartbeat().silent_seconds > 0
    gate.open()
    await stub.until(lambda: stub.ended("a"))


# Embedding models


@pytest.fixture
async def bert(tmp_path: Path) -> AsyncIterator[Asked]:
    folder = make_model(tmp_path, "bert", sentence_bert_config={"max_seq_length": 12})
    asked = await started(EmbeddingsService(str(folder), EmbeddingOptions()))
    yield asked
    await asked.service.close(0)


async def test_texts_and_tokens_give_the_same_vectors(bert: Asked) -> None:
    given = ("w20 w21 w22", (1, 20, 21, 22, 2), "w30", (1, 30, 2))
    vectors = await bert.vectors("a", Embed(given))
    assert vectors[0] == pytest.approx(vectors[1], abs=1e-5)
    assert vectors[2] == pytest.approx(vectors[3], abs=1e-5)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    finished = bert.events["a"][-1]
    assert isinstance(finished, Finished)
    assert (finished.usage.prompt_tokens, finished.usage.units) == (16, 4)


PICTURE = MediaPart("image", "", "input[1].image_url", data=b"any")


def conversation(part: TextPart | MediaPart) -> Generate:
    return Generate((Message("user", (part,)),))


@pytest.mark.parametrize(
    ("task", "kind", "param", "words"),
    [
        (Embed(("w20", "w20 " * 11)), "context_length_exceeded", "input[1]", "13 tokens; this model reads at most 12"),
        (Embed(((20,) * 13,)), "context_length_exceeded", "input", "13 tokens"),
        (Embed(("w20", MixedInput((PICTURE,)))), "invalid_request", PICTURE.param, "Images can't be read"),
        (
            Embed((conversation(PICTURE),)),
            "invalid_request",
            PICTURE.param,
            "Images can't be read",
        ),
        (
            Embed((conversation(TextPart("a")),)),
            "invalid_request",
            "messages",
            "only models that generate text make embeddings of conversations",
        ),
        (Embed(((5, 64),)), "invalid_request", "input", "this model's tokens are 0 to 63"),
        (
            Embed(("w20",), dimensions=8),
            "invalid_request",
            "dimensions",
            "must be 16: this model may not give fewer. `is_matryoshka`",
        ),
        (
            Embed(("w20",), prompt_name="query"),
            "invalid_request",
            "prompt_name",
            "must be left out: there are none in the `prompts` of",
        ),
    ],
)
async def test_bad_requests(bert: Asked, task: Embed, kind: str, param: str, words: str) -> None:
    failed = await bert.failure("a", task)
    assert (failed.kind, failed.param) == (kind, param)
    assert words in failed.message


async def test_what_is_too_long_is_cut_where_the_request_says_so(bert: Asked) -> None:
    long = "w20 " * 30
    vectors = await bert.vectors("a", Embed((long, (1, *[20] * 10, 2), (20,) * 30, (20,) * 12), truncate=True))
    assert vectors[0] == pytest.approx(vectors[1], abs=1e-5), "the special tokens at the end stay"
    assert vectors[2] == pytest.approx(vectors[3], abs=1e-5)


async def test_what_is_too_long_is_cut_where_the_options_say_so_unless_the_request_says_otherwise(
    tmp_path: Path,
) -> None:
    folder = make_model(tmp_path, "bert", sentence_bert_config={"max_seq_length": 12})
    asked = await started(EmbeddingsService(str(folder), EmbeddingOptions(embeddings_truncate=True)))
    vectors = await asked.vectors("a", Embed(("w20 " * 30, (1, *[20] * 10, 2), (20,) * 30, (20,) * 12)))
    assert vectors[0] == pytest.approx(vectors[1], abs=1e-5)
    assert vectors[2] == pytest.approx(vectors[3], abs=1e-5)
    failed = await asked.failure("b", Embed(("w20 " * 30,), truncate=False))
    assert (failed.kind, failed.param) == ("context_length_exceeded", "input")
    await asked.service.close(0)


async def test_prompts_and_fewer_dimensions(tmp_path: Path) -> None:
    told = {"prompts": {"query": "w40 w41 ", "document": ""}, "default_prompt_name": "query"}
    folder = make_model(tmp_path, "qwen3", config_sentence_transformers=told)
    asked = await started(EmbeddingsService(str(folder), EmbeddingOptions()))
    (whole,) = await asked.vectors("a", Embed(("w20",)))
    (same,) = await asked.vectors("b", Embed(("w40 w41 w20",), prompt_name="document"))
    assert whole == pytest.approx(same, abs=1e-5)
    (cut,) = await asked.vectors("c", Embed(("w20",), dimensions=4))
    assert cut == pytest.approx(whole[:4] / np.linalg.norm(whole[:4]), abs=1e-5)
    failed = await asked.failure("d", Embed(("w20",), dimensions=17))
    assert "at most 16" in failed.message
    assert (
        "one of 'document', 'query', which are in the `prompts` of the model's config_sen"
        in (await asked.failure("e", Embed(("w20",), prompt_name="q"))).message
    )
    await asked.service.close(0)


@pytest.mark.parametrize(
    ("matryoshka", "config", "dimensions", "words"),
    [
        (True, {}, 3, None),
        (None, {"is_matryoshka": True}, 3, None),
        (None, {"matryoshka_dimensions": [8, 4]}, 4, None),
        (None, {"matryoshka_dimensions": [8, 4]}, 3, "16 or one of 4, 8, the `matryoshka_dimensions` that"),
        (False, {"is_matryoshka": True}, 3, "must be 16"),
    ],
)
async def test_who_gives_fewer_dimensions(
    tmp_path: Path, matryoshka: bool | None, config: dict[str, Any], dimensions: int, words: str | None
) -> None:
    folder = make_model(tmp_path, "bert")
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    asked = await started(EmbeddingsService(str(folder), EmbeddingOptions(matryoshka=matryoshka)))
    task = Embed(("w20",), dimensions=dimensions)
    if words:
        assert words in (await asked.failure("a", task)).message
    else:
        assert (await asked.vectors("a", task)).shape == (1, dimensions)
    await asked.service.close(0)


async def test_large_passes_tell_of_each_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[None] = []
    model = EmbeddingsService._load(
        make_model(tmp_path, "bert"), EmbeddingOptions(), lambda fraction: None, lambda: beats.append(None)
    )
    model.compute([TokenizedText([5] * 60)] * 34)
    assert not beats
    model.compute([TokenizedText([5] * 60)] * 35)
    assert len(beats) == 3


@pytest.mark.parametrize("name", ["bert", "modernbert", "qwen3", "gemma3_text"])
@pytest.mark.parametrize(("rows", "length"), [(1, 60), (30, 20), (60, 60)])
def test_the_estimate_of_a_pass_is_above_what_it_takes(name: str, rows: int, length: int, tmp_path: Path) -> None:
    model = EmbeddingsService._load(make_model(tmp_path, name), EmbeddingOptions(), lambda fraction: None, lambda: None)
    assert isinstance(model, Embedder)
    texts = [TokenizedText([5] * length)] * rows
    model.compute(texts)
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    model.compute(texts)
    taken = mx.get_peak_memory() - before
    assert taken <= model.cost(rows, length) + 2**18
    assert isinstance(model._cost, PassCost)


# Rerankers


async def scores(folder: Path, task: Rerank) -> list[float] | Failed:
    asked = await started(RerankService(str(folder), RerankOptions()))
    events = await asked.ask("a", task)
    await asked.service.close(0)
    if isinstance(events[-1], Failed):
        return events[-1]
    outputs = sorted((event for event in events if isinstance(event, Output)), key=lambda event: event.choice)
    return [event.read(Relevance).score for event in outputs]


TASK = Rerank(("w20 w21",), ("w30", "w31 w32 w33", "w34"))


async def test_a_classifier_reads_pairs(tmp_path: Path) -> None:
    folder = make_model(tmp_path, "bert_ranker")
    found = await scores(folder, TASK)
    assert isinstance(found, list)
    model = RerankService._load(folder, RerankOptions(), lambda fraction: None, lambda: None)
    pair = TokenizedText([1, 20, 21, 2, 31, 32, 33, 2], [0, 0, 0, 0, 1, 1, 1, 1])
    assert found[1] == pytest.approx(model.compute([pair])[0], abs=1e-5)
    assert found[1] != pytest.approx(model.compute([TokenizedText(pair.tokens, [0] * 8)])[0], abs=1e-5)
    assert all(0 < score < 1 for score in found)
    failed = await scores(folder, replace(TASK, instruction="find"))
    assert isinstance(failed, Failed)
    assert failed.param == "instruction"


async def test_a_language_model_reads_the_prompt_that_it_was_trained_with(tmp_path: Path) -> None:
    folder = make_model(tmp_path, "qwen3_ranker")
    found = await scores(folder, TASK)
    other = await scores(folder, replace(TASK, instruction="w50"))
    assert isinstance(found, list)
    assert found != other


async def test_a_query_leaves_room_for_documents_or_is_refused(tmp_path: Path) -> None:
    folder = make_model(tmp_path, "qwen3_ranker")
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"max_position_embeddings": 30}))
    for truncate in (False, True):
        failed = await scores(folder, replace(TASK, truncate=truncate))
        assert isinstance(failed, Failed)
        assert (failed.kind, failed.param) == ("context_length_exceeded", "query")


@pytest.fixture(params=["bert_ranker", "qwen3_ranker"])
async def ranker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Asked]:
    asked = await started(RerankService(str(make_model(tmp_path, request.param)), RerankOptions()))
    yield asked
    await asked.service.close(0)


LONG = Rerank(("w20",), ("w30 " * 80, "w30 " * 90))


async def test_documents_are_cut_unless_the_request_says_otherwise(ranker: Asked) -> None:
    failed = await ranker.failure("a", replace(LONG, truncate=False))
    assert (failed.kind, failed.param) == ("context_length_exceeded", "documents[0]")
    assert "`documents[0]` has 80 tokens; this model reads at most" in failed.message
    first, second = await ranker.scores("b", LONG)
    assert first == pytest.approx(second, abs=1e-5)
    assert await ranker.scores("c", replace(LONG, truncate=True)) == pytest.approx([first] * 2, abs=1e-5)


async def test_only_the_first_tokens_of_a_document_are_read(ranker: Asked) -> None:
    task = Rerank(("w20",), ("w30 w31 w32 w33", "w30 w31 w40", "w30 w31", "w30"), max_tokens=2)
    found = await ranker.scores("a", task)
    assert found[:2] == pytest.approx([found[2]] * 2, abs=1e-5)
    assert found[3] != pytest.approx(found[2], abs=1e-7)
    assert await ranker.scores("b", replace(task, truncate=False)) == pytest.approx(found, abs=1e-5)


async def test_each_piece_of_a_document_has_a_score(ranker: Asked) -> None:
    room = ranker.service._model._room - len(ranker.service._model._read_query(LONG, "w20", "query").tokens)
    pieces = [" ".join([word] * room) for word in ("w30", "w31", "w32")]
    wanted = await ranker.scores("a", Rerank(("w20",), tuple(pieces)))
    whole = Rerank(("w20",), (" ".join([*pieces, "w33"]), "w40"), pieces=3)
    events = await ranker.ask("b", whole)
    made = [(event.choice, event.read(Relevance).score) for event in events if isinstance(event, Output)]
    assert sorted(score for choice, score in made if choice == 0) == pytest.approx(sorted(wanted), abs=1e-5)
    assert [choice for choice, _ in made].count(1) == 1
    assert isinstance(finished := events[-1], Finished)
    assert finished.usage.units == 2
    failed = await ranker.failure("c", replace(whole, truncate=False))
    assert f"has {3 * room + 1} tokens; this model reads at most {3 * room} of" in failed.message
    cut = await ranker.scores("d", replace(whole, documents=(pieces[0] + " w31 w32",), max_tokens=room))
    assert cut == pytest.approx(wanted[:1], abs=1e-5)


async def test_pieces_are_limited(ranker: Asked) -> None:
    failed = await ranker.failure("a", Rerank(("w20",), ("w30 " * 1000,) * 2048, pieces=2))
    assert (failed.kind, failed.param) == ("invalid_request", "max_chunks_per_doc")


async def test_each_document_may_have_its_own_query(ranker: Asked) -> None:
    wanted = [(await ranker.scores(query, Rerank((query,), ("w30",))))[0] for query in ("w20", "w21 w22")]
    task = Rerank(("w20", "w21 w22"), ("w30", "w30"), query_param="text_1", document_param="text_2")
    assert await ranker.scores("a", task) == pytest.approx(wanted, abs=1e-5)
    failed = await ranker.failure("b", replace(task, queries=("w20", "w21 " * 90)))
    assert (failed.kind, failed.param) == ("context_length_exceeded", "text_1[1]")
    failed = await ranker.failure("c", replace(task, documents=("w30", "w30 " * 90), truncate=False))
    assert failed.param == "text_2[1]"


@pytest.mark.parametrize("words", [90, 100_000])
async def test_a_query_that_is_too_long_is_to_blame_itself(ranker: Asked, words: int) -> None:
    for truncate in (False, None):
        failed = await ranker.failure(f"{truncate}", Rerank(("w20 " * words,), ("w30",), truncate=truncate))
        assert (failed.kind, failed.param) == ("context_length_exceeded", "query")
        assert ("has at least" in failed.message) == (words == 100_000)


async def test_a_classifier_cuts_a_query_where_the_request_says_so(tmp_path: Path) -> None:
    folder = make_model(tmp_path, "bert_ranker")
    task = Rerank(("w20 " * 90,), ("w30",), truncate=True)
    cut = await scores(folder, task)
    assert isinstance(cut, list)
    assert cut == pytest.approx(await scores(folder, replace(task, queries=("w20 " * 30,))), abs=1e-5)
    assert cut == pytest.approx(await scores(folder, replace(task, queries=("w20 " * 100_000,))), abs=1e-5)


async def test_of_a_huge_document_only_the_beginning_is_read(ranker: Asked) -> None:
    huge = Rerank(("w20",), ("w30 " * 90, "w30 " * 100_000))
    failed = await ranker.failure("a", replace(huge, documents=huge.documents[1:], truncate=False))
    assert "`documents[0]` has at least" in failed.message
    first, second = await ranker.scores("b", huge)
    assert first == pytest.approx(second, abs=1e-5)


async def test_a_classifier_of_several_labels_is_refused(tmp_path: Path) -> None:
    folder = make_model(tmp_path, "bert_ranker")
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"id2label": {"0": "a", "1": "b"}}))
    with pytest.raises(OrchardError, match="can't be loaded"):
        await started(RerankService(str(folder), RerankOptions()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "llama"}, "'llama' is none of the architectures that are served for this: bert, "),
        ({"model_type": "qwen3_vl"}, "; with `model_type: multimodal` and `embeddings: true` it is served as a vision"),
        ({"hidden_act": "relu"}, "mlx-vlm has no activation function relu"),
        ({"num_hidden_layers": 4}, "its weights do not fit its config.json"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers is 1,000,000"),
    ],
)
async def test_folders_that_cannot_be_loaded(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    folder = make_model(tmp_path, "bert")
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(OrchardError, match="can't be loaded") as caught:
        await started(EmbeddingsService(str(folder), EmbeddingOptions()))
    assert words in caught.value.message
