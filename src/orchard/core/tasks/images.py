"""Images: tasks to generate or edit them, and their results."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Struct

from orchard.core.events import Output
from orchard.core.media import MediaPart
from orchard.core.request import JSON_BODY, LoadOptions, Task
from orchard.core.setting import Name, Names, QueueSize, setting, value_kind, when_unset

ImageFormat = Literal["png", "jpeg", "webp"]
Quantize = Literal[3, 4, 5, 6, 8, 16]

SIDE_STEP = 16
LEAST_SIDE = 32
MOST_PIXELS = 2048 * 2048
"""A generated image's sides are multiples of SIDE_STEP and at least LEAST_SIDE; MOST_PIXELS limits its area."""

_AS_STORED = 16
_STORED_BITS = 16
_SCALE_BITS = 0.5  # per weight, for the scale and the bias of its group of 64


class ImageTask(Task, frozen=True, kw_only=True):
    """What the image tasks share; None: as the model's preset says.

    `width` and `height` are in pixels, multiples of SIDE_STEP; None: 1024 x 1024, or the shape of the first image to
    edit. `seed` is the first image's seed, and each further image has the next number; None: a random seed.
    `compression` is the quality of JPEG and WebP, from 0 to 100. `partial_images`: the most unfinished versions of
    each image to send.
    """

    unit: ClassVar[str] = "images"
    progress_unit: ClassVar[str] = "steps"
    reads_prompt: ClassVar[bool] = False

    prompt: str
    n: int = 1
    width: int | None = None
    height: int | None = None
    steps: int | None = None
    guidance: float | None = None
    negative_prompt: str | None = None
    seed: int | None = None
    format: ImageFormat = "png"
    compression: int | None = None
    partial_images: int = 0

    @property
    def choices(self) -> int:
        """How many images there are."""
        return self.n


class GenerateImages(ImageTask, frozen=True, kw_only=True, tag="generate_images"):
    """Generate images that a prompt describes."""

    gives: ClassVar[str] = "images"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/images/generations",)
    example: ClassVar[str] = JSON_BODY + """ '{"model": {name}, "prompt": "A tree"}'"""


class EditImages(ImageTask, frozen=True, kw_only=True, tag="edit_images"):
    """Edit images, at least one; `mask` is an image that says where the first one may be changed."""

    gives: ClassVar[str] = "edited images"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/images/edits",)

    images: tuple[MediaPart, ...]
    mask: MediaPart | None = None

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """All images, the mask last."""
        return (*self.images, self.mask) if self.mask else self.images


class Image(Struct, frozen=True, array_like=True, tag="image"):
    """A finished image: a file in the requested format. Sizes are in pixels."""

    data: bytes
    width: int
    height: int
    seed: int


class PartialImage(Struct, frozen=True, array_like=True, tag="partial_image"):
    """An unfinished version of an image, as a file; `index` is its number among those of the same image, from 0."""

    data: bytes
    width: int
    height: int
    index: int


_decoder: msgspec.msgpack.Decoder[Image | PartialImage] = msgspec.msgpack.Decoder(Image | PartialImage)


def decode_image(output: Output) -> Image | PartialImage:
    """Return what an `Output` event of these tasks carries."""
    return _decoder.decode(output.data)


class ImageOptions(LoadOptions, frozen=True, kw_only=True):
    """How an image model is run."""

    config_name: Annotated[
        Name | None,
        setting("models", "The preset of an image model, such as flux-dev or qwen-image-edit.", scope="named"),
        when_unset("detected from its files and its name", example="flux2-klein-4b"),
    ] = None
    quantize: Annotated[
        Quantize | None,
        setting(
            "models",
            "Quantise the weights of an image model to this many bits; 16 leaves them unchanged.",
            scope="named",
        ),
        when_unset("as they are stored", example="8"),
    ] = None
    lora_paths: Annotated[
        Names,
        setting(
            "models",
            "Files with LoRA weights for an image model. For a text model, use adapter_path.",
            scope="named",
        ),
    ] = ()
    lora_scales: Annotated[
        tuple[float, ...],
        value_kind("numbers"),
        setting("models", "The strength of each file in lora_paths.", scope="named"),
        when_unset("1 each", example="[0.8]"),
    ] = ()
    queue_size: QueueSize = 1024

    def loaded_bytes(self, size_bytes: int, kept_bytes: int, *, on_device: bool = False) -> int:
        """Return the bytes that weights take in memory if they are quantised while they are loaded."""
        if self.quantize in {None, _AS_STORED}:
            return size_bytes
        return kept_bytes + int((size_bytes - kept_bytes) * (self.quantize + _SCALE_BITS) / _STORED_BITS)
