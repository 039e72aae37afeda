"""What a request's images are made with, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from PIL import Image

from orchard.backends.images.drawing import make_drawing, read_pictures
from orchard.backends.images.presets import PRESETS, Preset
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.images import LEAST_SIDE, SIDE_STEP, EditImages, GenerateImages
from tests.support.examples import examples

FLUX = PRESETS["flux-dev"]
GENERATING = [preset for preset in PRESETS.values() if not preset.can_edit]


def refusal(task: GenerateImages | EditImages, preset: Preset) -> tuple[str | None, str]:
    with pytest.raises(OrchardError) as caught:
        make_drawing(task, preset)
    assert caught.value.kind == "invalid_request"
    return caught.value.param, caught.value.message


@pytest.fixture
def picture(tmp_path: Path) -> MediaPart:
    Image.new("RGB", (96, 64), "red").save(tmp_path / "picture.png")
    return uploaded(tmp_path / "picture.png")


def uploaded(path: Path) -> MediaPart:
    return MediaPart("image", "", "image", path=str(path))


def test_what_is_not_said_is_as_the_preset_has_it() -> None:
    drawing = make_drawing(GenerateImages(prompt="a cat"), FLUX)
    assert (drawing.width, drawing.height, drawing.steps, drawing.guidance) == (1024, 1024, 25, 3.5)
    assert (drawing.negative_prompt, drawing.partial_steps) == (None, ())
    assert make_drawing(GenerateImages(prompt="a cat"), PRESETS["flux-schnell"]).guidance is None


def test_too_few_steps_are_refused() -> None:
    task = GenerateImages(prompt="a cat", steps=1)
    assert refusal(task, PRESETS["qwen-image"]) == ("steps", "`steps` of qwen-image must be at least 2")
    assert make_drawing(task, FLUX).steps == 1
    assert refusal(GenerateImages(prompt="a cat", steps=0), FLUX)[0] == "steps"


def test_seeds_are_drawn_by_lot() -> None:
    assert make_drawing(GenerateImages(prompt="a cat", seed=5), FLUX).seed == 5
    assert len({make_drawing(GenerateImages(prompt="a cat"), FLUX).seed for _ in range(5)}) == 5


@pytest.mark.parametrize("preset", GENERATING, ids=lambda preset: preset.name)
@pytest.mark.parametrize("field", ["guidance", "negative_prompt", "partial_images"])
def test_what_a_preset_does_not_use_is_refused(preset: Preset, field: str) -> None:
    wanted: dict[str, Any] = {"guidance": 2.0, "negative_prompt": "dogs", "partial_images": 1}
    needed = {"negative_prompt": "guidance", "guidance": "negative_prompt"}.get(field)
    fields = {name: wanted[name] for name in (field, needed) if name in preset.parameters or name == field}
    task = GenerateImages(prompt='{"a": 1}', **fields)
    if field in preset.parameters:
        drawing = make_drawing(task, preset)
        assert (drawing.partial_steps if field == "partial_images" else getattr(drawing, field)) in (
            wanted[field],
            (preset.steps // 2,),
        )
    else:
        param, message = refusal(task, preset)
        assert param == field
        assert f"{preset.name} takes no `{field}`: it takes {', '.join(preset.parameters)}" == message


def test_guidance_that_would_do_nothing_is_refused() -> None:
    assert refusal(GenerateImages(prompt="a cat", guidance=0.0), PRESETS["flux-schnell"])[0] == "guidance"
    task = GenerateImages(prompt="a cat", guidance=2.0)
    assert refusal(task, PRESETS["qwen-image-2.1"])[0] == "guidance"
    assert make_drawing(task, PRESETS["qwen-image"]).guidance == 2.0


@pytest.mark.parametrize("guidance", [0.0, 1.0])
def test_a_negative_prompt_that_would_do_nothing_is_refused(guidance: float) -> None:
    task = GenerateImages(prompt="a cat", negative_prompt="dogs", guidance=guidance)
    assert refusal(task, PRESETS["qwen-image"])[0] == "negative_prompt"


@pytest.mark.parametrize("prompt", ["a cat", "[1]", "5", '{"scene":', "[" * 100_000])
def test_fibo_takes_json(prompt: str) -> None:
    param, message = refusal(GenerateImages(prompt=prompt), PRESETS["fibo"])
    assert param == "prompt"
    assert message.startswith("`prompt` of fibo must be a JSON object that describes the image; it may be plain text")
    assert make_drawing(GenerateImages(prompt=prompt), PRESETS["fibo"], can_describe=True).prompt == prompt
    assert make_drawing(GenerateImages(prompt='{"scene": "a cat"}'), PRESETS["fibo"]).prompt == '{"scene": "a cat"}'


def test_sizes_are_taken_as_they_are() -> None:
    drawing = make_drawing(GenerateImages(prompt="a cat", width=2048, height=48), FLUX)
    assert (drawing.width, drawing.height) == (2048, 48)


@given(steps=st.integers(1, 60), count=st.integers(0, 3))
@examples(100)
def test_partial_images_are_spread_over_the_steps(steps: int, count: int) -> None:
    after = make_drawing(GenerateImages(prompt="a cat", steps=steps, partial_images=count), FLUX).partial_steps
    assert len(after) == min(count, steps - 1)
    assert list(after) == sorted(set(after))
    assert all(0 < step < steps for step in after)
    gaps = [later - earlier for earlier, later in zip((0, *after), (*after, steps), strict=True)]
    assert max(gaps) - min(gaps) <= 1


def test_edits_have_the_shape_of_their_picture(tmp_path: Path, picture: MediaPart) -> None:
    drawing = make_drawing(EditImages(prompt="a cat", images=(picture,)), PRESETS["flux-kontext-dev"])
    assert (drawing.width, drawing.height) == (96, 64)
    Image.new("RGB", (4000, 1000)).save(tmp_path / "wide.png")
    drawing = make_drawing(
        EditImages(prompt="a cat", images=(uploaded(tmp_path / "wide.png"),)), PRESETS["flux-kontext-dev"]
    )
    assert (drawing.width, drawing.height) == (2048, 512)
    named = EditImages(prompt="a cat", images=(picture,), width=64, height=64)
    assert make_drawing(named, PRESETS["flux-kontext-dev"]).width == 64


@given(width=st.integers(16, 3000), ratio=st.floats(1 / 16, 16))
@examples(100)
def test_every_picture_has_a_size_that_is_possible(
    tmp_path_factory: pytest.TempPathFactory, width: int, ratio: float
) -> None:
    height = max(16, min(3000, int(width * ratio)))
    if max(width, height) > 16 * min(width, height):
        return
    file = tmp_path_factory.getbasetemp() / "shaped.png"
    Image.new("1", (width, height)).save(file)
    drawing = make_drawing(EditImages(prompt="a cat", images=(uploaded(file),)), PRESETS["qwen-image-edit"])
    sides = drawing.width, drawing.height
    task = EditImages(prompt="a cat", images=(uploaded(file),), width=sides[0], height=sides[1])
    assert make_drawing(task, PRESETS["qwen-image-edit"]).width == sides[0]


@pytest.mark.parametrize(
    ("preset", "fields", "param", "message"),
    [
        (
            "flux-kontext-dev",
            {"images": 2},
            "image",
            "flux-kontext-dev edits one input image, and there are 2",
        ),
        (
            "flux2-klein-edit-4b",
            {"images": 5},
            "image",
            "flux2-klein-edit-4b edits at most 4 input images, and there are 5",
        ),
        (
            "qwen-image-edit",
            {"mask": True},
            "mask",
            "qwen-image-edit takes no `mask`: it takes prompt, n, size, seed, steps, image, guidance, "
            "negative_prompt, partial_images",
        ),
        ("flux-fill-dev", {}, "mask", "flux-fill-dev needs a `mask`, which says where it is to paint"),
        (
            "flux-dev",
            {},
            "model",
            "the model's preset flux-dev generates images; presets that edit them are flux-kontext-dev, flux-fill-dev, "
            "flux2-klein-edit-4b, flux2-klein-edit-9b, qwen-image-edit, qwen-image-edit-2511",
        ),
    ],
)
def test_edits_that_a_preset_can_not_do_are_refused(
    picture: MediaPart, preset: str, fields: dict[str, Any], param: str, message: str
) -> None:
    images = (picture,) * fields.get("images", 1)
    task = EditImages(prompt="a cat", images=images, mask=replace(picture, param="mask") if "mask" in fields else None)
    assert refusal(task, PRESETS[preset]) == (param, message)


def test_a_preset_that_edits_does_not_generate() -> None:
    param, message = refusal(GenerateImages(prompt="a cat"), PRESETS["flux-kontext-dev"])
    assert param == "model"
    assert message.startswith("the model's preset flux-kontext-dev edits images; presets that generate them are flux-s")


def test_pictures_are_read_with_their_mask(tmp_path: Path, picture: MediaPart) -> None:
    Image.new("L", (96, 64), "white").save(tmp_path / "mask.png")
    task = EditImages(prompt="a cat", images=(picture,), mask=uploaded(tmp_path / "mask.png"))
    pictures = read_pictures(task)
    assert [image.size for image in pictures.images] == [(96, 64)]
    assert pictures.mask
    assert read_pictures(GenerateImages(prompt="a cat")).images == ()


# The dialect refuses all other sizes.
SIDES = st.none() | st.integers(LEAST_SIDE // SIDE_STEP, 2048 // SIDE_STEP).map(lambda steps: steps * SIDE_STEP)
TASKS = st.builds(
    GenerateImages,
    prompt=st.text(max_size=20) | st.sampled_from(['{"a": 1}', "{", "a cat"]),
    n=st.integers(1, 10),
    width=SIDES,
    height=SIDES,
    steps=st.none() | st.integers(1, 200),
    guidance=st.none() | st.floats(allow_nan=True, allow_infinity=True),
    negative_prompt=st.none() | st.text(max_size=5),
    seed=st.none() | st.integers(0, 2**63 - 1),
    partial_images=st.integers(0, 3),
)


@given(task=TASKS, preset=st.sampled_from(sorted(PRESETS)))
@examples(300)
def test_whatever_is_asked_for_is_settled_or_refused_with_a_field_to_blame(task: GenerateImages, preset: str) -> None:
    refused: OrchardError | None = None
    try:
        drawing = make_drawing(task, PRESETS[preset])
    except OrchardError as error:
        refused = error
    if refused:
        assert refused.kind == "invalid_request"
        assert refused.param in {"model", "prompt", "guidance", "negative_prompt", "partial_images", "steps"}
        return
    assert drawing.width % 16 == drawing.height % 16 == 0
    assert 0 < drawing.width * drawing.height <= 2048 * 2048
    assert drawing.prompt == task.prompt
    assert task.guidance is None or drawing.guidance is task.guidance
