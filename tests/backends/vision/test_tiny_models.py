"""The tiny vision models: mlx-vlm itself loads and runs them, and what they say tells media apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_vlm
import pytest

from tests.support.examples import some
from tests.support.media import film, picture, sound, with_one_pixel
from tests.support.vision_families import FAMILIES
from tests.support.vision_models import load_reference, logprobs_of, prompt

Folders = Callable[[str], Path]


@pytest.fixture(scope="module", params=some(list(FAMILIES), 5))
def reference(request: pytest.FixtureRequest, vision_folder: Folders) -> tuple[str, Any, Any]:
    return request.param, *load_reference(vision_folder(request.param))


def logprobs(model: Any, processor: Any, *kinds: str, **media: list[Any]) -> mx.array:
    return logprobs_of(model, processor, prompt(processor, *kinds), **media)


def apart(one: mx.array, other: mx.array) -> bool:
    return bool((mx.abs(one - other) > 0.01).any())


def test_a_folder_is_small(vision_folder: Folders) -> None:
    for name in FAMILIES:
        assert sum(file.stat().st_size for file in vision_folder(name).iterdir()) < 2**20, name


def test_mlx_vlm_answers_a_question_about_a_picture(reference: tuple[str, Any, Any]) -> None:
    _, model, processor = reference
    asked = prompt(processor, "image")
    answers = [
        mlx_vlm.generate(model, processor, asked, image=[picture(seed)], max_tokens=8, temperature=0.0)
        for seed in (1, 1, 2)
    ]
    assert answers[0].generation_tokens == 8
    assert answers[0].text == answers[1].text != answers[2].text


def test_logits_tell_pictures_apart(reference: tuple[str, Any, Any]) -> None:
    _, model, processor = reference
    image = picture(1)
    first, again, other, one_pixel = (
        logprobs(model, processor, "image", images=[each])
        for each in (image, image.copy(), picture(2), with_one_pixel(image))
    )
    assert mx.array_equal(first, again)
    assert apart(first, other)
    assert apart(first, one_pixel)


def test_logits_tell_the_order_of_pictures(reference: tuple[str, Any, Any]) -> None:
    _, model, processor = reference
    one, other = picture(1), picture(2)
    assert apart(
        logprobs(model, processor, "image", "image", images=[one, other]),
        logprobs(model, processor, "image", "image", images=[other, one]),
    )


@pytest.mark.parametrize("name", some([name for name, family in FAMILIES.items() if family.audio], 2))
def test_logits_tell_sounds_apart(name: str, vision_folder: Folders) -> None:
    model, processor = load_reference(vision_folder(name))
    samples = sound(1)
    altered = samples.copy()
    altered[3000] = 1 if altered[3000] < 0 else -1
    first, again, other, one_sample = (
        logprobs(model, processor, "audio", audio=[each]) for each in (samples, samples, sound(2), altered)
    )
    assert mx.array_equal(first, again)
    assert apart(first, other)
    assert not mx.array_equal(first, one_sample)


@pytest.mark.parametrize("name", some([name for name, family in FAMILIES.items() if family.video], 5))
def test_logits_tell_films_apart(name: str, vision_folder: Folders) -> None:
    model, processor = load_reference(vision_folder(name))
    first, backwards, other = (
        logprobs(model, processor, "video", videos=[each]) for each in (film(1), film(1)[::-1], film(2))
    )
    assert apart(first, backwards)
    assert apart(first, other)
