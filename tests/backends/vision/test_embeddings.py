"""Embeddings of pictures by models that generate text, on tiny models: they are mlx-vlm's own last hidden states."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_vlm.embedding_loader import load_embedding_model
from mlx_vlm.utils import load_processor, prepare_inputs

from orchard.backends import output_layer
from orchard.backends.output_layer import OutputLayer
from orchard.backends.text import embeddings as text_embeddings
from orchard.backends.vision.service import VisionService
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.embed import Embed, Embedding, MixedInput
from orchard.core.tasks.generate import Generate, Message, Sampling, TextPart
from tests.support.examples import some
from tests.support.media import picture, png
from tests.support.vision_families import FAMILIES, WINDOW
from tests.support.vision_models import load_reference, logprobs_of, make_vision_model, prompt
from tests.support.worker_caller import Caller, serving

Folders = Callable[[str], Path]


def image(seed: int) -> MediaPart:
    return MediaPart("image", "", f"input[{seed}]", data=png(picture(seed, 32, 40 + 8 * seed)))


def mixed(*parts: str | MediaPart) -> MixedInput:
    return MixedInput(tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


async def vectors(caller: Caller, name: str, *inputs: Any) -> list[Any]:
    made = (await caller.ask(name, Embed(inputs))).outputs
    found = {output.choice: np.frombuffer(output.read(Embedding).vector, "<f4") for output in made}
    return [found[number] for number in range(len(inputs))]


def reference(folder: Path, text: str, *seeds: int) -> Any:
    """What mlx-vlm's own output layer reads for the last token of a prompt, of length 1."""
    model, processor = load_reference(folder)
    layer = OutputLayer(model.language_model, lambda: model.language_model(mx.array([[0]]), cache=None).logits)
    seen: list[mx.array] = []
    pictures = [picture(seed, 32, 40 + 8 * seed) for seed in seeds]
    with output_layer._watch_calls([layer._layer], lambda one, inputs, made: seen.append(inputs)):
        logprobs_of(model, processor, text, images=pictures)
    # It reads all but the last token in one pass.
    last = np.array(next(one for one in seen if one.shape[1:] == (1, layer.width))[0, -1])
    return last / np.linalg.norm(last)


@pytest.mark.parametrize("family", some([name for name in FAMILIES if "audio" not in name and "omni" not in name], 8))
async def test_a_picture_among_texts(family: str, vision_folder: Folders) -> None:
    folder, place = vision_folder(family), FAMILIES[family].image
    async with serving(folder, VisionService, embeddings=True) as caller:
        inputs = mixed("What is ", image(1), " blue?"), mixed(image(2))
        found = await vectors(caller, "a", *inputs)
        assert found[0] == pytest.approx(reference(folder, f"What is {place} blue?", 1), abs=1e-4)
        assert found[1] == pytest.approx(reference(folder, place, 2), abs=1e-4)
        await caller.until_free()


async def test_pictures_in_any_pieces_beside_an_answer(vision_folder: Folders) -> None:
    task = Generate(prompt="The sea", sampling=Sampling(temperature=0.0), max_tokens=60)
    inputs = [mixed("Here ", image(n), " and ", image(n + 1)) for n in range(3)]
    async with serving(vision_folder("qwen3_vl"), VisionService, warm=True, embeddings=True) as caller:
        whole = await vectors(caller, "a", *inputs, "The sky")
        alone = (await caller.ask("b", task)).choices[0].text
    options: dict[str, Any] = {"embeddings": True, "prefill_step_size": 3}
    async with serving(vision_folder("qwen3_vl"), VisionService, warm=True, **options) as caller:
        caller.submit("c", task)
        pieces = await vectors(caller, "d", *inputs, "The sky")
        await caller.until(lambda: caller.ended("c"))
        assert (await caller.ask("e", task)).choices[0].text == alone
    assert np.allclose(pieces, whole, atol=1e-4)
    assert not np.allclose(whole[0], whole[1], atol=1e-2)


@pytest.mark.parametrize(
    ("given", "param", "message"),
    [
        (
            mixed(MediaPart("image", "", "input[0].image_url", data=b"no picture")),
            "input[0].image_url",
            r"`input\[0\].image_url` can't be read",
        ),
        (mixed("<|image_pad|>", image(1)), "input", "`input` contains text that stands for media"),
        (mixed("fine " * WINDOW, image(1)), "input", "this model reads at most .*; what has media is never cut"),
    ],
)
async def test_what_is_refused(given: MixedInput, param: str, message: str, vision_folder: Folders) -> None:
    async with serving(vision_folder("qwen3_vl"), VisionService, warm=True, embeddings=True) as caller:
        with pytest.raises(OrchardError, match=message) as caught:
            await caller.ask("a", Embed((given,), truncate=True))
        assert (caught.value.kind == "context_length_exceeded") == ("reads at most" in message)
        assert caught.value.param == param
        await caller.until_free()


async def test_the_media_of_all_inputs_have_a_limit(vision_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for the engine as its encoder gets them."""
    async with serving(vision_folder("qwen3_vl"), VisionService, warm=True, embeddings=True) as caller:
        monkeypatch.setattr(text_embeddings, "MOST_MEDIA_BYTES", 100_000)
        assert len(await vectors(caller, "a", mixed(image(1)), mixed(image(2)))) == 2
        failed = await caller.failure("b", Embed(tuple(mixed(image(seed)) for seed in range(1, 20))))
        assert (failed.kind, failed.param) == ("invalid_request", "input[2]")
        assert "`input[2]` and the inputs before it have media of 1" in failed.message
        await caller.until_free()


async def test_qwen3_vl_embedding_gives_what_mlx_vlms_own_model_of_embeddings_does(tmp_path: Path) -> None:
    """With the messages that its makers send: an instruction, and then what is to be embedded."""
    family = FAMILIES["qwen3_vl"]
    text_config = family.config["text_config"] | {"tie_word_embeddings": True}
    config = family.config | {"model_type": "qwen3_vl_embedding", "text_config": text_config}
    make_vision_model(tmp_path, replace(family, config=config))
    shown = image(1), TextPart("Blue.")
    messages = Message("system", (TextPart("Represent it."),)), Message("user", shown)
    async with serving(tmp_path, VisionService, embeddings=True) as caller:
        (found,) = await vectors(caller, "a", Generate(messages))
    processor = load_processor(tmp_path)
    text = "<|im_start|>system\nRepresent it.<|im_end|>\n" + prompt(processor, "image", text="Blue.")
    inputs = prepare_inputs(processor, prompts=text, images=[picture(1, 32, 48)])
    expected = load_embedding_model(tmp_path)(**inputs).text_embeds[0]
    assert found == pytest.approx(np.array(expected), abs=1e-4)
