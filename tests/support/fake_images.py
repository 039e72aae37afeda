"""Image models without mflux: the service is the real one, and what it draws is a plain colour.

A step of a prompt that begins with "slow" takes a tenth of a second; one that ends with "noise" gets noise instead.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from PIL import Image, ImageStat

from orchard.backends.images.drawing import Drawing, Pictures
from orchard.backends.images.pipeline import OnStep, Pipeline
from orchard.backends.images.service import ImageService
from orchard.core.tasks.images import ImageOptions
from orchard.gateway.models.entry import ModelEntry
from orchard.kinds import IMAGE, KINDS

SLOW_STEP = 0.1


def painter(name: str, folder: Path, config_name: str, **options: Any) -> ModelEntry:
    """Return an image model whose folder is empty."""
    (folder / name).mkdir(parents=True)
    given = ImageOptions(config_name=config_name, **options)
    return ModelEntry(name, str(folder / name), None, kind="image", options=given, on_demand=True)


def use() -> None:
    """Let this service run image models, in the environment of the tests."""
    fake = replace(IMAGE, service=f"{__name__}:FakeImageService", environment=None)
    KINDS["image"] = replace(KINDS["image"], backend=fake)


class PlainPipeline(Pipeline):
    """Draws a colour: red as the seed, blue as the picture is bright, green as much of it as the mask has white."""

    can_describe = False

    def __init__(self) -> None:
        """Load nothing."""

    def check_prompts(self, drawing: Drawing) -> None:
        """Find all of them good."""

    def draw(self, drawing: Drawing, pictures: Pictures, seed: int, on_step: OnStep) -> Image.Image:
        """Draw it, in as many steps as are asked for."""
        green = ImageStat.Stat(pictures.mask.convert("L")).mean[0] if pictures.mask else 0
        blue = ImageStat.Stat(pictures.images[0].convert("L")).mean[0] if pictures.images else 0
        for step in range(drawing.steps + 1):
            time.sleep(SLOW_STEP if drawing.prompt.startswith("slow") else 0)
            on_step(step, lambda step=step: _painted(drawing, (step, 0, 0)))  # type: ignore[misc]
        return _painted(drawing, (seed % 256, round(green), round(blue)))


def _painted(drawing: Drawing, colour: tuple[int, int, int]) -> Image.Image:
    size = drawing.width, drawing.height
    if drawing.prompt.endswith("noise"):
        return Image.frombytes("RGB", size, os.urandom(3 * size[0] * size[1]))
    return Image.new("RGB", size, colour)


def _load(*_: Any) -> PlainPipeline:
    return PlainPipeline()


class FakeImageService(ImageService):
    """Serves models that draw plain colours."""

    load_pipeline: "Callable[..., Pipeline]" = staticmethod(_load)  # type: ignore[misc]
