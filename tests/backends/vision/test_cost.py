"""The estimate of what encoding takes is what it takes at least, and not much more."""

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest

from orchard.backends.vision.cost import EncodingCost
from orchard.backends.vision.encoder import place_media
from orchard.backends.vision.inputs import Medium
from orchard.backends.vision.model import VisionModel, load_vision_model
from orchard.core.media import MediaOptions, MediaPart
from tests.support.media import picture, png, sound, wav
from tests.support.vision_families import FAMILIES

Folders = Callable[[str], Path]


def image(model: VisionModel, name: str, height: int, width: int) -> Medium:
    options = MediaOptions(min_pixels=1, max_pixels=height * width)
    part = MediaPart("image", "", "", data=png(picture(1, height, width)), options=options)
    return model.reader.read(part, FAMILIES[name].image)


def taken(model: VisionModel, medium: Medium) -> int:
    """What encoding a medium takes, weights aside."""
    mx.eval(model.network.parameters())
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    model.encoder.encode(medium)
    return int(mx.get_peak_memory() - before)


@pytest.mark.parametrize("name", ["qwen3_vl", "llava", "gemma4", "idefics3"])
def test_a_picture(vision_folder: Folders, name: str) -> None:
    model = load_vision_model(str(vision_folder(name)))
    medium = image(model, name, 96, 128)
    assert taken(model, medium) <= model.cost.encoding_bytes(medium)


@pytest.mark.parametrize("name", ["gemma4_audio", "qwen3_omni_moe"])
def test_a_sound(vision_folder: Folders, name: str) -> None:
    model = load_vision_model(str(vision_folder(name)))
    medium = model.reader.read(MediaPart("audio", "", "", data=wav(sound(1, 5.0))), FAMILIES[name].audio)
    assert taken(model, medium) <= model.cost.encoding_bytes(medium)


def test_a_large_picture_is_not_overestimated_much(vision_folder: Folders) -> None:
    model = load_vision_model(str(vision_folder("qwen3_vl")))
    medium = image(model, "qwen3_vl", 128, 160)
    assert model.cost.encoding_bytes(medium) < 4 * taken(model, medium)


def test_a_film_is_read_frame_by_frame(vision_folder: Folders) -> None:
    """Its frames don't attend to each other, so it takes as many times what a frame takes."""
    model = load_vision_model(str(vision_folder("qwen3_vl")))
    frame = image(model, "qwen3_vl", 160, 240)
    assert frame.grid is not None
    pixels = frame.inputs["pixel_values"].repeat(10, axis=0)
    film = frame._replace(kind="video", inputs={"pixel_values_videos": pixels}, grid=(10, *frame.grid[1:]))
    assert 9 < model.cost.encoding_bytes(film) / model.cost.encoding_bytes(frame) < 11


def test_media_are_encoded_one_after_the_other(vision_folder: Folders) -> None:
    model = load_vision_model(str(vision_folder("qwen3_vl")))
    small, large = (image(model, "qwen3_vl", *size) for size in ((32, 48), (96, 128)))
    tokens = [*small.tokens, *large.tokens, *small.tokens]
    placed = place_media(tokens, [small, large, small], model.reader.feature_ids)
    assert model.media_bytes([]) == 0
    assert model.media_bytes(placed) == model.media_bytes(placed[1:2]) > model.media_bytes(placed[:1])
    assert model.media_bytes(placed[1:2]) > model.cost.encoding_bytes(large)


def test_seconds_grow_with_the_square_of_the_patches(vision_folder: Folders) -> None:
    model = load_vision_model(str(vision_folder("qwen3_vl")))
    small, large = (model.cost.encoding_seconds(image(model, "qwen3_vl", side, 2 * side)) for side in (64, 128))
    assert small > 0
    assert large == pytest.approx(16 * small)


def test_a_gpu_is_never_too_slow(vision_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_vision_model(str(vision_folder("qwen3_vl")))
    medium = image(model, "qwen3_vl", 64, 64)
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    assert EncodingCost(model.network).encoding_seconds(medium) == 0.0


def test_metal_keeps_no_scores(vision_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_vision_model(str(vision_folder("qwen3_vl")))
    medium = image(model, "qwen3_vl", 480, 640)
    elsewhere = model.cost.encoding_bytes(medium)
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    assert EncodingCost(model.network).encoding_bytes(medium) < elsewhere
