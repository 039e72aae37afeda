"""Image files from requests, which may be hostile: check their sizes before they are decoded."""

import logging
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageOps
from PIL.TiffImagePlugin import TiffImageFile

from orchard.core.errors import brief
from orchard.core.media import MAX_PIXELS, MediaPart, refusal

_NAMES = {"WEBP": "WebP"}
_TILE_SIDES = (322, 323)  # TIFF 6.0, section 15
_SCAN = b"\xff\xda"
MOST_SCANNED = 20_000_000_000
"""How many pixels all scans of a JPEG may have together, for which a core needs 10 s. A scan may have few bytes."""

# The checks below are made before anything is decoded, and are stricter than Pillow's warning.
Image.MAX_IMAGE_PIXELS = None
logging.getLogger("PIL").setLevel(logging.INFO)  # it tells of each part of a PNG


def open_picture(
    part: MediaPart, formats: tuple[str, ...], *, most_ratio: int, least_side: int = 1, mode: str | None = None
) -> Image.Image:
    """Return a decoded picture, upright, of an animation the first frame; `mode` None: in its own mode, with 8 bits.

    `formats` are Pillow's names of those that are read. No side is more than `most_ratio` times the other, or shorter
    than `least_side`. Raise OrchardError("invalid_request") that blames the part if it is broken, truncated or too
    large.
    """
    data = Path(part.path).read_bytes() if part.path else part.data
    try:
        image: Image.Image = Image.open(BytesIO(data), formats=formats)
        tile_pixels = _tile_pixels(image)
    except Exception as error:  # a broken header raises whatever its reader raises
        *names, last = (_NAMES.get(name, name) for name in formats)
        raise refusal(part, f"it is no {', '.join(names)} or {last} image, or it is broken") from error
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise refusal(part, f"it has {width:,} x {height:,} pixels, and at most {MAX_PIXELS:,} are allowed")
    if tile_pixels > MAX_PIXELS:
        raise refusal(part, f"its tiles have {tile_pixels:,} pixels, and at most {MAX_PIXELS:,} are allowed")
    # What only looks like the beginning of a scan counts, too: it is rare.
    if image.format in ("JPEG", "MPO") and data.count(_SCAN) * width * height > MOST_SCANNED:
        raise refusal(part, f"its scans have more than {MOST_SCANNED:,} pixels together")
    if min(image.size) < least_side:
        raise refusal(part, f"it has {width:,} x {height:,} pixels, and each side needs at least {least_side}")
    if max(image.size) > most_ratio * min(image.size):  # a processor that widens it would make it huge
        raise refusal(part, f"one side is more than {most_ratio} times the other")
    if image.mode in ("I", "F"):  # nothing says which of their numbers is black and which is white
        raise refusal(part, "its pixels are numbers of 32 bits; send it with 8 or 16 bits for each colour")
    try:
        image.load()
        upright = _in_eight_bits(ImageOps.exif_transpose(image))
        if mode and upright.mode == "P":
            upright = upright.convert("RGBA")  # Pillow warns of palettes with transparency that become RGB at once
        return upright.convert(mode) if mode else upright  # not every mode can be converted
    except Exception as error:
        raise refusal(part, f"it is broken or truncated ({brief(error)})") from error


def _in_eight_bits(image: Image.Image) -> Image.Image:
    """Return a picture with the upper halves of 16 bits of grey; Pillow would take all but the darkest for white."""
    if not image.mode.startswith("I;16"):
        return image
    return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")


def _tile_pixels(image: Image.Image) -> int:
    """Return how many pixels a tile of a TIFF has, of which libtiff decodes a whole one at a time; 1 without tiles."""
    if not isinstance(image, TiffImageFile):
        return 1
    width, length = (int(image.tag_v2.get(side, 1)) for side in _TILE_SIDES)
    return width * length
