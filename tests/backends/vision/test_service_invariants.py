"""An answer about media depends on its request alone: not on its company, the order, the cache or the chunks."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchard.backends.vision.model import load_vision_model
from orchard.backends.vision.service import VisionService
from orchard.core.events import Started, collect
from orchard.core.media import MediaKind, MediaOptions, MediaPart
from orchard.core.tasks.generate import Generate, Grammar, Message, Part, Sampling, TextPart
from orchard.core.tasks.text_options import TextOptions
from tests.support.engine_driver import store_calibration
from tests.support.examples import some
from tests.support.media import film, picture, png, sound, video, wav, with_one_pixel
from tests.support.models import SPECIAL, make_tokenizer
from tests.support.vision_families import FAMILIES
from tests.support.worker_caller import Caller, serving

_GO_ON = dict.fromkeys(make_tokenizer().encode("".join(SPECIAL)).ids, -100.0)  # no token that ends an answer

Folders = Callable[[str], Path]
Said = list[bytes]

# `make test` takes the first of them; others are tried there with less around them, in tests/engine.
_SOME = [
    *("gemma4_audio", "qwen3_vl", "qwen2_5_vl", "idefics3", "qwen3_omni_moe"),
    *("gemma4_per_layer", "gemma3", "qwen3_5", "llava", "gemma4"),
]


def medium(kind: MediaKind, data: bytes, **options: Any) -> MediaPart:
    return MediaPart(kind, "", "messages[0].content[0]", data=data, options=MediaOptions(**options))


def image(seed: int, height: int = 32, width: int = 48) -> MediaPart:
    return medium("image", png(picture(seed, height, width)))


def said(*parts: Part | str, role: Any = "user") -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def ask(*messages: Message, **fields: Any) -> Generate:
    asked: dict[str, Any] = {"sampling": Sampling(temperature=0.0, logit_bias=_GO_ON), "max_tokens": 8}
    return Generate(messages, top_logprobs=0, **(asked | fields))


def company(name: str) -> dict[str, Generate]:
    """Requests that begin alike and differ in their media, with texts among them."""
    asked = {
        "text": ask(said("What is blue?")),
        "one": ask(said(image(1), "What is blue?")),
        "other": ask(said(image(2), "What is blue?")),
        "two": ask(said(image(1), image(2, 40, 24), "What is blue?")),
        "turned": ask(said(image(2, 40, 24), image(1), "What is blue?")),
        "between": ask(said("This ", image(1), " and that."), said("I see.", role="assistant"), said(image(2), "?")),
        "sampled": ask(said(image(1), "What is blue?"), sampling=Sampling(temperature=0.9, seed=5, logit_bias=_GO_ON)),
        "both": ask(
            said(image(2), "What is blue?"), sampling=Sampling(temperature=1.0, seed=6, logit_bias=_GO_ON), n=2
        ),
        "bound": ask(said(image(1), "What is blue?"), grammar=Grammar("choice", ["The sea is blue", "The sky"], "g")),
        "long": ask(said("The sea is blue and the sky is blue too. " * 6, image(3), "Hello, how are you?")),
    }
    if FAMILIES[name].audio:
        asked["heard"] = ask(said(medium("audio", wav(sound(1))), "What is blue?"))
        asked["seen and heard"] = ask(said(image(1), medium("audio", wav(sound(2))), "What is blue?"))
    if FAMILIES[name].video:
        asked["film"] = ask(said(medium("video", video(film(1))), "What is blue?"))
        asked["film and picture"] = ask(said(medium("video", video(film(2))), image(1), "What is blue?"))
    return asked


async def told(caller: Caller, name: str, task: Generate) -> tuple[Said, int]:
    """Return the bytes of an answer's tokens, of all choices, and how many of the prompt's were cached."""
    events = await caller.stream(name, task)
    assert isinstance(events[0], Started), (name, events)
    collected = collect(events)
    return [one.token.bytes for choice in collected.choices for one in choice.logprobs], collected.usage.cached_tokens


async def one_by_one(caller: Caller, asked: dict[str, Generate]) -> dict[str, tuple[Said, int]]:
    return {name: await told(caller, name, task) for name, task in asked.items()}


async def at_once(caller: Caller, asked: dict[str, Generate]) -> dict[str, tuple[Said, int]]:
    answers = await asyncio.gather(*(told(caller, name, task) for name, task in asked.items()))
    return dict(zip(asked, answers, strict=True))


def answers(found: dict[str, tuple[Said, int]]) -> dict[str, Said]:
    return {name: answer for name, (answer, _) in found.items()}


def test_every_family_is_tried() -> None:
    assert set(_SOME) == set(FAMILIES)


@pytest.mark.parametrize("name", some(_SOME, 10))
async def test_an_answer_depends_on_its_request_alone(vision_folder: Folders, tmp_path: Path, name: str) -> None:
    folder, asked = vision_folder(name), company(name)
    store_calibration(load_vision_model(str(folder)), TextOptions())
    turned = dict(reversed(asked.items()))
    async with serving(folder, VisionService, prompt_cache_bytes=0) as caller:
        alone = await one_by_one(caller, asked)
        expected = answers(alone)
        assert not any(cached for _, cached in alone.values())
        assert answers(await at_once(caller, asked)) == expected
    assert len({tuple(answer) for answer in expected.values()}) == len(asked)  # else they would prove little
    kept = str(tmp_path / "cache")
    async with serving(folder, VisionService, prompt_cache_dir=kept, prefill_step_size=16) as caller:
        assert answers(await at_once(caller, turned)) == expected
        warm = await at_once(caller, asked)
        assert answers(warm) == expected
        assert all(cached for _, cached in warm.values())
    async with serving(folder, VisionService, prompt_cache_dir=kept) as caller:
        again = await at_once(caller, asked)
        assert answers(again) == expected
        assert all(cached for _, cached in again.values())


@pytest.mark.parametrize("name", some(["gemma4_audio", "llava", "qwen3_5", "qwen3_omni_moe"], 4))
async def test_what_differs_a_little_shares_nothing(vision_folder: Folders, name: str) -> None:
    """Only what stands before the medium comes from the cache, also where both are read at once."""
    base = picture(1, 32, 32)
    alike = [
        [medium("image", png(base)), medium("image", png(with_one_pixel(base)))],
        [medium("image", png(base), resize_shape=(24, 24)), medium("image", png(base), resize_shape=(25, 25))],
    ]
    if FAMILIES[name].audio:
        samples = sound(1)
        changed = samples.copy()
        changed[4000] = -changed[4000]
        alike.append([medium("audio", wav(samples)), medium("audio", wav(changed))])
    question = "What is blue? The sea is blue and the sky is blue too."
    store_calibration(load_vision_model(str(vision_folder(name))), TextOptions())
    async with serving(vision_folder(name), VisionService, prompt_cache_bytes=0) as caller:
        alone = [[(await told(caller, "a", ask(said("Hello ", part, question))))[0] for part in pair] for pair in alike]
    async with serving(vision_folder(name), VisionService) as caller:
        for pair, expected in zip(alike, alone, strict=True):
            first, second = (ask(said("Hello ", part, question)) for part in pair)
            assert (await told(caller, "first", first))[0] == expected[0]
            answer, cached = await told(caller, "second", second)
            assert answer == expected[1]
            _, whole = await told(caller, "second again", second)
            assert cached < 16 < whole  # a medium has more tokens than what stands before it
            assert answers(await at_once(caller, {"a": first, "b": second})) == dict(zip("ab", expected, strict=True))
