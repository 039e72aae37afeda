"""The service of image models: it makes one image at a time; the requests take turns image by image."""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ClassVar

import mlx.core as mx
from msgspec.structs import replace
from PIL import Image as Picture

from orchard import folder_files
from orchard.backends.images.describer import is_json_object
from orchard.backends.images.drawing import Drawing, Pictures, make_drawing, read_pictures
from orchard.backends.images.pace import Pace
from orchard.backends.images.pictures import encode
from orchard.backends.images.pipeline import Pipeline
from orchard.backends.images.recognise import preset_for
from orchard.backends.service import Emit, Heartbeat, LoadResult, Progress
from orchard.backends.turns import TurnService
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, FinishReason, Output, Progressed, Started, Usage
from orchard.core.request import Request
from orchard.core.tasks.images import EditImages, GenerateImages, Image, ImageOptions, PartialImage
from orchard.device.out_of_memory import raise_late_errors, retry_once

log = logging.getLogger("orchard.worker")

_RETRY_AFTER = 30
_SLOWEST_DISK = 50_000_000  # bytes a second
_DESCRIBING_SECONDS = 900.0
_TRIAL_SIDE = 64


class _ImageCancelled(Exception):
    """The image's request was cancelled."""


class _Order:
    """A request that has not ended. `drawing` is set once the request has been checked."""

    def __init__(self, request: Request) -> None:
        assert isinstance(request.task, GenerateImages | EditImages)
        self.request = request
        self.id = request.id
        self.task = request.task
        self.drawing: Drawing | None = None
        self.paused = False
        self.cancelled = False
        self.begun = False
        self.images = 0
        self.held: list[Event] = []
        """Images to send when the request continues after a pause."""


class ImageService(TurnService[_Order]):
    """Serves one image model from a folder."""

    load_pipeline: ClassVar[Callable[..., Pipeline]] = Pipeline.load

    def __init__(self, path: str, options: ImageOptions) -> None:
        """`options.queue_size`: how many requests may wait; see `has_place`."""
        super().__init__(options.memory_limit)
        self._folder = Path(path)
        self._options = options
        self._reader = ThreadPoolExecutor(1, "pictures")
        self._pace = Pace()
        self._pipeline: Pipeline | None = None
        self._checks: set[asyncio.Task[None]] = set()

    async def start(self, emit: Emit, progress: Progress) -> LoadResult:
        """Load the model, make a small image with it, and return its size.

        Raise OrchardError("model_failed", ...) with the reason.
        """
        self._emit = emit
        self._loop = asyncio.get_running_loop()
        self._pipeline = await self._load_model(self._load, progress)
        details: dict[str, str | bool | list[str]] = {
            "config_name": self._preset.name,
            "takes": list(self._preset.parameters),
        }
        return LoadResult(self._weights_bytes, details)

    def _load(self, progress: Callable[[float], None]) -> Pipeline:
        """Load the model and try it, in its thread."""
        self._check_files()
        self._preset = preset_for(self._folder, self._options.config_name)
        weights = (path for path in folder_files.walk_folder(self._folder) if path.endswith(".safetensors"))
        stored = sum(map(os.path.getsize, weights))
        self._pace.allow(stored / _SLOWEST_DISK)
        pipeline = type(self).load_pipeline(self._preset, self._folder, self._options, progress)
        self._weights_bytes = mx.get_active_memory()
        self._try(pipeline)
        return pipeline

    def _check_files(self) -> None:
        try:
            folder_files.check_folder(self._folder)
        except (OSError, ValueError) as error:
            raise OrchardError("model_failed", f"the model in {self._folder} can't be loaded: {error}") from error

    def _try(self, pipeline: Pipeline) -> None:
        """Make a small image in a few steps, which also measures the model's speed."""
        side = _TRIAL_SIDE
        prompt = '{"scene": "a tree"}' if self._preset.json_prompt else "a tree"
        steps, guidance = self._preset.least_steps, self._preset.guidance
        drawing = Drawing(prompt=prompt, width=side, height=side, steps=steps, seed=0, guidance=guidance)
        pictures = Pictures([Picture.new("RGB", (side, side), "gray")], Picture.new("RGB", (side, side), "white"))
        began = time.monotonic()
        self._thread.advance()
        pipeline.draw(drawing, pictures if self._preset.can_edit else Pictures(), 0, lambda done, decoded: None)
        self._pace.learn(time.monotonic() - began, side * side)

    def submit(self, request: Request) -> None:
        """Begin a request. If it is wrong, emit a `Failed` event."""
        if not self._has_place(self._options.queue_size, request):
            message = f"{self._options.queue_size} requests wait for this model already"
            self._tell((request.id, [Failed("overloaded", message, retry_after=_RETRY_AFTER)]))
            return
        order = _Order(request)
        self._add(order)
        check = asyncio.create_task(self._check_order(order))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)
        self._tell()

    async def _check_order(self, order: _Order) -> None:
        """Read the request's images and settle its inputs in a thread; then let the request wait for its turn."""
        try:
            order.drawing = await self._loop.run_in_executor(self._reader, self._make_drawing, order)
        except Exception as error:
            self._fail(order, error, "the request could not be read")
            return
        self._start_work()

    def _make_drawing(self, order: _Order) -> Drawing:
        if order.cancelled:
            raise _ImageCancelled
        assert self._pipeline
        drawing = make_drawing(order.task, self._preset, can_describe=self._pipeline.can_describe)
        self._pipeline.check_prompts(drawing)
        return drawing

    def cancel(self, request_id: str) -> None:
        """Cancel a request; its current image ends with the next step. Unknown ids are ignored."""
        if order := self._forget(request_id):
            order.cancelled = True
            self._tell()

    def resume(self, request_id: str) -> None:
        """Send the images that the pause held back, and continue the request. Unknown ids are ignored."""
        super().resume(request_id)
        if order := self._live.get(request_id):
            held, order.held = order.held, []
            self._send_images(order, held)

    def heartbeat(self) -> Heartbeat:
        """Return the signs of life; each step is a piece of work, whose expected time doesn't count."""
        return Heartbeat(self._pace.silence(self._thread.silent_seconds), self._thread.mlx_bytes)

    async def close(self, save_seconds: float) -> None:
        """Stop after the current step and free the model; nothing is saved."""
        for request_id in list(self._live):
            self.cancel(request_id)
        if pending := [task for task in (*self._checks, self._work) if task]:
            await asyncio.wait(pending)
        self._reader.shutdown()
        self._pipeline = None
        await self._free()

    async def _run(self) -> None:
        """Make images until no request wants any."""
        while order := self._next_order():
            if not order.begun:
                order.begun = True
                self._tell((order.id, [Started(0)]))
            try:
                image = await self._thread.do(retry_once, partial(self._draw, order, set()))
            except Exception as error:
                self._fail(order, error, "the image could not be made")
                continue
            self._queue.charge(order.id, 1)
            if not order.cancelled:
                self._finish_image(order, image)

    def _next_order(self) -> _Order | None:
        """Return the checked request whose turn it is to get an image."""
        return next((order for order in self._queue if order.drawing), None)

    def _draw(self, order: _Order, sent: set[int]) -> Image:
        """Make the next image of a request, in the thread that owns MLX.

        `sent`: the steps after which a partial image was sent, also before memory ran out and the image began again.
        """
        assert self._pipeline
        drawing = order.drawing = self._describe_prompt(order)
        task, index, pixels = order.task, order.images, drawing.width * drawing.height
        began = time.monotonic()

        def on_step(done: int, decoded: Callable[[], Picture.Image]) -> None:
            nonlocal began
            if order.cancelled:
                raise _ImageCancelled
            progressed = Progressed(index * drawing.steps + done, task.n * drawing.steps)
            images: list[Event] = []
            if done:
                self._pace.learn(time.monotonic() - began, pixels)
                self._pace.expect(pixels)
            self._thread.advance()
            if done in drawing.partial_steps and done not in sent:
                image = decoded()
                raise_late_errors()
                data = encode(image, task.format, task.compression)
                unfinished = PartialImage(data, image.width, image.height, len(sent))
                sent.add(done)
                images.append(Output.from_struct(unfinished, index))
            self._loop.call_soon_threadsafe(self._report_step, order, images, progressed)
            began = time.monotonic()

        self._pace.expect(pixels)
        made = self._pipeline.draw(drawing, read_pictures(task), drawing.seed + index, on_step)
        data = encode(made, task.format, task.compression)
        return Image(data, made.width, made.height, drawing.seed + index)

    def _describe_prompt(self, order: _Order) -> Drawing:
        """Return the request's inputs, with the prompt as JSON if the preset needs that."""
        assert order.drawing
        assert self._pipeline
        if not self._preset.json_prompt or is_json_object(order.drawing.prompt):
            return order.drawing
        self._pace.allow(_DESCRIBING_SECONDS)
        described = replace(order.drawing, prompt=self._pipeline.describe(order.drawing.prompt))
        self._pipeline.check_prompts(described)
        self._thread.advance()
        return described

    def _report_step(self, order: _Order, images: list[Event], progressed: Progressed) -> None:
        if not order.cancelled:
            self._send_images(order, images)
            self._tell((order.id, [progressed]))

    def _send_images(self, order: _Order, images: list[Event]) -> None:
        """Send images and the end of their request, or hold them back while the request is paused."""
        if order.paused:
            order.held += images
        elif images:
            if order.images == order.task.n:
                self._forget(order.id)
            self._tell((order.id, images))

    def _finish_image(self, order: _Order, image: Image) -> None:
        """Send a finished image; the last one ends its request."""
        events: list[Event] = [Output.from_struct(image, order.images)]
        order.images += 1
        if order.images == order.task.n:
            reason: FinishReason = "stop"
            events.append(Finished((reason,) * order.task.n, Usage(0, 0, units=order.task.n)))
        self._send_images(order, events)

    def _fail(self, order: _Order, error: Exception, what: str) -> None:
        """End a request with an error, unless it was cancelled."""
        if order.cancelled:
            return
        self._forget(order.id)
        if isinstance(error, OrchardError):
            self._tell((order.id, [Failed.from_error(error)]))
        else:
            log.error("request %s: %s", order.id, what, exc_info=error)
            self._tell((order.id, [Failed("internal", f"{what}: {type(error).__name__}")]))
