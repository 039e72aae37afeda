"""The table of presets: which class of mflux runs an image model, and which parameters of a request that class uses.

mflux silently ignores parameters that a class doesn't use. The table lists what each class uses, so that other
parameters can be rejected.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

_MFLUX = "mflux.models"
_FLUX_LATENTS = f"{_MFLUX}.flux.latent_creator.flux_latent_creator:FluxLatentCreator"
_FLUX2_LATENTS = f"{_MFLUX}.flux2.latent_creator.flux2_latent_creator:Flux2LatentCreator"
_QWEN_LATENTS = f"{_MFLUX}.qwen.latent_creator.qwen_latent_creator:QwenLatentCreator"
_Z_LATENTS = f"{_MFLUX}.z_image.latent_creator.z_image_latent_creator:ZImageLatentCreator"
_FIBO_LATENTS = f"{_MFLUX}.fibo.latent_creator.fibo_latent_creator:FiboLatentCreator"

_FLUX = f"{_MFLUX}.flux.variants.txt2img.flux:Flux1"
_FLUX2 = f"{_MFLUX}.flux2.variants.txt2img.flux2_klein:Flux2Klein"
_FLUX2_EDIT = f"{_MFLUX}.flux2.variants.edit.flux2_klein_edit:Flux2KleinEdit"
_QWEN_EDIT = f"{_MFLUX}.qwen.variants.edit.qwen_image_edit:QwenImageEdit"
_Z_IMAGE = f"{_MFLUX}.z_image.variants.z_image:ZImage"
_FIBO = f"{_MFLUX}.fibo.variants.txt2img.fibo:FIBO"

_FLUX2_PIPELINES = ("Flux2KleinPipeline", "Flux2KleinKVPipeline")
_MOST_PICTURES = 4


class Preset(Struct, frozen=True, kw_only=True):
    """How a kind of image model is run.

    `type` is mflux's class and `alias` its name for the model's configuration; `repository` is the weights' source.
    `pipelines`: the possible `_class_name`s in such a model's model_index.json; empty: only its name identifies it.
    `marks`: values in its transformer's config.json that similar models don't have. `latents`: the class that unpacks
    the latents of a step; None: there are no partial images.

    `steps` and `guidance` are defaults; `guidance` None: the model takes none. With fewer steps than `least_steps`,
    mflux divides by zero. `needs_negative_prompt`: guidance has no effect without one. `pictures`: the most images that
    it edits; 0: it generates images. `loras`: it takes LoRA adapters.
    """

    name: str
    type: str
    alias: str
    repository: str
    pipelines: tuple[str, ...] = ()
    marks: Mapping[str, bool | int] = {}
    latents: str | None = None
    steps: int
    least_steps: int = 1
    guidance: float | None = None
    negative_prompt: bool = False
    needs_negative_prompt: bool = False
    pictures: int = 0
    pictures_in: Literal["image_path", "image_paths"] = "image_path"
    mask: bool = False
    json_prompt: bool = False
    loras: bool = True

    @property
    def can_edit(self) -> bool:
        """Whether it edits images instead of generating them from text alone."""
        return self.pictures > 0

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that it uses, by the names in requests."""
        optional = {
            "image": self.can_edit,
            "mask": self.mask,
            "guidance": self.guidance is not None,
            "negative_prompt": self.negative_prompt,
            "partial_images": self.latents is not None,
        }
        return ("prompt", "n", "size", "seed", "steps", *(name for name, used in optional.items() if used))


def _flux_preset(name: str, alias: str, repository: str, *, steps: int = 25, guidance: float | None) -> Preset:
    return Preset(
        name=name,
        type=_FLUX,
        alias=alias,
        repository=f"black-forest-labs/{repository}",
        pipelines=("FluxPipeline",),
        marks={"guidance_embeds": guidance is not None},
        latents=_FLUX_LATENTS,
        steps=steps,
        guidance=guidance,
    )


def _klein_preset(
    name: str, repository: str, *, edits: bool = False, steps: int = 4, guidance: float | None = None
) -> Preset:
    return Preset(
        name=name,
        type=_FLUX2_EDIT if edits else _FLUX2,
        alias=repository.replace("FLUX.2", "flux2").lower(),
        repository=f"black-forest-labs/{repository}",
        pipelines=_FLUX2_PIPELINES,
        marks={"num_layers": 5 if repository.endswith("4B") else 8},
        latents=_FLUX2_LATENTS,
        steps=steps,
        guidance=guidance,
        pictures=_MOST_PICTURES if edits else 0,
        pictures_in="image_paths",
    )


def _qwen_edit_preset(name: str, repository: str, *, zero_cond_t: bool) -> Preset:
    return Preset(
        name=name,
        type=_QWEN_EDIT,
        alias=name,
        repository=f"Qwen/{repository}",
        pipelines=("QwenImageEditPipeline", "QwenImageEditPlusPipeline"),
        marks={"zero_cond_t": zero_cond_t},
        latents=_QWEN_LATENTS,
        steps=20,
        least_steps=2,
        guidance=4.0,
        negative_prompt=True,
        pictures=_MOST_PICTURES,
        pictures_in="image_paths",
    )


def _z_image_preset(name: str, repository: str, *, steps: int, guidance: float | None) -> Preset:
    return Preset(
        name=name,
        type=_Z_IMAGE,
        alias=name,
        repository=f"Tongyi-MAI/{repository}",
        pipelines=("ZImagePipeline",),
        latents=_Z_LATENTS,
        steps=steps,
        guidance=guidance,
        negative_prompt=guidance is not None,
    )


def _fibo_preset(name: str, repository: str, *, steps: int, guidance: float | None) -> Preset:
    return Preset(
        name=name,
        type=_FIBO,
        alias=name,
        repository=f"briaai/{repository}",
        pipelines=("BriaFiboPipeline",),
        latents=_FIBO_LATENTS,
        steps=steps,
        guidance=guidance,
        negative_prompt=guidance is not None,
        json_prompt=True,
        loras=False,
    )


def _same_name_preset(
    name: str, kind: str, repository: str, *, steps: int, guidance: float | None = None, **more: Any
) -> Preset:
    """Return the preset of a model that mflux knows by the same name."""
    return Preset(
        name=name,
        type=f"{_MFLUX}.{kind}",
        alias=name,
        repository=repository,
        steps=steps,
        guidance=guidance,
        **({"negative_prompt": guidance is not None} | more),
    )


_ERNIE = "ernie_image.variants.txt2img.ernie_image:ErnieImage"
_KREA2 = "krea2.variants.txt2img.krea2:Krea2"
_MOSS = "moss_image.variants.txt2img.moss_image:MOSSImage"
_QWEN21 = "qwen21.variants.txt2img.qwen_image_21:QwenImage21"

_ROWS = (
    _flux_preset("flux-schnell", "schnell", "FLUX.1-schnell", steps=4, guidance=None),
    _flux_preset("flux-dev", "dev", "FLUX.1-dev", guidance=3.5),
    _flux_preset("flux-krea-dev", "krea-dev", "FLUX.1-Krea-dev", guidance=4.5),
    Preset(
        name="flux-kontext-dev",
        type=f"{_MFLUX}.flux.variants.kontext.flux_kontext:Flux1Kontext",
        alias="dev-kontext",
        repository="black-forest-labs/FLUX.1-Kontext-dev",
        pipelines=("FluxKontextPipeline",),
        latents=_FLUX_LATENTS,
        steps=25,
        guidance=2.5,
        pictures=1,
    ),
    Preset(
        name="flux-fill-dev",
        type=f"{_MFLUX}.flux.variants.fill.flux_fill:Flux1Fill",
        alias="dev-fill",
        repository="black-forest-labs/FLUX.1-Fill-dev",
        pipelines=("FluxFillPipeline",),
        latents=_FLUX_LATENTS,
        steps=25,
        guidance=30.0,
        pictures=1,
        mask=True,
    ),
    # Distilled models were trained without guidance: with guidance, mflux computes what they have not learned.
    _klein_preset("flux2-klein-4b", "FLUX.2-klein-4B"),
    _klein_preset("flux2-klein-9b", "FLUX.2-klein-9B"),
    _klein_preset("flux2-klein-edit-4b", "FLUX.2-klein-4B", edits=True),
    _klein_preset("flux2-klein-edit-9b", "FLUX.2-klein-9B", edits=True),
    _klein_preset("flux2-klein-base-4b", "FLUX.2-klein-base-4B", steps=50, guidance=4.0),
    _klein_preset("flux2-klein-base-9b", "FLUX.2-klein-base-9B", steps=50, guidance=4.0),
    # mflux's alias means the release of December 2025; the first release has the same network and schedule.
    Preset(
        name="qwen-image",
        type=f"{_MFLUX}.qwen.variants.txt2img.qwen_image:QwenImage",
        alias="qwen-image",
        repository="Qwen/Qwen-Image-2512",
        pipelines=("QwenImagePipeline",),
        latents=_QWEN_LATENTS,
        steps=20,
        least_steps=2,
        guidance=4.0,
        negative_prompt=True,
    ),
    _qwen_edit_preset("qwen-image-edit", "Qwen-Image-Edit-2509", zero_cond_t=False),
    _qwen_edit_preset("qwen-image-edit-2511", "Qwen-Image-Edit-2511", zero_cond_t=True),
    _z_image_preset("z-image-turbo", "Z-Image-Turbo", steps=9, guidance=None),
    _z_image_preset("z-image", "Z-Image", steps=50, guidance=4.0),
    _fibo_preset("fibo", "FIBO", steps=50, guidance=5.0),
    _fibo_preset("fibo-lite", "Fibo-lite", steps=8, guidance=None),
    _same_name_preset("krea-2", _KREA2, "krea/Krea-2-Turbo", steps=8, guidance=1.0),
    _same_name_preset("krea-2-raw", _KREA2, "krea/Krea-2-Raw", steps=25, guidance=1.0),
    _same_name_preset(
        "qwen-image-2.1",
        _QWEN21,
        "Qwen/Qwen-Image-2.1",
        steps=40,
        least_steps=2,
        guidance=4.0,
        needs_negative_prompt=True,
    ),
    _same_name_preset("qwen-image-2.1-turbo", _QWEN21, "Qwen/Qwen-Image-2.1-Turbo", steps=8),
    _same_name_preset("ernie-image", _ERNIE, "baidu/ERNIE-Image", steps=50, guidance=4.0),
    _same_name_preset("ernie-image-turbo", _ERNIE, "baidu/ERNIE-Image-Turbo", steps=8),
    _same_name_preset("moss-image-sft", _MOSS, "OpenMOSS-Team/MOSS-Image-SFT", steps=50, guidance=3.0),
    _same_name_preset("moss-image-base", _MOSS, "OpenMOSS-Team/MOSS-Image-Base", steps=50, guidance=3.0),
    _same_name_preset(
        "boogu-image-turbo",
        "boogu.variants.txt2img.boogu_image:BooguImage",
        "Boogu/Boogu-Image-0.1-Turbo",
        steps=4,
        loras=False,
    ),
    _same_name_preset(
        "ming-image-design",
        "ming_image.variants.ming_image:MingImage",
        "inclusionAI/Ming-Image-0.1-Design",
        steps=12,
        guidance=1.0,
        negative_prompt=False,
        loras=False,
    ),
)

PRESETS = {row.name: row for row in _ROWS}
"""The presets by the names that users give as `config_name`."""
