"""The images and masks of a request: untrusted files, which are checked before they are decoded."""

from io import BytesIO

from PIL import Image, ImageOps

from orchard.backends.picture_files import open_picture
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.images import ImageFormat

# Formats that Pillow decodes by itself, without starting a program or downloading anything.
_FORMATS = ("PNG", "JPEG", "WEBP")
_LEAST_SIDE = 16
_MOST_RATIO = 16
_LEAST_BRIGHT = 128  # mflux takes this value, and above, for white


def read_picture(part: MediaPart) -> Image.Image:
    """Return an image in RGB, upright; transparent parts become white, as in mflux.

    Raise OrchardError("invalid_request") that blames the part if it is not an image, broken or too large.
    """
    image = _open_part(part)
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return image.convert("RGB")


def read_mask(part: MediaPart, size: tuple[int, int]) -> Image.Image:
    """Return a mask in RGB for an image of this size, white where the image is to be painted.

    A mask with transparent parts selects those, as in OpenAI's API; another mask selects its bright parts. Raise
    OrchardError("invalid_request") if it can't be read, has another size than the image, or selects nothing.
    """
    image = _open_part(part)
    if image.size != size:
        message = f"`{part.param}` has {_format_size(image.size)} pixels, and the input image has {_format_size(size)}"
        raise OrchardError("invalid_request", message, param=part.param)
    transparent = ImageOps.invert(image.convert("RGBA").getchannel("A"))
    mask = transparent if transparent.getbbox() else image.convert("L")
    if not mask.point([0] * _LEAST_BRIGHT + [255] * _LEAST_BRIGHT).getbbox():
        what = "what is to be painted must be transparent, or white in a mask without transparency"
        raise OrchardError("invalid_request", f"`{part.param}` marks nothing: {what}", param=part.param)
    return mask.convert("RGB")


def encode(image: Image.Image, image_format: ImageFormat, compression: int | None) -> bytes:
    """Return an image as a file, without metadata. `compression`: the quality of JPEG and WebP; None: 100."""
    file, image = BytesIO(), image.copy()
    image.info.clear()
    options = {} if image_format == "png" else {"quality": 100 if compression is None else compression}
    image.save(file, image_format.upper(), **options)
    return file.getvalue()


def _open_part(part: MediaPart) -> Image.Image:
    return open_picture(part, _FORMATS, most_ratio=_MOST_RATIO, least_side=_LEAST_SIDE)


def _format_size(size: tuple[int, int]) -> str:
    return f"{size[0]:,} x {size[1]:,}"
