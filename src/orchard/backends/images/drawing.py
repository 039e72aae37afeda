"""Turns a task into the inputs of a preset: sets defaults, and rejects parameters that the preset doesn't use."""

import math
import secrets
from collections.abc import Sequence

from msgspec import Struct
from PIL import Image

from orchard.backends.images.describer import REPOSITORY, is_json_object
from orchard.backends.images.pictures import read_mask, read_picture
from orchard.backends.images.presets import PRESETS, Preset
from orchard.core.errors import OrchardError
from orchard.core.tasks.images import LEAST_SIDE, SIDE_STEP, EditImages, GenerateImages

_DEFAULT_SIDE = 1024  # pixels of an image without a given size
_SEED_COUNT = 2**32


class Drawing(Struct, frozen=True, kw_only=True):
    """The inputs of a request's images. Image i has the seed `seed` + i. `guidance` None: the preset takes none."""

    prompt: str
    width: int
    height: int
    steps: int
    seed: int
    guidance: float | None = None
    negative_prompt: str | None = None
    partial_steps: tuple[int, ...] = ()
    """The steps after which partial images are sent."""


class Pictures(Struct, frozen=True):
    """The images to edit, and the mask of the part to paint."""

    images: Sequence[Image.Image] = ()
    mask: Image.Image | None = None


def make_drawing(task: GenerateImages | EditImages, preset: Preset, *, can_describe: bool = False) -> Drawing:
    """Return the inputs of a request's images. Raise OrchardError("invalid_request") that blames a field.

    This reads the request's images, which takes a while, but doesn't keep them. `can_describe`: a model can turn plain
    text into the JSON that the preset needs.
    """
    _check_task(task, preset)
    given = {"guidance": task.guidance, "negative_prompt": task.negative_prompt}
    for name, value in (given | {"partial_images": task.partial_images or None}).items():
        if value is not None and name not in preset.parameters:
            raise _field_error(name, f"{preset.name} takes no `{name}`: it takes {', '.join(preset.parameters)}")
    guidance = preset.guidance if task.guidance is None else task.guidance
    if preset.needs_negative_prompt and task.guidance is not None and task.negative_prompt is None:
        raise _field_error("guidance", f"`guidance` of {preset.name} does nothing without a `negative_prompt`")
    if task.negative_prompt is not None and (guidance or 0) <= 1:
        raise _field_error("negative_prompt", "`negative_prompt` does nothing where `guidance` is not above 1")
    steps = preset.steps if task.steps is None else task.steps
    if steps < preset.least_steps:
        raise _field_error("steps", f"`steps` of {preset.name} must be at least {preset.least_steps}")
    width, height = _choose_size(task, read_pictures(task).images)
    return Drawing(
        prompt=_check_prompt(task.prompt, preset, can_describe),
        width=width,
        height=height,
        steps=steps,
        seed=secrets.randbelow(_SEED_COUNT) if task.seed is None else task.seed,
        guidance=guidance,
        negative_prompt=task.negative_prompt,
        partial_steps=_spread_partial_steps(steps, task.partial_images),
    )


def read_pictures(task: GenerateImages | EditImages) -> Pictures:
    """Return the images and the mask of a request. Raise OrchardError("invalid_request") if one can't be read."""
    if isinstance(task, GenerateImages):
        return Pictures()
    images = [read_picture(part) for part in task.images]
    return Pictures(images, read_mask(task.mask, images[0].size) if task.mask else None)


def _check_task(task: GenerateImages | EditImages, preset: Preset) -> None:
    edits = isinstance(task, EditImages)
    if edits != preset.can_edit:
        others = ", ".join(other.name for other in PRESETS.values() if other.can_edit == edits)
        does, asked = ("edits images", "generate") if preset.can_edit else ("generates images", "edit")
        raise _field_error("model", f"the model's preset {preset.name} {does}; presets that {asked} them are {others}")
    if not isinstance(task, EditImages):
        return
    if len(task.images) > preset.pictures:
        few = "one input image" if preset.pictures == 1 else f"at most {preset.pictures} input images"
        surplus = task.images[preset.pictures].param
        raise _field_error(surplus, f"{preset.name} edits {few}, and there are {len(task.images)}")
    if task.mask and not preset.mask:
        raise _field_error(task.mask.param, f"{preset.name} takes no `mask`: it takes {', '.join(preset.parameters)}")
    if preset.mask and not task.mask:
        raise _field_error("mask", f"{preset.name} needs a `mask`, which says where it is to paint")


def _check_prompt(prompt: str, preset: Preset, can_describe: bool) -> str:
    if preset.json_prompt and not can_describe and not is_json_object(prompt):
        message = f"`prompt` of {preset.name} must be a JSON object that describes the image"
        plain = f"it may be plain text where {REPOSITORY} is in the local Hugging Face cache"
        raise _field_error("prompt", f"{message}; {plain}")
    return prompt


def _choose_size(task: GenerateImages | EditImages, pictures: Sequence[Image.Image]) -> tuple[int, int]:
    """Return the width and height of the new images: the requested size, or else that of the first given image."""
    if task.width is None or task.height is None:
        return _fit_size(pictures[0].size) if pictures else (_DEFAULT_SIDE, _DEFAULT_SIDE)
    return task.width, task.height


def _fit_size(size: tuple[int, int]) -> tuple[int, int]:
    """Return an allowed size of about the same shape, no larger than models are trained with."""
    scale = min(1.0, math.sqrt(_DEFAULT_SIDE * _DEFAULT_SIDE / math.prod(size)))
    width, height = (max(LEAST_SIDE, int(side * scale) // SIDE_STEP * SIDE_STEP) for side in size)
    return width, height


def _spread_partial_steps(steps: int, count: int) -> tuple[int, ...]:
    """Return the steps after which to make partial images: evenly spread, at most one per step, none after the last."""
    spread = (step * steps // (count + 1) for step in range(1, count + 1))
    return tuple(sorted({step for step in spread if step}))


def _field_error(param: str, message: str) -> OrchardError:
    return OrchardError("invalid_request", message, param=param)
