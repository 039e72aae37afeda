"""The images of a worker are those of mflux, called directly with the same seed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from orchard.core.tasks.images import GenerateImages
from tests.images.conftest import ImageWorker, draw, pixels

SHAPE: dict[str, Any] = {"prompt": "a cat", "width": 64, "height": 48}


class Case(NamedTuple):
    """A tiny model of a family, run by a preset, and by a class of mflux with its own name for the configuration."""

    family: str
    preset: str
    type: str
    alias: str
    fields: dict[str, Any]
    """What the request says, which mflux calls the same."""

    def draw(self, folder: Path, *images: dict[str, Any], **model: Any) -> None:
        """Draw with mflux alone."""
        draw({"type": self.type, "alias": self.alias, "model": {"model_path": str(folder), **model}, "images": images})


GENERATION = [
    Case("flux1", "flux-schnell", "mflux.models.flux.variants.txt2img.flux:Flux1", "schnell", {}),
    Case("flux1-dev", "flux-dev", "mflux.models.flux.variants.txt2img.flux:Flux1", "dev", {"guidance": 2.0}),
    Case("flux2", "flux2-klein-4b", "mflux.models.flux2.variants.txt2img.flux2_klein:Flux2Klein", "flux2-klein-4b", {}),
    Case(
        "qwen",
        "qwen-image",
        "mflux.models.qwen.variants.txt2img.qwen_image:QwenImage",
        "qwen-image",
        {"negative_prompt": "a dog", "guidance": 3.0},
    ),
    Case("z-image", "z-image-turbo", "mflux.models.z_image.variants.z_image:ZImage", "z-image-turbo", {}),
]


@pytest.mark.parametrize("case", GENERATION, ids=lambda case: case.family)
async def test_generation(case: Case, tiny: Callable[[str], Path], worker: ImageWorker, tmp_path: Path) -> None:
    folder = tiny(case.family)
    await worker.load(folder, config_name=case.preset)
    made = await worker.images(GenerateImages(**SHAPE, **case.fields, steps=2, seed=7, n=2))
    fields = SHAPE | case.fields | {"num_inference_steps": 2}
    case.draw(folder, *(fields | {"seed": seed, "to": str(tmp_path / f"{seed}.png")} for seed in (7, 8)))
    for image, seed in zip(made, (7, 8), strict=True):
        assert image.shape == (48, 64, 3)
        assert np.array_equal(image, pixels(tmp_path / f"{seed}.png"))
    assert not np.array_equal(made[0], made[1])
    assert made[0].std() > 1, "the image is no single colour"
