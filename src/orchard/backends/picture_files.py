"""Opens image files from requests, which may be hostile: checks their sizes before they are decoded."""

import logging
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageOps
from PIL.TiffImagePlugin import TiffImageFile

from orchard.core.errors import short_message
from orchard.core.media import MAX_PIXELS, MediaPart, media_error

_FORMAT_NAMES = {"WEBP": "WebP"}
_TILE_SIDES = (322, 323)  # TIFF 6.0, section 15
_SCAN = b"\xff\xda"
MOST_SCANNED = 20_000_000_000
"""The most pixels in all scans of a JPEG together; a core decodes them in 10 s. A scan may have few bytes."""

# The checks below are made before anything is decoded, and are stricter than Pillow's warning.
Image.MAX_IMAGE_PIXELS = None
logging.getLogger("PIL").setLevel(logging.INFO)  # it logs each part of a PNG


def open_picture(
    part: MediaPart, formats: tuple[str, ...], *, most_ratio: int, least_side: int = 1, mode: str | None = None
) -> Image.Image:
    """Return a decoded, upright image, or an animation's first frame. `mode` None: its own mode, with 8 bits.

    `formats`: Pillow's names of the allowed formats. No side may be longer than `most_ratio` times the other, or
    shorter than `least_side`. Raise OrchardError("invalid_request") that blames the part if it is broken, truncated or
    too large.
    """
    data = Path(part.path).read_bytes() if part.path else part.data
    try:
        image: Image.Image = Image.open(BytesIO(data), formats=formats)
        tile_pixels = _tile_pixels(image)
    except Exception as error:  # broken headers raise all kinds of errors
        *names, last = (_FORMAT_NAMES.get(name, name) for name in formats)
        raise media_error(part, f"it is no {', '.join(names)} or {last} image, or it is broken") from error
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise media_error(part, f"it has {width:,} x {height:,} pixels, and at most {MAX_PIXELS:,} are allowed")
    if tile_pixels > MAX_PIXELS:
        raise media_error(part, f"its tiles have {tile_pixels:,} pixels, and at most {MAX_PIXELS:,} are allowed")
    # Bytes that only look like the beginning of a scan count, too; they are rare.
    if image.format in ("JPEG", "MPO") and data.count(_SCAN) * width * height > MOST_SCANNED:
        raise media_error(part, f"its scans have more than {MOST_SCANNED:,} pixels together")
    if min(image.size) < least_side:
        raise media_error(part, f"it has {width:,} x {height:,} pixels, and each side needs at least {least_side}")
    if max(image.size) > most_ratio * min(image.size):  # a processor that widens it would make it huge
        raise media_error(part, f"one side is more than {most_ratio} times the other")
    if image.mode in ("I", "F"):  # it is unknown which numbers are black and white
        raise media_error(part, "its pixels are numbers of 32 bits; send it with 8 or 16 bits for each colour")
    try:
        image.load()
        upright = _to_eight_bits(ImageOps.exif_transpose(image))
        if mode and upright.mode == "P":
            upright = upright.convert("RGBA")  # Pillow warns if a palette with transparency becomes RGB in one step
        return upright.convert(mode) if mode else upright  # not every mode can be converted
    except Exception as error:
        raise media_error(part, f"it is broken or truncated ({short_message(error)})") from error


def _to_eight_bits(image: Image.Image) -> Image.Image:
    """Reduce 16-bit grey to its upper 8 bits; Pillow would turn all but the darkest parts white."""
    if not image.mode.startswith("I;16"):
        return image
    return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")


def _tile_pixels(image: Image.Image) -> int:
    """Return the pixels of a TIFF's tile, which libtiff always decodes as a whole; 1 if the file has no tiles."""
    if not isinstance(image, TiffImageFile):
        return 1
    width, length = (int(image.tag_v2.get(side, 1)) for side in _TILE_SIDES)
    return width * length
