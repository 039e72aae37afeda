"""Draw scenes with Pillow as images that a server may get: smooth or jagged, noisy, PNG or JPEG, in many sizes."""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from demo_vision_model.scenes import RGB, Scene, Thing

# A picture is resized to whole tokens of FACTOR by FACTOR pixels, so that its area lies between these two.
FACTOR = 16
LEAST_PIXELS = 128 * 128
MOST_PIXELS = 160 * 160

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Look:
    """How a picture is made: drawn ``fine`` times as large, then shrunk; noise in levels; JPEG quality (0: PNG)."""

    fine: int
    noise: float
    quality: int


def look(rng: Random, size: tuple[int, int]) -> Look:
    """Draw a look for a picture of this width and height; a large one is smooth enough once it is resized."""
    return Look(
        1 if max(size) > 300 else rng.choice((1, 2, 2, 3)),
        rng.uniform(1, 8) if rng.random() < 0.1 else 0,
        rng.randint(45, 95) if rng.random() < 0.4 else 0,
    )


def _arc(count: int, radius: float = 1.0, start: float = 0.0) -> Points:
    return [
        (radius * math.cos(start + 2 * math.pi * i / count), radius * math.sin(start + 2 * math.pi * i / count))
        for i in range(count)
    ]


def _star(form: float) -> Points:
    inner = 0.38 + 0.12 * form
    return [
        point
        for i in range(5)
        for point in (
            (math.sin(0.4 * math.pi * i), -math.cos(0.4 * math.pi * i)),
            (inner * math.sin(0.4 * math.pi * (i + 0.5)), -inner * math.cos(0.4 * math.pi * (i + 0.5))),
        )
    ]


def _heart(form: float) -> Points:
    wide = 0.055 + 0.006 * form
    return [
        (
            16 * wide * math.sin(t) ** 3,
            0.06 * -(13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t) + 2.5),
        )
        for t in (2 * math.pi * i / 40 for i in range(40))
    ]


def _cross(form: float) -> Points:
    arm = 0.28 + 0.14 * form
    return [
        (-arm, -1), (arm, -1), (arm, -arm), (1, -arm), (1, arm), (arm, arm),
        (arm, 1), (-arm, 1), (-arm, arm), (-1, arm), (-1, -arm), (-arm, -arm),
    ]  # fmt: skip


def _ring(form: float) -> Points:
    outer, inner = _arc(48), _arc(48, 0.45 + 0.2 * form)
    return [*outer, outer[0], inner[0], *inner[::-1]]


def _box(width: float, height: float) -> Points:
    return [(-width, -height), (width, -height), (width, height), (-width, height)]


# For each shape: its outline within the unit circle or square, and the degrees it may be turned by either way.
_FORMS: dict[str, tuple[Callable[[float], Points], float]] = {
    "circle": (lambda form: _arc(48), 0),
    "square": (lambda form: _box(0.86, 0.86), 9),
    "triangle": (lambda form: [(0, -0.9), (0.75 + 0.25 * form, 0.75), (-0.75 - 0.25 * form, 0.75)], 180),
    "star": (_star, 180),
    "heart": (_heart, 18),
    "cross": (_cross, 9),
    "diamond": (lambda form: [(0, -1), (0.62 + 0.38 * form, 0), (0, 1), (-0.62 - 0.38 * form, 0)], 7),
    "ring": (_ring, 0),
    "rectangle": (lambda form: _box(1, 0.42 + 0.2 * form), 8),
    "oval": (lambda form: [(x, y * (0.48 + 0.2 * form)) for x, y in _arc(48)], 8),
}
# Half of these stand upright.
_LONG = ("rectangle", "oval")


def _points(thing: Thing, width: float, height: float) -> Points:
    make, most = _FORMS[thing.shape]
    turn = math.radians(thing.turn / 180 * most)
    if thing.shape in _LONG and round(thing.turn) % 2:
        turn += math.pi / 2
    radius = thing.size / 1000 * min(width, height)
    cos, sin = radius * math.cos(turn), radius * math.sin(turn)
    left, top = thing.x * width, thing.y * height
    return [(left + x * cos - y * sin, top + x * sin + y * cos) for x, y in make(thing.form)]


def _background(ground: tuple[RGB, RGB], width: int, height: int) -> Image.Image:
    if ground[0] == ground[1]:
        return Image.new("RGB", (width, height), ground[0])
    ramp = Image.linear_gradient("L").resize((width, height))
    return Image.composite(
        Image.new("RGB", (width, height), ground[1]), Image.new("RGB", (width, height), ground[0]), ramp
    )


def draw(scene: Scene, width: int, height: int, made: Look) -> Image.Image:
    """Draw a scene as a picture of the given size."""
    wide, high = width * made.fine, height * made.fine
    image = _background(scene.ground, wide, high)
    pen = ImageDraw.Draw(image)
    for thing in scene.things:
        points = _points(thing, wide, high)
        pen.polygon(points, fill=thing.shade)
        if thing.outline:
            line = max(1, round(min(wide, high) * 0.012))
            pen.line([*points, points[0]], fill=thing.outline, width=line, joint="curve")
    if made.fine > 1:
        image = image.reduce(made.fine)
    if made.noise:
        seed = scene.things[0].size if scene.things else 0
        grain = np.random.default_rng(seed).standard_normal((height, width, 1), np.float32)
        image = Image.fromarray((np.asarray(image) + grain * made.noise).clip(0, 255).astype(np.uint8))
    return image


def saved(image: Image.Image, made: Look) -> bytes:
    """Save a picture as the PNG or JPEG file that its look asks for."""
    file = io.BytesIO()
    if made.quality:
        image.save(file, "JPEG", quality=made.quality)
    else:
        image.save(file, "PNG")
    return file.getvalue()


def fitted(width: int, height: int) -> tuple[int, int]:
    """Return the size that Qwen's image processor resizes a picture to, as (width, height)."""
    wide, high = round(width / FACTOR) * FACTOR, round(height / FACTOR) * FACTOR
    if wide * high > MOST_PIXELS:
        ratio = math.sqrt(width * height / MOST_PIXELS)
        wide, high = (max(FACTOR, math.floor(side / ratio / FACTOR) * FACTOR) for side in (width, height))
    elif wide * high < LEAST_PIXELS:
        ratio = math.sqrt(LEAST_PIXELS / (width * height))
        wide, high = (math.ceil(side * ratio / FACTOR) * FACTOR for side in (width, height))
    return wide, high


def pixels(image: Image.Image, made: Look) -> NDArray[np.uint8]:
    """Return what the model sees of a picture: decoded and resized, (height, width, 3)."""
    if made.quality:
        image = Image.open(io.BytesIO(saved(image, made))).convert("RGB")
    size = fitted(*image.size)
    return np.asarray(image if size == image.size else image.resize(size, Image.Resampling.BICUBIC))
