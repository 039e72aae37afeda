"""What files of pictures ask for, and what of it they get. What both kinds of models read is tested beside them."""

import io

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


def opened(data: bytes) -> Image.Image:
    return open_picture(MediaPart("image", "", "p", data), FORMATS, most_ratio=10)


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
