"""The service of image models: the tests give it a pipeline that waits for them at every step."""

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from PIL import Image as Picture

from orchard.backends.images.drawing import Drawing, Pictures
from orchard.backends.images.pipeline import OnStep, Pipeline
from orchard.backends.images.presets import PRESETS
from orchard.backends.images.service import ImageService
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output, Progressed, Started, Usage
from orchard.core.media import MediaPart
from orchard.core.request import Priority, Request, Sender
from orchard.core.tasks.images import EditImages, GenerateImages, Image, ImageOptions, PartialImage, decode_image

STEPS = 4
CAT = GenerateImages(prompt="a cat", width=64, height=32, steps=STEPS, seed=5)


class Brush(Pipeline):
    """A pipeline whose every step waits for a permit; it notes what it draws."""

    def __init__(self) -> None:
        self.permits = threading.Semaphore(0)
        self.steps: list[tuple[str, int, int]] = []
        self.drawn: list[tuple[str, int]] = []
        self.pictures: list[Pictures] = []
        self.short = 0  # how often memory runs out

    can_describe = False

    def describe(self, text: str) -> str:
        self.steps.append((text, -1, -1))
        if text == "nonsense":
            raise OrchardError("invalid_request", "no JSON", param="prompt")
        return json.dumps({"scene": text})

    def check_prompts(self, drawing: Drawing) -> None:
        if drawing.prompt == "long":
            raise OrchardError("invalid_request", "it is too long", param="prompt")

    def draw(self, drawing: Drawing, pictures: Pictures, seed: int, on_step: OnStep) -> Picture.Image:
        image = Picture.new("RGB", (drawing.width, drawing.height), (seed % 256, 0, 0))
        if drawing.prompt in ("a tree", '{"scene": "a tree"}'):  # the load's
            on_step(1, lambda: image)
            return image
        self.pictures.append(pictures)
        for step in range(drawing.steps + 1):
            self.permits.acquire()
            self.steps.append((drawing.prompt, seed, step))
            if drawing.prompt == "boom":
                raise RuntimeError("no colours")
            if step == 2 and self.short:
                self.short -= 1
                raise RuntimeError("cudaMallocAsync(&data, size, stream) failed: out of memory")
            on_step(step, lambda step=step: Picture.new("RGB", image.size, (0, step, 0)))  # type: ignore[misc]
        self.drawn.append((drawing.prompt, seed))
        return image


class Running:
    """A service, and what it has told."""

    def __init__(self, folder: Path, options: ImageOptions) -> None:
        self.brush = Brush()
        service = type("Painter", (ImageService,), {"load_pipeline": lambda *_: self.brush})
        self.service: ImageService = service(str(folder), options)
        self.events: defaultdict[str, list[Event]] = defaultdict(list)
        self.numbers: list[tuple[int, int]] = []
        self._news = asyncio.Event()

    def emit(self, events: list[tuple[str, list[Event]]], running: int, waiting: int) -> None:
        for request_id, told in events:
            assert told, "nothing to tell is not told"
            self.events[request_id] += told
        self.numbers.append((running, waiting))
        self._news.set()

    async def until(self, test: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not test():
                self._news.clear()
                await self._news.wait()

    def submit(self, request_id: str, task: Any = CAT, priority: Priority = "normal", caller: str = "") -> None:
        self.service.submit(Request(request_id, "painter", task, priority, sender=Sender(caller)))

    async def checked(self, count: int) -> None:
        """Wait until so many requests may be drawn."""
        async with asyncio.timeout(30):
            while sum(order.drawing is not None for order in self.service._live.values()) < count:
                await asyncio.wait(self.service._checks)

    async def end(self, request_id: str) -> Event:
        self.permit()
        await self.until(lambda: any(isinstance(event, Finished | Failed) for event in self.events[request_id]))
        return self.events[request_id][-1]

    def permit(self, steps: int = 1000) -> None:
        self.brush.permits.release(steps)

    def outputs(self, request_id: str) -> list[tuple[int, Image | PartialImage]]:
        return [(event.choice, decode_image(event)) for event in self.events[request_id] if isinstance(event, Output)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": "FluxPipeline"}))
    (tmp_path / "transformer").mkdir()
    (tmp_path / "transformer" / "config.json").write_text(json.dumps({"guidance_embeds": False}))
    return tmp_path


@pytest.fixture
async def running(folder: Path) -> AsyncIterator[Running]:
    made = Running(folder, ImageOptions(queue_size=4))
    await made.service.start(made.emit, lambda fraction: None)
    yield made
    made.permit()
    await made.service.close(0)


async def test_images_come_one_after_the_other_with_their_seeds_and_progress(running: Running) -> None:
    running.submit("r", GenerateImages(prompt="a cat", width=64, height=32, steps=2, seed=5, n=2))
    assert await running.end("r") == Finished(("stop", "stop"), Usage(0, 0, units=2))
    events = running.events["r"]
    assert events[0] == Started(0)
    told = [(event.done, event.total) for event in events if isinstance(event, Progressed)]
    assert told == [(0, 4), (1, 4), (2, 4), (2, 4), (3, 4), (4, 4)]
    made = running.outputs("r")
    assert [(choice, image.width, image.height, image.seed) for choice, image in made if isinstance(image, Image)] == [
        (0, 64, 32, 5),
        (1, 64, 32, 6),
    ]
    for choice, image in made:
        assert Picture.open(BytesIO(image.data)).getpixel((0, 0)) == (5 + choice, 0, 0)
    assert running.numbers[-1] == (0, 0)


async def test_partial_images_are_those_of_their_steps(running: Running) -> None:
    running.submit("r", GenerateImages(prompt="a cat", width=64, height=32, steps=4, n=2, partial_images=3))
    await running.end("r")
    found = [(choice, image) for choice, image in running.outputs("r") if isinstance(image, PartialImage)]
    assert [(choice, image.index) for choice, image in found] == [(n, index) for n in range(2) for index in range(3)]
    colours = [Picture.open(BytesIO(image.data)).getpixel((0, 0)) for _, image in found]
    assert colours == [(0, 1, 0), (0, 2, 0), (0, 3, 0)] * 2


async def test_formats(running: Running) -> None:
    running.submit("r", GenerateImages(prompt="a cat", width=64, height=32, steps=2, format="webp", partial_images=1))
    await running.end("r")
    assert [Picture.open(BytesIO(image.data)).format for _, image in running.outputs("r")] == ["WEBP", "WEBP"]


async def test_requests_take_turns_image_by_image_and_urgent_ones_go_first(running: Running) -> None:
    running.submit("first", GenerateImages(prompt="first", width=32, height=32, steps=1, seed=0, n=3))
    await running.checked(1)
    await running.until(lambda: (1, 0) in running.numbers)
    for name, priority in (("late", "background"), ("same", "normal"), ("urgent", "interactive")):
        running.submit(name, GenerateImages(prompt=name, width=32, height=32, steps=1, seed=0, n=2), priority)  # type: ignore[arg-type]
    await running.checked(4)
    await running.end("late")
    order = ["first", "urgent", "urgent", "same", "first", "same", "late", "first", "late"]
    assert [prompt for prompt, _ in running.brush.drawn] == order


async def test_a_cancelled_image_ends_with_the_next_step(running: Running) -> None:
    running.submit("gone")
    running.permit(2)
    await running.until(lambda: Progressed(1, STEPS) in running.events["gone"])
    running.submit("next", GenerateImages(prompt="next", width=32, height=32, steps=1))
    told = list(running.events["gone"])
    running.service.cancel("gone")
    running.service.cancel("unknown")
    await running.end("next")
    assert running.events["gone"] == told
    assert [step for prompt, _, step in running.brush.steps if prompt == "a cat"] == [0, 1, 2]


async def test_one_that_is_cancelled_while_it_waits_is_never_drawn(running: Running) -> None:
    running.submit("first")
    running.submit("gone", GenerateImages(prompt="gone"))
    running.service.cancel("gone")
    running.submit("last", GenerateImages(prompt="last", steps=1))
    await running.end("last")
    assert {prompt for prompt, _ in running.brush.drawn} == {"a cat", "last"}
    assert running.events["gone"] == []


async def test_the_queue_is_bounded(running: Running) -> None:
    for number in range(4):
        running.submit(str(number))
    running.submit("many")
    (failed,) = running.events["many"]
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.retry_after) == ("overloaded", 30)
    running.submit("other", caller="ben")
    assert running.events["other"] == []
    await running.end("3")
    running.submit("again")
    assert isinstance(await running.end("again"), Finished)


@pytest.mark.parametrize(
    ("task", "param"),
    [
        (GenerateImages(prompt="long"), "prompt"),
        (EditImages(prompt="a cat", images=(MediaPart("image", "", "image", path="none.png"),)), "model"),
    ],
)
async def test_what_is_wrong_with_a_request_is_told_before_it_has_its_turn(
    running: Running, task: GenerateImages, param: str
) -> None:
    running.submit("first")
    running.submit("r", task)
    await running.until(lambda: bool(running.events["r"]))
    (failed,) = running.events["r"]
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.param) == ("invalid_request", param)
    assert running.brush.drawn == []


async def test_a_failure_ends_one_request_only(running: Running) -> None:
    running.submit("r", GenerateImages(prompt="boom"))
    assert await running.end("r") == Failed("internal", "the image could not be made: RuntimeError")
    running.submit("next")
    assert isinstance(await running.end("next"), Finished)


async def test_an_image_for_which_memory_is_short_is_begun_once_more(running: Running) -> None:
    """What was seen of it is not sent again."""
    running.brush.short = 1
    running.submit("r", GenerateImages(prompt="a cat", width=64, height=32, steps=4, n=2, partial_images=3))
    assert isinstance(await running.end("r"), Finished)
    found = [(choice, image.index) for choice, image in running.outputs("r") if isinstance(image, PartialImage)]
    assert found == [(n, index) for n in range(2) for index in range(3)]
    running.brush.short = 2
    running.submit("bad")
    failed = await running.end("bad")
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.retry_after) == ("insufficient_memory", 5)
    running.submit("next")
    assert isinstance(await running.end("next"), Finished)


async def test_a_paused_request_begins_no_further_image(running: Running) -> None:
    running.submit("r", GenerateImages(prompt="a cat", width=32, height=32, steps=1, n=2))
    running.service.pause("unknown")
    await running.checked(1)
    running.service.pause("r")
    running.submit("other")
    await running.end("other")
    assert ("a cat", 1) not in running.brush.drawn
    before = len(running.outputs("r"))
    running.service.resume("unknown")
    running.service.resume("r")
    assert isinstance(await running.end("r"), Finished)
    assert before < len(running.outputs("r")) == 2


async def test_what_is_under_way_is_held_back_while_its_request_is_paused(running: Running) -> None:
    running.submit("r", GenerateImages(prompt="a cat", width=32, height=32, steps=STEPS, seed=5, partial_images=1))
    running.permit(1)
    await running.until(lambda: Progressed(0, STEPS) in running.events["r"])
    running.service.pause("r")
    running.submit("other", GenerateImages(prompt="other", width=32, height=32, steps=1))
    assert isinstance(await running.end("other"), Finished)
    assert running.brush.drawn == [("a cat", 5), ("other", running.brush.drawn[1][1])]
    assert running.events["r"] == [Started(0), *(Progressed(done, STEPS) for done in range(STEPS + 1))]
    running.service.resume("r")
    assert isinstance(running.events["r"][-1], Finished)
    assert [type(image) for _, image in running.outputs("r")] == [PartialImage, Image]
    assert running.numbers[-1] == (0, 0)


async def test_a_step_is_a_piece_of_work_and_what_it_may_take_is_no_silence(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchard.device.mlx_thread.MlxThread.silent_seconds", 1000.0)
    assert running.service.heartbeat().silent_seconds == 1000.0
    running.service._pace.learn(500.0, 2**20)
    running.service._pace.expect(2**20)
    assert running.service.heartbeat().silent_seconds == 0


async def test_closing_ends_the_image_under_way(folder: Path) -> None:
    running = Running(folder, ImageOptions())
    await running.service.start(running.emit, lambda fraction: None)
    running.submit("r")
    running.submit("waits")
    running.permit(1)
    await running.until(lambda: Progressed(0, STEPS) in running.events["r"])
    closing = asyncio.create_task(running.service.close(0))
    await asyncio.sleep(0)
    running.permit(1)
    await closing
    assert running.brush.drawn == []


async def test_the_preset_and_what_it_takes_are_told(folder: Path) -> None:
    running = Running(folder, ImageOptions())
    loaded = await running.service.start(running.emit, lambda fraction: None)
    assert loaded.details["config_name"] == "flux-schnell"
    assert loaded.details["takes"] == list(PRESETS["flux-schnell"].parameters)
    await running.service.close(0)


async def test_pictures_are_handed_over(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": "FluxFillPipeline"}))
    Picture.new("RGB", (64, 32), "white").save(tmp_path / "picture.png")
    running = Running(tmp_path, ImageOptions())
    await running.service.start(running.emit, lambda fraction: None)
    picture = MediaPart("image", "", "image", path=str(tmp_path / "picture.png"))
    running.submit("r", EditImages(prompt="a cat", images=(picture,), mask=picture, steps=1))
    await running.end("r")
    (pictures,) = running.brush.pictures
    assert [image.size for image in pictures.images] == [(64, 32)]
    assert pictures.mask
    await running.service.close(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ImageOptions(config_name="nothing"), "there is no config_name 'nothing'"),
        (ImageOptions(lora_scales=(1.0,)), "lora_scales has 1 numbers, and lora_paths 0 files"),
        (ImageOptions(lora_paths=("a/b",)), "'a/b' of lora_paths is not a file that ends with .safetensors"),
        (ImageOptions(lora_paths=("/none.safetensors",)), "'/none.safetensors' of lora_paths is not a file"),
    ],
)
async def test_options_that_can_not_be_met_fail_the_load(folder: Path, options: ImageOptions, message: str) -> None:
    service = ImageService(str(folder), options)
    with pytest.raises(OrchardError, match=message) as caught:
        await service.start(lambda events, running, waiting: None, lambda fraction: None)
    assert caught.value.kind == "model_failed"
    await service.close(0)


async def test_plain_text_is_described_once_where_a_preset_wants_json(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": "BriaFiboPipeline"}))
    running = Running(tmp_path, ImageOptions(config_name="fibo"))
    running.brush.can_describe = True
    await running.service.start(running.emit, lambda fraction: None)
    running.submit("r", GenerateImages(prompt="a cat", width=32, height=32, steps=1, seed=0, n=2))
    await running.end("r")
    assert running.brush.drawn == [('{"scene": "a cat"}', 0), ('{"scene": "a cat"}', 1)]
    assert [prompt for prompt, _, step in running.brush.steps if step == -1] == ["a cat"]
    running.submit("json", GenerateImages(prompt='{"a": 1}', width=32, height=32, steps=1, seed=0))
    await running.end("json")
    assert running.brush.drawn[-1] == ('{"a": 1}', 0)
    running.submit("bad", GenerateImages(prompt="nonsense", width=32, height=32, steps=1, seed=0))
    assert await running.end("bad") == Failed("invalid_request", "no JSON", "prompt")
    await running.service.close(0)


async def test_a_preset_without_adapters_takes_none(tmp_path: Path) -> None:
    (tmp_path / "lora.safetensors").touch()
    options = ImageOptions(config_name="fibo", lora_paths=(str(tmp_path / "lora.safetensors"),))
    service = ImageService(str(tmp_path), options)
    with pytest.raises(OrchardError, match="fibo takes no LoRA adapters; remove lora_paths"):
        await service.start(lambda events, running, waiting: None, lambda fraction: None)
    await service.close(0)


async def test_a_load_that_fails_says_why(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = Running(folder, ImageOptions())
    running.brush.draw = lambda *_: 1 / 0  # type: ignore[method-assign, assignment]
    with pytest.raises(OrchardError, match="the model can't be run: ZeroDivisionError: division by zero"):
        await running.service.start(running.emit, lambda fraction: None)
    assert "loading failed" in caplog.text
    await running.service.close(0)


async def test_memory_is_limited_while_it_is_loaded(folder: Path) -> None:
    running = Running(folder, ImageOptions(memory_limit=2**34))
    await running.service.start(running.emit, lambda fraction: None)
    assert mx.set_memory_limit(2**35) == 2**34
    running.service.limit_memory(2**33, 2**34)
    assert mx.set_memory_limit(2**35) == 2**33
    await running.service.close(0)
