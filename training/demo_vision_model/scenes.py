"""What an image shows: shapes of a colour, a size and a place, on a background.

Shades and sizes are split like wordings in ``demo_model``: training never draws the shades and sizes that
evaluation uses, though it draws ones close to them.
"""

import colorsys
import math
from dataclasses import dataclass, replace
from random import Random

from demo_model.text import Split

RGB = tuple[int, int, int]

# Hue in degrees, saturation and value in percent, each from and to. The names' CSS colours lie inside.
_BOXES: dict[str, tuple[tuple[int, int, int, int, int, int], ...]] = {
    "red": ((-6, 7, 83, 100, 78, 100),),
    "orange": ((27, 39, 85, 100, 92, 100),),
    "yellow": ((51, 61, 75, 100, 88, 100),),
    "green": ((90, 145, 55, 100, 35, 100),),
    "blue": ((208, 243, 65, 100, 50, 100),),
    "purple": ((266, 302, 55, 100, 38, 72),),
    "pink": ((318, 350, 25, 62, 93, 100),),
    "brown": ((13, 28, 60, 86, 32, 56), (-1, 5, 68, 77, 54, 66)),
    "black": ((0, 360, 0, 30, 0, 10),),
    "white": ((0, 360, 0, 3, 96, 100),),
    "gray": ((0, 360, 0, 6, 38, 68),),
}
COLOURS = tuple(_BOXES)
SHAPES = ("circle", "square", "triangle", "star", "heart", "cross", "diamond", "ring", "rectangle", "oval")
# The nine places of a picture, row by row.
PLACES = (
    "at the top left", "at the top", "at the top right", "on the left", "in the center", "on the right",
    "at the bottom left", "at the bottom", "at the bottom right",
)  # fmt: skip
_SMALLEST = 85
_CONTRAST = 110.0


@dataclass(frozen=True, slots=True)
class Thing:
    """One shape: its names, its place (0 to 8), and how it is drawn.

    ``x`` and ``y`` are fractions of the picture's width and height; ``size``, half the shape's extent, is in
    thousandths of the shorter side; ``turn`` is in degrees; ``form`` in [0, 1] bends what a shape leaves open, like a
    star's arms.
    """

    colour: str
    shape: str
    place: int
    x: float
    y: float
    size: int
    shade: RGB
    turn: float
    form: float
    outline: RGB | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture's contents: the things in reading order, and the two background colours, equal if it is plain."""

    things: tuple[Thing, ...]
    ground: tuple[RGB, RGB]


def held_shade(rgb: RGB) -> bool:
    """Whether a shade is kept for evaluation: about one in seven is, spread evenly."""
    return (rgb[0] // 3 + rgb[1] // 3 * 2 + rgb[2] // 3 * 4) % 7 == 3


def _rgb(rng: Random, box: tuple[int, int, int, int, int, int]) -> RGB:
    hue, saturation, value = (rng.uniform(box[i], box[i + 1]) for i in (0, 2, 4))
    red, green, blue = colorsys.hsv_to_rgb((hue % 360) / 360, saturation / 100, value / 100)
    return round(red * 255), round(green * 255), round(blue * 255)


def shade(rng: Random, colour: str, split: Split) -> RGB:
    """Draw a shade of a named colour from the split's shades."""
    while True:
        rgb = _rgb(rng, rng.choice(_BOXES[colour]))
        if held_shade(rgb) == (split != "train"):
            return rgb


def _ground(rng: Random) -> tuple[RGB, RGB]:
    """Draw a background: mostly light and plain, at times dark, coloured or a gradient."""
    kind = rng.random()
    if kind < 0.3:
        return ((255, 255, 255),) * 2
    if kind < 0.36:
        return ((0, 0, 0),) * 2
    light, dark, coloured = (0, 360, 0, 22, 84, 100), (0, 360, 0, 60, 8, 35), (0, 360, 0, 95, 35, 95)
    one = _rgb(rng, light if kind < 0.68 else dark if kind < 0.82 else coloured)
    if rng.random() < 0.7:
        return one, one
    red, green, blue = (max(0, min(255, c + rng.randint(-45, 45))) for c in one)
    return one, (red, green, blue)


def _apart(one: RGB, other: RGB) -> bool:
    return math.dist(one, other) >= _CONTRAST


def shown(rng: Random, ground: tuple[RGB, RGB], split: Split, colour: str | None = None) -> tuple[str, RGB] | None:
    """Draw a colour (or a shade of the given one) that stands out from the background; None if there is none."""
    for _ in range(20):
        name = colour or rng.choice(COLOURS)
        rgb = shade(rng, name, split)
        if all(_apart(rgb, one) for one in ground):
            return name, rgb
    return None


def _centres(rng: Random, count: int, aspect: tuple[float, float]) -> list[tuple[int, float, float]]:
    """Draw places and centres far enough from each other and from the edges of the places."""
    reach = 0.115 if count <= 3 else 0.075
    least = 2.2 * _SMALLEST / 1000
    while True:
        found = []
        for place in sorted(rng.sample(range(9), count)):
            x, y = ((third + 0.5) / 3 + rng.uniform(-reach, reach) for third in (place % 3, place // 3))
            found.append((place, x, y))
        points = [(x * aspect[0], y * aspect[1]) for _, x, y in found]
        if all(math.dist(a, b) >= least for i, a in enumerate(points) for b in points[:i]):
            return [(place, min(max(x, 0.1), 0.9), min(max(y, 0.1), 0.9)) for place, x, y in found]


def _size(rng: Random, most: float, split: Split) -> int:
    """Draw a size up to ``most``, big ones as often as small ones, from the split's sizes."""
    most = max(most, _SMALLEST + 8)
    while True:
        size = round(math.exp(rng.uniform(math.log(_SMALLEST), math.log(most))))
        if (size % 7 == 3) == (split != "train"):
            return size


def _thing(rng: Random, split: Split, names: tuple[str, str, RGB], at: tuple[int, float, float], size: int) -> Thing:
    outline: RGB | None = None
    if rng.random() < 0.15:
        outline = rng.choice(((0, 0, 0), (255, 255, 255), (60, 60, 60)))
    return Thing(
        names[0], names[1], *at, size, names[2], rng.uniform(-180, 180), rng.random(), outline if size > 110 else None
    )


def scene(rng: Random, split: Split, count: int, aspect: tuple[float, float] = (1, 1)) -> Scene:
    """Draw a scene of ``count`` things (0 to 9) for a picture whose sides are ``aspect`` times its shorter side."""
    ground = _ground(rng)
    centres = _centres(rng, count, aspect)
    points = [(x * aspect[0], y * aspect[1]) for _, x, y in centres]
    sizes: dict[int, int] = {}
    for i in rng.sample(range(count), count):
        x, y = points[i]
        edge = min(x, y, aspect[0] - x, aspect[1] - y)
        others = [math.dist(points[i], points[j]) - sizes.get(j, _SMALLEST) / 1000 for j in range(count) if j != i]
        sizes[i] = _size(rng, 1000 * min([edge, 0.42, *(gap - 0.015 for gap in others)]), split)
    palette = rng.sample(COLOURS, 3) if rng.random() < 0.3 else COLOURS
    forms = rng.sample(SHAPES, 3) if rng.random() < 0.3 else SHAPES
    things = []
    for i, at in enumerate(centres):
        named = shown(rng, ground, split, rng.choice(palette)) or shown(rng, ground, split)
        if named is None:
            return scene(rng, split, count, aspect)
        things.append(_thing(rng, split, (named[0], rng.choice(forms), named[1]), at, sizes[i]))
    return Scene(tuple(things), ground)


def changed(rng: Random, split: Split, one: Scene) -> tuple[Scene, int, bool]:
    """Return the scene with one thing recoloured, reshaped or gone, which thing, and whether it is still there."""
    index = rng.randrange(len(one.things))
    before, old, after = one.things[:index], one.things[index], one.things[index + 1 :]
    way = rng.random()
    if way < 0.25 and len(one.things) > 1:
        return Scene(before + after, one.ground), index, False
    new = replace(old, shape=rng.choice([shape for shape in SHAPES if shape != old.shape]))
    if way > 0.6:
        named = None
        while named is None or named[0] == old.colour:
            named = shown(rng, one.ground, split)
        new = replace(old, colour=named[0], shade=named[1])
    return Scene((*before, new, *after), one.ground), index, True
