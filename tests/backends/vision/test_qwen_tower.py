"""Qwen's encoder gives what mlx-vlm's model gives, for pictures and films of any size, and waits for nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_vlm.models.qwen3_vl_moe import VisionConfig
from mlx_vlm.models.qwen3_vl_moe import VisionModel as MoeTower

from orchard.backends.vision.inputs import Medium
from orchard.backends.vision.model import VisionModel, load_vision_model
from orchard.backends.vision.qwen_tower import QwenTower
from orchard.core.media import MediaPart
from tests.support.media import film, picture, png, video
from tests.support.vision_families import FAMILIES

Folders = Callable[[str], Path]

PARTS = [
    MediaPart("image", "", "", data=png(picture(1, 32, 48))),
    MediaPart("image", "", "", data=png(picture(2, 64, 40))),
    MediaPart("image", "", "", data=png(picture(3, 32, 48))),  # of a size that came before
    MediaPart("video", "", "", data=video(film(4, 6), rate=2.0)),
]


@pytest.fixture(scope="module", params=["qwen3_vl", "qwen3_5"])
def model(request: pytest.FixtureRequest, vision_folder: Folders) -> VisionModel:
    return load_vision_model(str(vision_folder(request.param)))


def prepared(model: VisionModel, part: MediaPart) -> Medium:
    family = FAMILIES[model.network.config.model_type]
    return model.reader.read(part, family.image if part.kind == "image" else family.video)


def arrays(medium: Medium) -> tuple[mx.array, mx.array]:
    """Return pixels and grid as mlx-vlm's encoder takes them."""
    of = "pixel_values", "image_grid_thw"
    if medium.kind == "video":
        of = "pixel_values_videos", "video_grid_thw"
    pixels, grid = (mx.array(medium.inputs[name]) for name in of)
    return pixels, grid


def test_it_gives_what_the_librarys_gives(model: VisionModel) -> None:
    assert QwenTower.can_run(model.network)
    tower = QwenTower(model.network)
    for part in PARTS:
        medium = prepared(model, part)
        rows, deepstack = tower(medium.inputs)
        expected, layers = model.network.vision_tower(*arrays(medium))
        assert rows.shape[0] == medium.features
        assert mx.array_equal(rows, expected)
        assert len(deepstack) == len(layers)
        assert all(mx.array_equal(own, layer) for own, layer in zip(deepstack, layers, strict=True))


def test_the_models_with_experts_have_an_encoder_like_it() -> None:
    sizes = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 64, "num_heads": 2}
    config = VisionConfig.from_dict(
        sizes
        | {"patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 16}
        | {"model_type": "qwen3_vl_moe", "in_channels": 3, "deepstack_visual_indexes": [1]}
    )
    network: Any = type("Network", (), {"vision_tower": MoeTower(config)})
    assert QwenTower.can_run(network)
    pixels = np.random.default_rng(1).standard_normal((24, 3 * 2 * 4 * 4), np.float32)
    rows, deepstack = QwenTower(network)({"pixel_values": pixels, "image_grid_thw": np.array([[1, 4, 6]])})
    expected, layers = network.vision_tower(mx.array(pixels), mx.array([[1, 4, 6]]))
    assert mx.array_equal(rows, expected)
    assert mx.array_equal(deepstack[0], layers[0])


def test_a_size_that_came_before_needs_nothing_of_the_device(
    model: VisionModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again = (prepared(model, PARTS[place]) for place in (0, 2))
    tower = QwenTower(model.network)
    tower(first.inputs)

    def waits(*_: Any) -> None:
        raise AssertionError("it asks the device for numbers")

    for name in ("fast_pos_embed_interpolate", "rot_pos_emb"):
        monkeypatch.setattr(type(model.network.vision_tower), name, waits)
    tower(again.inputs)


def test_other_encoders_are_left_to_the_library(vision_folder: Folders) -> None:
    assert not QwenTower.can_run(load_vision_model(str(vision_folder("gemma3"))).network)
