"""Scenes and pictures: a seed fixes them, training and evaluation draw apart, and what is drawn is what is said."""

import io
import math
from random import Random

import numpy as np
import pytest
from PIL import Image

from demo_model.text import Split
from demo_vision_model.batches import scenes_for
from demo_vision_model.pictures import FACTOR, LEAST_PIXELS, MOST_PIXELS, Look, draw, fitted, look, pixels, saved
from demo_vision_model.scenes import COLOURS, SHAPES, Scene, Thing, changed, held_shade, scene

PLAIN = Look(1, 0, 0)


def drawn(split: Split, seed: int) -> list[Scene]:
    """Draw scenes in all ways that training and evaluation do."""
    rng = Random(f"{split}:{seed}")
    return [one for sizes in ([(128, 128)], [(200, 120)] * 2) for one in scenes_for(rng, split, sizes)]


def test_a_seed_fixes_a_scene_and_its_picture() -> None:
    one, same, other = (scene(Random(seed), "train", 4) for seed in (1, 1, 2))
    style = look(Random(3), (150, 130))
    assert one == same != other
    assert draw(one, 150, 130, style).tobytes() == draw(same, 150, 130, style).tobytes()


@pytest.mark.parametrize(("split", "held"), [("train", False), ("seen", True), ("held", True)])
def test_held_shades_and_sizes_are_never_trained(split: Split, held: bool) -> None:
    scenes = [one for seed in range(40) for one in drawn(split, seed)]
    scenes += [changed(Random(i), split, one)[0] for i, one in enumerate(scenes)]
    things = [thing for one in scenes for thing in one.things]
    assert {held_shade(thing.shade) for thing in things} == {held}
    assert {thing.size % 7 == 3 for thing in things} == {held}
    assert {thing.colour for thing in things} == set(COLOURS)
    assert {thing.shape for thing in things} == set(SHAPES)


def test_things_are_in_their_places_and_apart() -> None:
    for seed in range(60):
        aspect = (1.0, 1.0) if seed % 2 else (1.6, 1.0)
        things = scene(Random(seed), "train", seed % 7 + 1, aspect).things
        assert [thing.place for thing in things] == sorted({thing.place for thing in things})
        assert len(things) == seed % 7 + 1
        for i, one in enumerate(things):
            assert (int(one.x * 3), int(one.y * 3)) == (one.place % 3, one.place // 3)
            for other in things[:i]:
                gap = math.dist(*((thing.x * aspect[0], thing.y * aspect[1]) for thing in (one, other)))
                assert gap * 1000 > one.size + other.size


def test_a_change_is_of_one_thing() -> None:
    for seed in range(40):
        before = scene(Random(seed), "train", 3)
        after, index, stays = changed(Random(seed), "train", before)
        rest = after.things[:index] + after.things[index + stays :]
        assert rest == before.things[:index] + before.things[index + 1 :]
        if stays:
            old, new = before.things[index], after.things[index]
            assert (old.colour == new.colour) != (old.shape == new.shape)
            assert old.place == new.place


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_drawn_where_and_as_it_says(shape: str) -> None:
    thing = Thing("red", shape, 2, 0.8, 0.2, 150, (200, 10, 20), 30.0, 0.5)
    levels = np.asarray(draw(Scene((thing,), ((255, 255, 255),) * 2), 200, 100, PLAIN)).astype(int)
    rows, columns = np.nonzero((levels == (200, 10, 20)).all(-1))
    filled = len(rows) / (math.pi * 15**2)
    assert abs(rows.mean() - 20) < 4
    assert abs(columns.mean() - 160) < 4
    assert rows.max() - rows.min() <= 31
    assert 0.2 < filled < 1.1
    assert ((levels[20, 160] == 255).all()) == (shape == "ring")
    if shape == "heart":
        assert rows.mean() < 18  # upright


def test_files_are_png_or_jpeg() -> None:
    image = draw(scene(Random(1), "train", 3), 90, 70, PLAIN)
    assert [Image.open(io.BytesIO(saved(image, Look(1, 0, quality)))).format for quality in (0, 80)] == ["PNG", "JPEG"]


def test_pixels_are_whole_tokens_in_bounds() -> None:
    for size in ((24, 24), (128, 128), (90, 120), (640, 480), (300, 500)):
        image = draw(scene(Random(2), "train", 2), *size, PLAIN)
        height, width, _ = pixels(image, PLAIN).shape
        assert (width, height) == fitted(*size)
        assert width % FACTOR == height % FACTOR == 0
        assert LEAST_PIXELS <= width * height <= MOST_PIXELS
        assert 0.8 < width / height / (size[0] / size[1]) < 1.25
