"""What a model's own processor makes of a medium, and what tells media apart."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_vlm.models.paddleocr_vl.processing_paddleocr_vl import ImageProcessor as PaddleImages
from mlx_vlm.models.paddleocr_vl.processing_paddleocr_vl import PaddleOCRVLProcessor as PaddleProcessor
from mlx_vlm.utils import prepare_inputs
from msgspec.structs import replace
from PIL import Image

from orchard.backends.vision.decode import decode_image
from orchard.backends.vision.inputs import MediaReader, Medium, _token_ids
from orchard.backends.vision.model import VisionModel, load_vision_model
from orchard.core.errors import OrchardError
from orchard.core.media import MediaKind, MediaOptions, MediaPart
from tests.support.media import film, picture, png, sound, video, wav, with_one_pixel
from tests.support.vision_families import FAMILIES
from tests.support.vision_models import load_reference

Folders = Callable[[str], Path]

PARAM = "messages[0].content[0]"


def of(data: bytes, kind: MediaKind = "image", **options: Any) -> MediaPart:
    return MediaPart(kind, "", PARAM, data=data, options=MediaOptions(**options))


@pytest.fixture(scope="module")
def omni(vision_folder: Folders) -> VisionModel:
    return load_vision_model(str(vision_folder("qwen3_omni_moe")))


@pytest.fixture(scope="module")
def qwen(vision_folder: Folders) -> VisionModel:
    return load_vision_model(str(vision_folder("qwen3_vl")))


def read(model: VisionModel, part: MediaPart, salt: bytes = b"") -> Medium:
    family = FAMILIES["qwen3_omni_moe"]
    placeholders = {"image": family.image, "audio": family.audio, "video": family.video}
    return model.reader.read(part, placeholders[part.kind], salt=salt)


def test_a_picture_is_what_mlx_vlm_makes_of_it(qwen: VisionModel, vision_folder: Folders) -> None:
    made = read(qwen, of(png(picture(1))))
    _, processor = load_reference(vision_folder("qwen3_vl"))
    expected = prepare_inputs(processor, images=[picture(1)], prompts=FAMILIES["qwen3_vl"].image)
    assert made.tokens == expected["input_ids"][0].tolist()
    assert np.array_equal(made.inputs["pixel_values"], np.array(expected["pixel_values"]))
    assert (made.features, made.grid) == (24, (1, 4, 6))  # a token is 8 x 8 of its 32 x 48 pixels
    assert made.bytes > 96 * 96 * 4 - 1


@pytest.mark.parametrize(
    ("name", "takes"),
    [("llava", {"image"}), ("gemma4", {"image", "video"}), ("gemma4_audio", {"image", "video", "audio"})],
)
def test_what_a_model_takes(vision_folder: Folders, name: str, takes: set[str]) -> None:
    assert load_vision_model(str(vision_folder(name))).reader.kinds == takes


def test_a_picture_with_a_salt_is_another(qwen: VisionModel) -> None:
    part = of(png(picture(1)))
    plain, ann, ben = (read(qwen, part, salt=salt) for salt in (b"", b"ann", b"ben"))
    assert len({plain.digest, ann.digest, ben.digest}) == 3
    assert read(qwen, part, salt=b"ann") is ann
    assert ann.tokens == ben.tokens


def test_the_same_picture_in_another_file_is_the_same(qwen: VisionModel) -> None:
    first, again = read(qwen, of(png(picture(1)))), read(qwen, of(png(picture(1)) + b"trailing"))
    assert first.digest == again.digest


@pytest.mark.parametrize(
    "other",
    [
        of(png(with_one_pixel(picture(1)))),
        of(png(picture(1, 48, 32))),
        of(png(picture(1)), resize_shape=(64, 96)),
        of(png(picture(1)), min_pixels=8000),
        of(png(picture(1)), max_pixels=900),
        # The model sees the same.
        of(png(picture(1)), resize_shape=(32, 48)),
        of(png(picture(1)), detail="low"),
    ],
)
def test_other_pixels_and_sizes_are_told_apart(qwen: VisionModel, other: MediaPart) -> None:
    assert read(qwen, of(png(picture(1)))).digest != read(qwen, other).digest


def test_two_sizes_of_one_colour_are_told_apart(qwen: VisionModel) -> None:
    """They have the same pixels, one after the other."""
    wide, high = (read(qwen, of(png(Image.new("RGB", size, (90, 90, 90))))) for size in ((48, 32), (32, 48)))
    assert wide.digest != high.digest
    films = (np.full((2, 3, *size), 90, np.uint8) for size in ((48, 32), (32, 48)))
    wide, high = (read(qwen, of(video(frames), "video")) for frames in films)
    assert wide.digest != high.digest


def test_what_is_lost_when_it_is_resized_tells_apart(qwen: VisionModel) -> None:
    base = Image.new("RGB", (640, 640), (90, 90, 90))
    other = base.copy()
    other.putpixel((5, 5), (91, 90, 90))
    first, second = (read(qwen, of(png(image), resize_shape=(32, 32))) for image in (base, other))
    assert np.array_equal(first.inputs["pixel_values"], second.inputs["pixel_values"])
    assert first.digest != second.digest


def test_details_that_change_nothing_tell_nothing_apart(qwen: VisionModel) -> None:
    first, *others = (read(qwen, of(png(picture(1)), detail=detail)) for detail in (None, "high", "auto"))
    assert {first.digest} == {other.digest for other in others}


def test_how_a_sound_looks_tells_nothing_apart(omni: VisionModel) -> None:
    """`resize_shape` is a field of the request, for its pictures."""
    data = wav(sound(1))
    assert read(omni, of(data, "audio")).digest == read(omni, of(data, "audio", resize_shape=(8, 8))).digest


def test_what_was_done_is_in_the_log(omni: VisionModel, caplog: pytest.LogCaptureFixture) -> None:
    """Each time, also where it was done before."""
    large = png(picture(7, 64, 96))
    told = {
        "an image of 96 x 64 pixels, as 48 x 32; it takes 24 tokens": of(large, resize_shape=(48, 48)),
        "a sound, as 8000 samples at 16000 Hz; it takes 7 tokens": of(wav(sound(7)), "audio"),
        "4 of 4 frames of 48 x 32 pixels, as 24 x 16; it takes": of(video(film(7)), "video", resize_shape=(16, 24)),
    }
    for words, part in told.items():
        for param in ("first", "second"):
            caplog.clear()
            with caplog.at_level(logging.DEBUG, "orchard.worker"):
                read(omni, replace(part, param=param))
            assert f"{param}: {words}" in caplog.text


def test_pixels_are_bounded_by_a_processor_that_can(qwen: VisionModel) -> None:
    assert read(qwen, of(png(picture(1, 64, 96)), max_pixels=32 * 48)).grid == (1, 4, 6)


@pytest.mark.parametrize(
    ("options", "rows"),
    [({}, 8), ({"max_pixels": 32 * 32}, 4), ({"min_pixels": 128 * 128}, 16), ({"max_pixels": 96 * 96}, 8)],
)
def test_a_processors_own_bound_gives_way(vision_folder: Folders, options: dict[str, Any], rows: int) -> None:
    """One that contradicts the bound that is asked for, and only for that picture."""
    reader = load_vision_model(str(vision_folder("qwen3_vl"))).reader
    reader._images.min_pixels = reader._images.max_pixels = 64 * 64
    medium = reader.read(of(png(picture(1, 16, 16)), **options), FAMILIES["qwen3_vl"].image)
    assert medium.grid == (1, rows, rows)
    assert reader._images.min_pixels == reader._images.max_pixels == 64 * 64


def test_pixels_are_bounded_by_a_processor_that_takes_no_arguments(qwen: VisionModel, vision_folder: Folders) -> None:
    """As those of PaddleOCR-VL, GLM-OCR, Hunyuan and ERNIE, which resize pictures as Qwen's do."""
    images = PaddleImages(min_pixels=16, patch_size=4, merge_size=2)
    _, qwens = load_reference(vision_folder("qwen3_vl"))
    processor = PaddleProcessor(images, qwens.tokenizer)
    processor.image_token = qwens.image_token
    reader = MediaReader(processor, qwen.network)
    data = png(picture(1, 64, 96))
    whole, small = of(data), of(data, max_pixels=32 * 48)
    assert reader.read(whole, processor.image_token).grid == (1, 8, 12)
    assert reader.read(small, processor.image_token).grid == (1, 4, 6)


@pytest.mark.parametrize("options", [{}, {"min_pixels": 64 * 96 * 4}, {"max_pixels": 900}, {"resize_shape": (32, 32)}])
def test_what_is_expected_of_a_picture(vision_folder: Folders, options: dict[str, Any]) -> None:
    """It is known before the processor makes it, but for the rounding of sides."""
    reader = load_vision_model(str(vision_folder("qwen3_vl"))).reader
    expected: list[Medium] = []
    data, placeholder = png(picture(1, 64, 96)), FAMILIES["qwen3_vl"].image
    made = reader.read(of(data, **options), placeholder, expected.append)
    assert expected[0].features == len(expected[0].tokens) == pytest.approx(made.features, rel=0.3)
    assert expected[0].bytes == pytest.approx(made.bytes, rel=0.3)
    assert reader.read(of(data, **options), placeholder, expected.append) is made
    assert len(expected) == 1


@pytest.mark.parametrize("change", [{"patch_size": {"height": 4, "width": 4}}, {"merge_size": None}], ids=str)
def test_of_other_processors_nothing_is_expected(
    qwen: VisionModel, vision_folder: Folders, change: dict[str, Any]
) -> None:
    """As of Pixtral's, whose patches have two sides, and Jina's, which does not merge any."""
    _, processor = load_reference(vision_folder("qwen3_vl"))
    images = SimpleNamespace(min_pixels=64, max_pixels=8192, patch_size=4, merge_size=2)
    for name, value in change.items():
        setattr(images, name, value) if value else delattr(images, name)
    processor.image_processor = images
    assert not MediaReader(processor, qwen.network)._patch


def test_what_is_too_large_is_not_made(vision_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = load_vision_model(str(vision_folder("qwen3_vl"))).reader

    def refuse(expected: Medium) -> None:
        raise OrchardError("invalid_request", f"{expected.bytes:,} bytes")

    monkeypatch.setattr(MediaReader, "_run_processor", lambda *_: pytest.fail("it was made"))
    with pytest.raises(OrchardError, match="1,200,000,000 bytes"):
        reader.read(of(png(picture(1)), min_pixels=50_000_000), FAMILIES["qwen3_vl"].image, refuse)


def test_pixels_are_bounded_for_a_processor_that_can_not(vision_folder: Folders) -> None:
    reader = load_vision_model(str(vision_folder("idefics3"))).reader
    data = png(picture(1, 64, 96))
    large, small = reader.read(of(data), "<image>"), reader.read(of(data, max_pixels=600), "<image>")
    assert large.digest != small.digest
    assert not np.array_equal(large.inputs["pixel_values"], small.inputs["pixel_values"])


def test_a_sound_of_which_nothing_is_heard_is_refused(omni: VisionModel) -> None:
    with pytest.raises(OrchardError, match="too short or too small") as caught:
        read(omni, of(wav(sound(1)[:30]), "audio"))
    assert (caught.value.kind, caught.value.param) == ("invalid_request", PARAM)


def test_one_sample_makes_another_sound(omni: VisionModel) -> None:
    samples = sound(1)
    changed = samples.copy()
    changed[4000] += 0.01
    first, again, other = (read(omni, of(wav(one), "audio")) for one in (samples, samples, changed))
    assert first.digest == again.digest
    assert first.digest != other.digest
    assert first.features == 7
    assert first.grid is None


def test_what_the_processor_refuses_is_the_callers_fault(qwen: VisionModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **named: object) -> None:
        raise ValueError("too narrow")

    monkeypatch.setattr(MediaReader, "_run_processor", refuse)
    with pytest.raises(OrchardError, match="processor rejects it: too narrow") as caught:
        read(qwen, of(png(picture(9))))
    assert (caught.value.kind, caught.value.param) == ("invalid_request", PARAM)


@pytest.fixture
def prepares(vision_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Medium]:
    """Read a picture with a processor that makes what it is told of the placeholder's tokens."""
    reader = load_vision_model(str(vision_folder("qwen3_vl"))).reader

    def read_with(call: Callable[[Any], dict[str, Any]]) -> Medium:
        monkeypatch.setattr(reader, "_call", lambda text, **given: call(text))
        return reader.read(of(png(picture(1))), f"{FAMILIES['qwen3_vl'].image}\n")

    read_with.reader = reader  # type: ignore[attr-defined]
    return read_with


def test_a_processor_may_encode_its_text(prepares: Any) -> None:
    """As Kimi-VL's does."""
    medium = prepares(
        lambda text: {
            "input_ids": [prepares.reader._recorder.encode(text.replace("<|image_pad|>", "<|image_pad|>" * 3))],
            "pixel_values": np.zeros(3),
        }
    )
    assert (medium.features, medium.text) == (3, f"<|vision_start|>{'<|image_pad|>' * 3}<|vision_end|>\n")


@pytest.mark.parametrize("end", [[], ["\n"]])
def test_a_processor_may_put_tokens_together(prepares: Any, end: list[str]) -> None:
    """As those of Step and DeepSeek do, of which one leaves out the last token. Its inputs are lists of arrays."""
    tokenizer = prepares.reader._tokenizer
    tokens = tokenizer.encode("".join(["<|image_pad|>" * 3, *end]))
    medium = prepares(lambda text: {"input_ids": mx.array([tokens]), "pixel_values": [[mx.zeros((2, 3))], "of"]})
    assert (medium.features, medium.text, medium.tokens) == (3, "<|image_pad|>" * 3 + "\n", tokens)
    assert isinstance(medium.inputs["pixel_values"][0][0], np.ndarray)
    assert medium.bytes == 2 * 3 * 4


def test_a_processor_that_only_passes_a_placeholder_on_is_refused(prepares: Any) -> None:
    """The model would answer without having seen anything."""
    with pytest.raises(OrchardError, match="too short or too small for the model"):
        prepares(lambda text: {"input_ids": [prepares.reader._recorder.encode(text)]})


def test_tokens_that_the_encoders_embed() -> None:
    """Gemma 3n has a table of them in each encoder, for what stands behind a picture, too."""
    known: dict[str, Any] = {"model_type": "gemma3n", "image_token_id": 7, "audio_token_id": 9, "audio_config": None}
    text, vision = SimpleNamespace(vocab_size=11), SimpleNamespace(vocab_offset=6)
    config = SimpleNamespace(**known, text_config=text, vision_config=vision)
    assert set(_token_ids(config, SimpleNamespace())) == {6, 7, 8, 9, 10}


def test_tokens_without_a_text_are_refused(prepares: Any) -> None:
    with pytest.raises(OrchardError, match="its tokens have no text"):
        prepares(lambda text: {"input_ids": [[1, -200]], "pixel_values": np.zeros(1)})


def test_a_placeholder_is_tried_out(qwen: VisionModel) -> None:
    expanded = qwen.reader.expand_placeholder("image", image := FAMILIES["qwen3_vl"].image)
    assert expanded
    assert len(expanded) > len(image)
    assert qwen.reader.expand_placeholder("image", "<image>") is None


def test_a_medium_is_prepared_once(vision_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same file with the same options, however often it is sent; nothing is kept of one that can't be read."""
    reader, placeholder = load_vision_model(str(vision_folder("qwen3_vl"))).reader, FAMILIES["qwen3_vl"].image
    decoded: list[MediaPart] = []

    def decode(part: MediaPart) -> object:
        decoded.append(part)
        return decode_image(part)

    monkeypatch.setattr("orchard.backends.vision.inputs.decode_image", decode)
    data = png(picture(1))
    first = reader.read(of(data), placeholder)
    assert reader.read(replace(of(data), param="another"), placeholder) is first
    assert len(decoded) == 1
    reader.read(of(data, detail="low"), placeholder)
    reader.read(of(data), f"{placeholder} ")
    assert len(decoded) == 3
    for param in ("one", "other"):
        with pytest.raises(OrchardError) as caught:
            reader.read(replace(of(data[:100]), param=param), placeholder)
        assert caught.value.param == param
