"""The pictures and masks of a request: files that anybody may have sent. They are checked before they are decoded."""

from io import BytesIO

from PIL import Image, ImageOps

from orchard.backends.picture_files import open_picture
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.images import ImageFormat

# Those that Pillow decodes by itself: no program is started, and nothing is fetched.
_FORMATS = ("PNG", "JPEG", "WEBP")
_LEAST_SIDE = 16
_MOST_RATIO = 16
_BRIGHT = 128  # and above: mflux takes it for white


def read_picture(part: MediaPart) -> Image.Image:
    """Return a picture in RGB, upright; what is transparent becomes white, as in mflux.

    Raise OrchardError("invalid_request") that blames the part where it is no picture, broken or too large.
    """
    image = _opened(part)
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return image.convert("RGB")


def read_mask(part: MediaPart, size: tuple[int, int]) -> Image.Image:
    """Return a mask in RGB, white where the picture of that size is to be painted.

    In a mask with transparent parts, those are meant, as in OpenAI's API; in others, the bright ones. Raise
    OrchardError("invalid_request") where it can't be read, has another size than the picture, or says nothing.
    """
    image = _opened(part)
    if image.size != size:
        message = f"`{part.param}` has {_words(image.size)} pixels, and the input image has {_words(size)}"
        raise OrchardError("invalid_request", message, param=part.param)
    transparent = ImageOps.invert(image.convert("RGBA").getchannel("A"))
    mask = transparent if transparent.getbbox() else image.convert("L")
    if not mask.point([0] * _BRIGHT + [255] * _BRIGHT).getbbox():
        what = "what is to be painted must be transparent, or white in a mask without transparency"
        raise OrchardError("invalid_request", f"`{part.param}` marks nothing: {what}", param=part.param)
    return mask.convert("RGB")


def encode(image: Image.Image, image_format: ImageFormat, compression: int | None) -> bytes:
    """Return a picture as a file, without metadata. `compression` is the quality of JPEG and WebP, 100 without it."""
    file, image = BytesIO(), image.copy()
    image.info.clear()
    options = {} if image_format == "png" else {"quality": 100 if compression is None else compression}
    image.save(file, image_format.upper(), **options)
    return file.getvalue()


def _opened(part: MediaPart) -> Image.Image:
    """Return a decoded picture, upright. Raise OrchardError where that isn't possible or not allowed."""
    return open_picture(part, _FORMATS, most_ratio=_MOST_RATIO, least_side=_LEAST_SIDE)


def _words(size: tuple[int, int]) -> str:
    return f"{size[0]:,} x {size[1]:,}"
