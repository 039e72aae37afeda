"""Pictures and masks of a request, which anybody may have sent, and images as files."""

from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from PIL import Image
from PIL.ImageFile import ImageFile

from orchard.backends.images.pictures import encode, read_mask, read_picture
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.images import ImageFormat
from tests.support.examples import examples


def saved(path: Path, image: Image.Image, **options: Any) -> MediaPart:
    image.save(path, **options)
    return uploaded(path)


def uploaded(path: Path, param: str = "image") -> MediaPart:
    return MediaPart("image", "", param, path=str(path))


def refusal(part: MediaPart) -> str:
    with pytest.raises(OrchardError) as caught:
        read_picture(part)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", "image")
    return caught.value.message


@pytest.mark.parametrize("suffix", ["png", "jpeg", "webp"])
def test_a_picture_is_read_in_rgb(tmp_path: Path, suffix: str) -> None:
    image = read_picture(saved(tmp_path / f"red.{suffix}", Image.new("RGB", (32, 16), (200, 0, 0))))
    assert (image.mode, image.size) == ("RGB", (32, 16))
    assert np.abs(np.asarray(image).astype(int) - (200, 0, 0)).max() < 4


def test_a_picture_may_come_with_the_request(tmp_path: Path) -> None:
    file = tmp_path / "red.png"
    saved(file, Image.new("RGB", (32, 16), (200, 0, 0)))
    sent = MediaPart("image", "", "images[1].image_url", file.read_bytes())
    assert read_picture(sent).tobytes() == read_picture(uploaded(file)).tobytes()
    with pytest.raises(OrchardError, match=r"`images\[1\].image_url` can't be read") as caught:
        read_picture(replace(sent, data=b"GIF"))
    assert caught.value.param == "images[1].image_url"


def test_it_is_upright_and_what_is_transparent_is_white(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = saved(tmp_path / "turned.jpeg", Image.new("RGB", (32, 16)), exif=exif)
    assert read_picture(turned).size == (16, 32)
    half = Image.new("RGBA", (32, 16), (0, 0, 255, 0))
    half.paste((0, 0, 255, 255), (0, 0, 16, 16))
    image = read_picture(saved(tmp_path / "half.png", half))
    assert (image.getpixel((0, 0)), image.getpixel((20, 0))) == ((0, 0, 255), (255, 255, 255))


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("<svg/>")
    assert refusal(uploaded(tmp_path / "text.png")) == (
        "`image` can't be read: it is no PNG, JPEG or WebP image, or it is broken"
    )
    assert "no PNG, JPEG or WebP" in refusal(saved(tmp_path / "image.gif", Image.new("RGB", (32, 16))))
    whole = (tmp_path / "noise.png", Image.effect_noise((64, 64), 50))
    data = Path(saved(*whole).path).read_bytes()
    (tmp_path / "cut.png").write_bytes(data[: len(data) // 2])
    assert refusal(uploaded(tmp_path / "cut.png")).startswith("`image` can't be read: it is broken or truncated (")


def test_sizes_are_checked_before_anything_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = saved(tmp_path / "bomb.png", Image.new("1", (10_000, 10_000)))
    small = saved(tmp_path / "small.png", Image.new("1", (200, 8)))
    long = saved(tmp_path / "long.png", Image.new("1", (300, 16)))
    monkeypatch.setattr(ImageFile, "load", lambda image: pytest.fail("it was decoded"))
    assert "10,000 x 10,000 pixels, and at most 50,000,000" in refusal(bomb)
    assert "each side needs at least 16" in refusal(small)
    assert "one side is more than 16 times" in refusal(long)


def test_a_mask_marks_what_is_transparent_else_what_is_white(tmp_path: Path) -> None:
    clear = Image.new("RGBA", (32, 16), "black")
    clear.paste((0, 0, 0, 0), (0, 0, 8, 16))
    white = Image.new("L", (32, 16), 0)
    white.paste(255, (0, 0, 8, 16))
    opaque = white.convert("RGBA")
    for number, mask in enumerate((clear, white, opaque)):
        read = read_mask(saved(tmp_path / f"{number}.png", mask), (32, 16))
        assert read.mode == "RGB"
        assert np.array_equal(np.asarray(read)[..., 0] > 127, np.arange(32)[None].repeat(16, 0) < 8)


def test_masks_of_another_size_or_that_mark_nothing_are_refused(tmp_path: Path) -> None:
    saved(tmp_path / "mask.png", Image.new("L", (32, 16), 100))
    mask = uploaded(tmp_path / "mask.png", "mask")
    with pytest.raises(OrchardError, match="`mask` has 32 x 16 pixels, and the input image has 64 x 16") as caught:
        read_mask(mask, (64, 16))
    assert caught.value.param == "mask"
    with pytest.raises(OrchardError, match="`mask` marks nothing"):
        read_mask(mask, (32, 16))


@pytest.mark.parametrize("image_format", ["png", "jpeg", "webp"])
def test_images_become_files_without_metadata(image_format: ImageFormat) -> None:
    image = Image.effect_noise((64, 64), 50).convert("RGB")
    image.info["comment"] = "secret"
    best = encode(image, image_format, None)
    opened = Image.open(BytesIO(best))
    assert (opened.format, opened.size) == (image_format.upper(), (64, 64))
    assert b"secret" not in best
    if image_format == "png":
        assert np.array_equal(np.asarray(opened), np.asarray(image))
    else:
        assert len(encode(image, image_format, 10)) < len(best) == len(encode(image, image_format, 100))


@given(data=st.data(), image_format=st.sampled_from(["png", "jpeg", "webp"]))
@examples(100)
def test_broken_files_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, image_format: ImageFormat
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    whole = bytearray(encode(Image.fromarray(noise), image_format, 50))
    for _ in range(data.draw(st.integers(1, 5))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    file = tmp_path_factory.getbasetemp() / f"broken.{image_format}"
    file.write_bytes(whole[: data.draw(st.integers(1, len(whole)))])
    refused: list[OrchardError] = []
    for read in (partial(read_picture, uploaded(file)), partial(read_mask, uploaded(file), (32, 32))):
        try:
            assert read().mode == "RGB"
        except OrchardError as error:
            refused.append(error)
    assert {error.kind for error in refused} <= {"invalid_request"}
