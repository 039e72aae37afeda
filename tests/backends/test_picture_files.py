"""What files of pictures ask for, and what of it they get. What both kinds of models read is tested beside them."""

import io

import numpy as np
import pytest
from PIL import Image
from PIL.ImageFile import ImageFile

from orchard.backends import picture_files
from orchard.backends.picture_files import open_picture
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from tests.support.bombs import avif, gif, jpeg, tiff, webp

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "TIFF", "AVIF")
HUGE = "pixels, and at most 50,000,000 are allowed"


def opened(data: bytes, mode: str | None = None) -> Image.Image:
    return open_picture(MediaPart("image", "", "p", data), FORMATS, most_ratio=10, mode=mode)


@pytest.mark.parametrize(
    ("bomb", "words"),
    [
        (gif(65_535, 1), f"it has 65,535 x 65,535 {HUGE}"),
        (gif(1, 65_535), f"it has 65,535 x 65,535 {HUGE}"),
        (webp(16_384), f"it has 16,384 x 16,384 {HUGE}"),
        (webp(16_384, frames=3000), f"it has 16,384 x 16,384 {HUGE}"),
        (tiff(2**31 - 1), f"it has 2,147,483,647 x 2,147,483,647 {HUGE}"),
        (tiff(40, tile=7072), "its tiles have 50,013,184 pixels, and at most 50,000,000 are allowed"),
        (tiff(40, tile=2**31), "its tiles have 4,611,686,018,427,387,904 pixels"),
        (avif(16_384), f"it has 16,384 x 16,384 {HUGE}"),
        (avif(65_535), "it is no PNG, JPEG, GIF, WebP, TIFF or AVIF image, or it is broken"),
        (jpeg(8000, 5000, 500), "its scans have more than 20,000,000,000 pixels together"),
    ],
)
def test_a_bomb_is_refused_before_it_is_decoded(bomb: bytes, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "load", lambda image: pytest.fail("it was decoded"))
    with pytest.raises(OrchardError) as caught:
        opened(bomb)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", "p")
    assert caught.value.message.startswith(f"`p` can't be read: {words}")


@pytest.mark.parametrize(
    "data", [gif(40, 1, frames=3000), webp(40, frames=3000), tiff(40, frames=3000), tiff(40, tile=48)]
)
def test_more_frames_and_larger_tiles_than_needed_are_no_bomb(data: bytes) -> None:
    assert opened(data).size == (40, 40)


def test_a_jpeg_may_have_many_scans_and_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(jpeg(16, 16, 500)).size == (16, 16)
    file = io.BytesIO()
    first, second = Image.new("RGB", (16, 16)), Image.new("RGB", (16, 16), "red")
    first.save(file, "MPO", save_all=True, append_images=[second])
    assert opened(file.getvalue()).size == (16, 16)
    monkeypatch.setattr(picture_files, "MOST_SCANNED", 500)
    with pytest.raises(OrchardError, match="its scans have more than 500 pixels together"):
        opened(file.getvalue())


def tall(mode: str, file: str) -> bytes:
    """A picture, 3 x 2, of 16 or 32 bits of grey, whose upper halves say 0, 64 and 128."""
    values = {"I;16": "<u2", "I;16B": ">u2", "I": "<i4", "F": "<f4"}
    grey = np.array([[0x00FF, 0x4000, 0x80FF]] * 2).astype(values[mode])
    written = io.BytesIO()
    made = Image.frombytes(mode, (3, 2), grey.tobytes())
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    made.save(written, file, exif=exif)
    assert Image.open(io.BytesIO(written.getvalue())).mode[:1] == mode[:1]
    return written.getvalue()


@pytest.mark.parametrize(("mode", "file"), [("I;16", "PNG"), ("I;16", "TIFF"), ("I;16B", "TIFF")])
def test_sixteen_bits_of_grey_become_eight(mode: str, file: str) -> None:
    """Pillow's own conversion would make it white, so that all such pictures were alike."""
    image = opened(tall(mode, file))
    assert (image.mode, list(image.tobytes())) == ("L", [128, 64, 0] * 2)


@pytest.mark.parametrize("mode", ["I", "F"])
def test_pixels_whose_meaning_is_not_known_are_refused(mode: str) -> None:
    with pytest.raises(OrchardError, match="`p` can't be read: its pixels are numbers of 32 bits; send it with 8 or"):
        opened(tall(mode, "TIFF"))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_places_have_their_own_colour(mode: str) -> None:
    """As in mlx-vlm, and without a warning in the log."""
    image = Image.new("RGBA", (3, 2), (10, 10, 10, 0))
    image.putpixel((1, 1), (200, 200, 200, 128))
    written = io.BytesIO()
    (image.quantize(2) if mode == "P" else image.convert(mode)).save(written, "PNG")
    assert opened(written.getvalue(), "RGB").tobytes() == bytes([10] * 12 + [200] * 3 + [10] * 3)
