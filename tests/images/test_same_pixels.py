"""The images of a worker are those of mflux, called directly with the same seed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import pytest

from orchard.core.events import Output
from orchard.core.media import MediaPart
from orchard.core.tasks.images import EditImages, GenerateImages, PartialImage
from orchard.core.tasks.images import Image as Made
from tests.images.conftest import ImageWorker, draw, noise, pixels

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


KONTEXT = Case(
    "flux1-kontext",
    "flux-kontext-dev",
    "mflux.models.flux.variants.kontext.flux_kontext:Flux1Kontext",
    "dev-kontext",
    {"guidance": 3.0},
)
FILL = Case(
    "flux1-fill", "flux-fill-dev", "mflux.models.flux.variants.fill.flux_fill:Flux1Fill", "dev-fill", {"guidance": 3.0}
)
FLUX2_EDIT = Case(
    "flux2",
    "flux2-klein-edit-4b",
    "mflux.models.flux2.variants.edit.flux2_klein_edit:Flux2KleinEdit",
    "flux2-klein-4b",
    {},
)
QWEN_EDIT = Case(
    "qwen-edit",
    "qwen-image-edit",
    "mflux.models.qwen.variants.edit.qwen_image_edit:QwenImageEdit",
    "qwen-image-edit",
    {"guidance": 3.0},
)
FLUX2 = GENERATION[2]
Z_IMAGE = GENERATION[4]


@pytest.mark.parametrize("case", [KONTEXT, FILL, FLUX2_EDIT, QWEN_EDIT], ids=lambda case: case.preset)
async def test_edits(case: Case, tiny: Callable[[str], Path], worker: ImageWorker, tmp_path: Path) -> None:
    folder = tiny(case.family)
    files = [str(tmp_path / f"{seed}.png") for seed in range(2 if case in (FLUX2_EDIT, QWEN_EDIT) else 1)]
    for seed, file in enumerate(files):
        noise(96, 64, seed).save(file)
    mask = str(tmp_path / "mask.png")
    noise(96, 64, 9).convert("L").save(mask)
    await worker.load(folder, config_name=case.preset)
    images = tuple(MediaPart("image", "", "image", path=file) for file in files)
    painted = MediaPart("image", "", "mask", path=mask) if case is FILL else None
    task = EditImages(**SHAPE, **case.fields, steps=2, seed=7, images=images, mask=painted)
    (made,) = await worker.images(task)
    fields = SHAPE | case.fields | {"seed": 7, "num_inference_steps": 2, "to": str(tmp_path / "direct.png")}
    pictures = {"image_path": files[0]} if len(files) == 1 else {"image_paths": files}
    masked = {"masked_image_path": mask} if case is FILL else {}
    case.draw(folder, fields | pictures | masked)
    assert np.array_equal(made, pixels(tmp_path / "direct.png"))
    noise(96, 64, 5).save(files[0])
    assert not np.array_equal(made, (await worker.images(task))[0]), "the picture counts"


@pytest.mark.parametrize("case", GENERATION[2:], ids=lambda case: case.family)
@pytest.mark.parametrize("bits", [4, 8])
async def test_quantised_weights(
    case: Case, bits: int, tiny: Callable[[str], Path], worker: ImageWorker, tmp_path: Path
) -> None:
    folder = tiny(case.family)
    await worker.load(folder, config_name=case.preset, quantize=bits)
    (made,) = await worker.images(GenerateImages(**SHAPE, **case.fields, steps=2, seed=7))
    fields = SHAPE | case.fields | {"seed": 7, "num_inference_steps": 2}
    case.draw(folder, fields | {"to": str(tmp_path / "bits.png")}, quantize=bits)
    assert np.array_equal(made, pixels(tmp_path / "bits.png"))
    case.draw(folder, fields | {"to": str(tmp_path / "whole.png")})
    assert not np.array_equal(made, pixels(tmp_path / "whole.png"))


# A layer, and its width.
LORA_LAYERS = {
    "flux1": ("transformer.single_transformer_blocks.0.attn.to_q", 128),
    "z-image": ("layers.0.attention.to_q", 384),
}


@pytest.mark.parametrize("case", [GENERATION[0], Z_IMAGE], ids=lambda case: case.family)
async def test_loras(case: Case, tiny: Callable[[str], Path], worker: ImageWorker, tmp_path: Path) -> None:
    folder = tiny(case.family)
    layer, width = LORA_LAYERS[case.family]
    for number in range(2):
        values = np.random.default_rng(number).normal(size=(2, width, 4)).astype(np.float32)
        adapter = {f"{layer}.lora_A.weight": mx.array(values[0].T), f"{layer}.lora_B.weight": mx.array(values[1])}
        mx.save_safetensors(str(tmp_path / f"{number}.safetensors"), adapter)
    paths = [str(tmp_path / f"{number}.safetensors") for number in range(2)]
    await worker.load(folder, config_name=case.preset, lora_paths=tuple(paths), lora_scales=(0.5, 2.0))
    (made,) = await worker.images(GenerateImages(**SHAPE, steps=2, seed=7))
    fields = SHAPE | {"seed": 7, "num_inference_steps": 2}
    case.draw(folder, fields | {"to": str(tmp_path / "both.png")}, lora_paths=paths, lora_scales=[0.5, 2.0])
    assert np.array_equal(made, pixels(tmp_path / "both.png"))
    case.draw(folder, fields | {"to": str(tmp_path / "other.png")}, lora_paths=paths, lora_scales=[0.5, 1.0])
    assert not np.array_equal(made, pixels(tmp_path / "other.png"))


LATENTS = {
    "flux1": "mflux.models.flux.latent_creator.flux_latent_creator:FluxLatentCreator",
    "flux2": "mflux.models.flux2.latent_creator.flux2_latent_creator:Flux2LatentCreator",
    "qwen": "mflux.models.qwen.latent_creator.qwen_latent_creator:QwenLatentCreator",
    "z-image": "mflux.models.z_image.latent_creator.z_image_latent_creator:ZImageLatentCreator",
}


@pytest.mark.parametrize("family", LATENTS)
async def test_partial_images(family: str, tiny: Callable[[str], Path], worker: ImageWorker, tmp_path: Path) -> None:
    """They are what mflux itself saves of its steps, and nothing about the finished image changes."""
    (case,) = [case for case in GENERATION if case.family == family]
    folder = tiny(family)
    await worker.load(folder, config_name=case.preset)
    task = GenerateImages(**SHAPE, **case.fields, steps=4, seed=7, partial_images=3)
    outputs = [event for event in await worker.events(task) if isinstance(event, Output)]
    fields = SHAPE | case.fields | {"seed": 7, "num_inference_steps": 4, "to": str(tmp_path / "direct.png")}
    order = {"type": case.type, "alias": case.alias, "model": {"model_path": str(folder)}, "latents": LATENTS[family]}
    draw(order | {"images": [fields]})
    partials = [output.read(PartialImage) for output in outputs[:-1]]
    assert [partial.index for partial in partials] == [0, 1, 2]
    for partial in partials:
        saved = tmp_path / "direct" / f"seed_7_step{partial.index + 1}of4.png"
        assert np.array_equal(pixels(partial.data), pixels(saved))
    assert np.array_equal(pixels(outputs[-1].read(Made).data), pixels(tmp_path / "direct.png"))
