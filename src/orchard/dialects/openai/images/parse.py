"""Parse OpenAI's Images: turn a body or a form into a request."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from orchard.core.media import MediaOptions, MediaPart
from orchard.core.tasks.images import LEAST_SIDE, MOST_PIXELS, SIDE_STEP, EditImages, GenerateImages
from orchard.dialects.common.fields import header_priority, make_request
from orchard.dialects.common.form import parse_form_fields
from orchard.dialects.common.json_body import invalid_field, refuse_fields, require
from orchard.dialects.common.media import media_part
from orchard.dialects.openai.images.encode import ImagesCall
from orchard.dialects.openai.images.schema import BODY, EDIT_BODY, ImagesBody, PictureReference

_NUMBERS = ("n", "output_compression", "partial_images", "seed", "steps", "guidance", "guidance_scale", "ttl")
_SIZE = re.compile(r"([0-9]{1,5})x([0-9]{1,5})")
_FILES = "/v1/images/edits takes input images and masks, as files of a form or as `images` and `mask` of a JSON body"
_SETTING = "it is a setting of the model, and not of a request"
_SIDE = "`size` has both sides, such as '1024x768'"
_UNUSED = "no model here uses it"
_UNSUPPORTED = {
    "image": _FILES,
    "config_name": _SETTING,
    "quantize": _SETTING,
    "lora_paths": _SETTING,
    "lora_scales": _SETTING,
    "num_inference_steps": "its name is `steps` here",
    "width": _SIDE,
    "height": _SIDE,
    "scheduler": _UNUSED,
    "image_strength": _UNUSED,
}
_NO_PICTURES = {"images": _FILES, "mask": _FILES}
_FULL_COMPRESSION = 100  # the default compression, which clients also send with PNG


def parse(
    body: bytes, request_id: str, priority: str | None = None, *, model: str | None = None, default: str | None = None
) -> ImagesCall:
    """Turn a body into a call for `model`, else its own model, else `default`. Raise OrchardError (invalid_request)."""
    asked = BODY.decode(body, model, default)
    refuse_fields(asked, _NO_PICTURES)
    return _images_call(asked, GenerateImages(**_image_options(asked)), request_id, priority)


def parse_edit(
    body: bytes, request_id: str, priority: str | None = None, *, model: str | None = None, default: str | None = None
) -> ImagesCall:
    """Turn the JSON body of an edit into a call, like `parse`."""
    asked = EDIT_BODY.decode(body, model, default)
    images = tuple(_reference_image(one, f"images[{i}]") for i, one in enumerate(asked.images))
    mask = _reference_image(asked.mask, "mask") if asked.mask else None
    return _images_call(asked, EditImages(**_image_options(asked), images=images, mask=mask), request_id, priority)


def parse_edit_form(
    fields: Mapping[str, Sequence[str]],
    files: Mapping[str, Sequence[MediaPart]],
    request_id: str,
    priority: str | None = None,
    *,
    model: str | None = None,
    default: str | None = None,
) -> ImagesCall:
    """Turn the form of an edit into a call, like `parse`."""
    asked = BODY.decode(msgspec.json.encode(parse_form_fields(fields, numbers=_NUMBERS)), model, default)
    refuse_fields(asked, _NO_PICTURES)
    images = (*files.get("image", ()), *files.get("image[]", ()))
    mask = next(iter(files.get("mask", ())), None)
    if not images:
        raise invalid_field("image", "is required: send the input images as files of the form.")
    return _images_call(asked, EditImages(**_image_options(asked), images=images, mask=mask), request_id, priority)


def _reference_image(reference: PictureReference, where: str) -> MediaPart:
    """Return an image that a body refers to. Raise OrchardError if there is none, or it is a file id."""
    if reference.file_id is not None:
        raise invalid_field(f"{where}.file_id", "must be left out: this server keeps no files.")
    param = f"{where}.image_url"
    return media_part("image", require(reference.image_url, param), param, MediaOptions())


def _image_options(asked: ImagesBody) -> dict[str, Any]:
    """Return the fields that generations and edits share. Raise OrchardError if one is wrong."""
    refuse_fields(asked, _UNSUPPORTED)
    if not asked.prompt.strip():
        raise invalid_field("prompt", "must have more than white space.")
    width, height = _image_size(asked.size)
    return {
        "prompt": asked.prompt,
        "n": asked.n or 1,
        "width": width,
        "height": height,
        "steps": asked.steps,
        "guidance": _guidance(asked),
        "negative_prompt": asked.negative_prompt or None,
        "seed": asked.seed,
        "format": asked.output_format or "png",
        "compression": _compression(asked),
        "partial_images": asked.partial_images or 0,
    }


def _image_size(size: str | None) -> tuple[int, int] | tuple[None, None]:
    """Return the width and the height in pixels; None: the model decides. Raise OrchardError if the size is wrong."""
    if size in (None, "", "auto"):
        return None, None
    if not (sides := _SIZE.fullmatch(size)):
        raise invalid_field("size", "must be 'auto' or a width and a height in pixels, such as '1024x768'.")
    width, height = int(sides[1]), int(sides[2])
    if width % SIDE_STEP or height % SIDE_STEP or min(width, height) < LEAST_SIDE or width * height > MOST_PIXELS:
        sides_are = f"must have sides that are multiples of {SIDE_STEP} and at least {LEAST_SIDE}"
        raise invalid_field("size", f"{sides_are}, and at most {MOST_PIXELS:,} pixels in all, not {size}.")
    return width, height


def _guidance(asked: ImagesBody) -> float | None:
    """Return the guidance, which has two field names. Raise OrchardError if both are set."""
    if asked.guidance is not None and asked.guidance_scale is not None:
        raise invalid_field("guidance_scale", "is another name of `guidance`: send one of them.")
    return asked.guidance_scale if asked.guidance is None else asked.guidance


def _compression(asked: ImagesBody) -> int | None:
    if asked.output_format in ("jpeg", "webp"):
        return asked.output_compression
    if asked.output_compression not in (None, _FULL_COMPRESSION):
        full = _FULL_COMPRESSION
        message = f"must be {full} for PNG, which loses nothing; 'jpeg' and 'webp' take 0 to {full}."
        raise invalid_field("output_compression", message)
    return None


def _images_call(
    asked: ImagesBody, task: GenerateImages | EditImages, request_id: str, priority: str | None
) -> ImagesCall:
    """Return the call. Raise OrchardError if fields can't be combined."""
    if task.partial_images and not asked.stream:
        raise invalid_field("partial_images", "needs `stream` to be true: other answers have finished images only.")
    if asked.stream and asked.response_format == "url":
        raise invalid_field("response_format", "must be 'b64_json' for a stream, whose events carry the images.")
    request = make_request(asked, request_id, task, header_priority(priority))
    return ImagesCall(request, task, bool(asked.stream), asked.response_format == "url")
