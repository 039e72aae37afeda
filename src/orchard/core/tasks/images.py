"""Images: what is to be generated or edited, and what comes of it."""

from typing import ClassVar, Literal

from msgspec import Struct

from orchard.core.request import LoadOptions, Task
from orchard.core.setting import QueueSize

ImageFormat = Literal["png", "jpeg", "webp"]
Quantize = Literal[3, 4, 5, 6, 8, 16]

_AS_STORED = 16
_STORED_BITS = 16
_SCALE_BITS = 0.5  # of a weight's share in the scale and the bias of its group of 64


class ImageTask(Task, frozen=True, kw_only=True):
    """What is asked for where images are made; None: as the model's preset says.

    `width` and `height` are in pixels; None: 1024 x 1024, or the shape of the first picture that is edited. `seed` is
    that of the first of the `n` images; each one after it has the next; None: one is drawn by lot. `compression` is the
    quality of JPEG and WebP, from 0 to 100. `partial_images`: how many unfinished images of each are sent at most.
    """

    unit: ClassVar[str] = "images"
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
    """Make images of what a prompt describes."""

    gives: ClassVar[str] = "images"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/images/generations",)


class EditImages(ImageTask, frozen=True, kw_only=True, tag="edit_images"):
    """Make images out of pictures: `images` are their files, at least one; `mask` says where the first is painted."""

    gives: ClassVar[str] = "edited images"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/images/edits",)

    images: tuple[str, ...]
    mask: str | None = None


class Image(Struct, frozen=True, array_like=True):
    """A finished image, as a file of the format that was asked for; its size is in pixels."""

    data: bytes
    width: int
    height: int
    seed: int


class PartialImage(Struct, frozen=True, array_like=True):
    """An image that is not finished yet, as a file; `index` is its number among those of one image, from 0."""

    data: bytes
    index: int


class ImageOptions(LoadOptions, frozen=True, kw_only=True):
    """How a model of images is run.

    `config_name` is the name of a preset; None: it is recognised. `quantize` is the bits of a weight; 16 or None: as
    they are stored. `lora_paths` are files of adapters, each with a factor in `lora_scales`; without factors, all are
    1.
    """

    config_name: str | None = None
    quantize: Quantize | None = None
    lora_paths: tuple[str, ...] = ()
    lora_scales: tuple[float, ...] = ()
    queue_size: QueueSize = 64

    def loaded_bytes(self, size_bytes: int, kept_bytes: int) -> int:
        """Return what weights take in memory where they are quantised while they are loaded."""
        if self.quantize in {None, _AS_STORED}:
            return size_bytes
        return kept_bytes + int((size_bytes - kept_bytes) * (self.quantize + _SCALE_BITS) / _STORED_BITS)
