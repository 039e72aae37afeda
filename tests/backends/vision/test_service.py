"""Requests with media, through the whole service, on tiny models: they say what mlx-vlm's own `generate` says."""

import asyncio
import logging
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_vlm
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_map
from mlx_vlm.trainer.peft import get_peft_model, save_adapter
from mlx_vlm.utils import load_model
from PIL import Image

from orchard.backends.text import service as text_service
from orchard.backends.vision import model as vision_model
from orchard.backends.vision import service as vision_service
from orchard.backends.vision.encoder import Features, MediaEncoder
from orchard.backends.vision.inputs import MediaReader, Medium
from orchard.backends.vision.service import VisionService
from orchard.config import Settings
from orchard.core.events import Failed, Started, collect
from orchard.core.media import MediaKind, MediaOptions, MediaPart
from orchard.core.tasks.generate import Count, Generate, Message, Part, Sampling, TextPart, ToolCallPart, ToolResultPart
from orchard.core.tasks.text_options import TextOptions
from orchard.engine import calibration
from orchard.gateway.pool.worker_process import WorkerProcess
from orchard.kinds import VISION
from tests.support.engine_driver import store_calibration
from tests.support.examples import some
from tests.support.media import LOSSLESS, StubOpenCV, picture, png, sound, wav, write_film
from tests.support.vision_families import FAMILIES
from tests.support.vision_models import load_reference, prompt
from tests.support.worker_caller import Caller, serving

Folders = Callable[[str], Path]

TOKENS = 8
PARAM = "messages[0].content[0]"


def image(seed: int, **options: Any) -> MediaPart:
    return MediaPart("image", "", PARAM, data=png(picture(seed, 32, 40 + 8 * seed)), options=MediaOptions(**options))


def audio(seed: int) -> MediaPart:
    return MediaPart("audio", "", PARAM, data=wav(sound(seed)))


def said(*parts: Part | str, role: Any = "user") -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def ask(*messages: Message, **fields: Any) -> Generate:
    return Generate(messages, sampling=Sampling(temperature=0.0), max_tokens=TOKENS, **fields)


async def answer(caller: Caller, task: Generate) -> str:
    events = await caller.stream("asked", task)
    assert isinstance(events[0], Started), events
    return collect(events).choices[0].text


@pytest.fixture(scope="module")
def reference(vision_folder: Folders) -> Callable[..., str]:
    """Say what mlx-vlm's own `generate` says to a message of media and a question."""
    loaded: dict[str, tuple[Any, Any]] = {}

    def generated(name: str, tmp_path: Path, *media: MediaPart) -> str:
        model, processor = loaded.setdefault(name, load_reference(vision_folder(name)))
        files: dict[MediaKind, list[str]] = {}
        for number, part in enumerate(media):
            file = tmp_path / f"{number}.{'png' if part.kind == 'image' else 'wav'}"
            file.write_bytes(part.data)
            files.setdefault(part.kind, []).append(str(file))
        text = prompt(processor, *(part.kind for part in media))
        steps = mlx_vlm.stream_generate(
            model,
            processor,
            text,
            image=files.get("image"),
            audio=files.get("audio"),
            max_tokens=TOKENS,
            temperature=0.0,
        )
        tokens = [step.token for step in steps][:TOKENS]  # the last one comes twice
        return str(processor.tokenizer.decode(tokens))

    return generated


# `make test` takes every fifth of them.
_QWEN = ["qwen3_vl", "qwen2_5_vl", "qwen3_5", "qwen3_omni_moe"]
_OTHERS = ["gemma3", "gemma4_audio", "gemma4", "gemma4_per_layer", "llava", "idefics3"]


def test_every_family_is_compared() -> None:
    assert {*_QWEN, *_OTHERS} == set(FAMILIES)


@pytest.mark.parametrize("name", some([*_QWEN, *_OTHERS], 5))
async def test_an_answer_is_that_of_mlx_vlm(
    vision_folder: Folders, reference: Callable[..., str], tmp_path: Path, name: str
) -> None:
    asked: list[tuple[MediaPart, ...]] = [(), (image(1),), (image(1), image(2))]
    if FAMILIES[name].audio:
        asked.append((audio(1),))
    async with serving(vision_folder(name), VisionService) as caller:
        for media in asked:
            told = await answer(caller, ask(said(*media, "What is blue?")))
            assert told == reference(name, tmp_path, *media), [part.kind for part in media]


@pytest.mark.parametrize(
    "names", [["gemma3", "qwen3_omni_moe"], pytest.param([*_QWEN, *_OTHERS], marks=pytest.mark.deep)]
)
async def test_a_load_leaves_no_warning_for_programmers(
    vision_folder: Folders, names: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """transformers has such warnings for mlx-vlm, which calls it."""
    monkeypatch.delenv("TRANSFORMERS_VERBOSITY", raising=False)  # mlx-vlm sets it here, and in a worker too late
    worker = WorkerProcess(VISION, Settings())
    phases: asyncio.Queue[str] = asyncio.Queue()
    worker.on_change = lambda: phases.put_nowait(worker.phase)
    running = asyncio.create_task(worker.run())

    async def until(phase: str) -> None:
        async with asyncio.timeout(60):
            while (found := await phases.get()) != phase:
                assert found != "gone", worker.failure

    await until("idle")
    for name in names:
        worker.load(name, str(vision_folder(name)), VISION.options())
        await until("ready")
        worker.unload()
        await until("idle")
    worker.close()
    await running
    lines = capfd.readouterr().err.splitlines()
    assert lines
    assert [line for line in lines if not re.match(r"\d{4}-\d\d-\d\d ", line)] == []


@pytest.fixture(scope="module")
def llava(vision_folder: Folders) -> Path:
    """A folder whose calibration is stored, as it is loaded often."""
    folder = vision_folder("llava")
    store_calibration(vision_model.load_vision_model(str(folder)), TextOptions())
    return folder


@pytest.mark.parametrize("name", some(["qwen3_vl", "llava"], 2))
async def test_without_media_it_says_what_the_text_backend_says(vision_folder: Folders, name: str) -> None:
    folder = vision_folder(name)
    task = ask(said("What is blue?"))
    async with serving(folder, VisionService) as caller:
        told = await answer(caller, task)
    async with serving(folder) as caller:
        assert await answer(caller, task) == told


async def test_media_anywhere_in_a_conversation(llava: Path) -> None:
    """In any message and in results of tools, and counted as they are read."""
    call = ToolCallPart("call_1", "look", "{}")
    task = ask(
        said("This ", image(1), " and", image(2), "that"),
        said("I see.", role="assistant"),
        said("Look."),
        said(call, role="assistant"),
        said(ToolResultPart("call_1", (TextPart("There: "), image(3))), role="tool"),
    )
    bare = ask(
        said("This <image>\n and<image>\nthat"),
        said("I see.", role="assistant"),
        said("Look."),
        said(call, role="assistant"),
        said(ToolResultPart("call_1", (TextPart("There: <image>\n"),)), role="tool"),
    )
    async with serving(llava, VisionService) as caller:
        events = await caller.stream("asked", task)
        counted = await caller.stream("counted", Count(task))
        without = await caller.stream("bare", Count(bare))
        assert isinstance(events[0], Started)
        assert isinstance(counted[0], Started)
        assert isinstance(without[0], Started)
        # Each of the three is 16 tokens in place of one.
        assert events[0].prompt_tokens == counted[0].prompt_tokens == without[0].prompt_tokens + 3 * 15


async def test_what_can_not_be_read_is_the_callers_fault(llava: Path) -> None:
    broken = MediaPart("image", "", PARAM, data=png(picture(1))[:200])
    literal = ask(said(image(1), "What is <image>?"))
    async with serving(llava, VisionService) as caller:
        for task, param, words in (
            (ask(said(broken)), PARAM, f"`{PARAM}` can't be read: it is broken or truncated"),
            (ask(said(audio(1))), PARAM, "Audio can't be read by this model: besides text it takes only images."),
            (literal, "messages", "text that stands for media"),
            (ask(said(image(1), *["long"] * 2000)), "messages", "maximum context length"),
        ):
            failed = await caller.failure("asked", task)
            assert failed.param == param
            assert words in failed.message
        # What is literally there is text where there is no medium.
        assert await answer(caller, ask(said("What is <image>?")))


async def test_what_the_model_fails_to_encode_is_the_callers_fault(
    llava: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The field of that medium is named; other rows and the worker go on."""
    bad = MediaPart("image", "", "messages[0].content[1]", data=png(Image.new("RGB", (32, 32), (255, 255, 255))))
    encode = MediaEncoder._encode_medium

    def encoded(self: MediaEncoder, medium: Medium) -> Features:
        if len(np.unique(medium.inputs["pixel_values"])) <= 3:  # a white one
            raise ValueError("[matmul] too odd\nfor words")
        return encode(self, medium)

    async with serving(llava, VisionService) as caller:
        alone = await answer(caller, ask(said(image(1), "What is blue?")))
        monkeypatch.setattr(MediaEncoder, "_encode_medium", encoded)
        other = asyncio.create_task(caller.stream("other", ask(said(image(3), "What is blue?"))))
        failed = await caller.failure("asked", ask(said(image(1), bad, "What is blue?")))
        words = "the model can't encode this image: [matmul] too odd"
        assert failed == Failed("invalid_request", words, "messages[0].content[1]")
        assert collect(await other).choices[0].text
        assert await answer(caller, ask(said(image(1), "What is blue?"))) == alone


async def test_what_the_chat_template_leaves_out_is_refused(llava: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(llava, folder)
    short = tmp_path / "short.jinja"
    short.write_text("{% for m in messages[-1:] %}{{ m.content }}{% endfor %}")
    async with serving(folder, VisionService, chat_template_file=str(short)) as caller:
        failed = await caller.failure("asked", ask(said(image(1)), said("Yes.", role="assistant"), said("What?")))
        assert failed.param == PARAM
        assert "leaves out this image" in failed.message


async def test_a_template_that_knows_no_media(llava: Path, tmp_path: Path, vision_folder: Folders) -> None:
    """mlx-vlm's conventions say what stands for a picture: the same as the template that does."""
    plain = tmp_path / "plain.jinja"
    plain.write_text(
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
        "{{ '<|im_start|>assistant\\n' }}"
    )
    folder = vision_folder("idefics3")
    task = ask(said(image(1), "What is blue?"))
    async with serving(folder, VisionService) as caller:
        told = await answer(caller, task)
    async with serving(folder, VisionService, chat_template_file=str(plain)) as caller:
        assert await answer(caller, task) == told


async def test_a_template_that_takes_blocks_only(llava: Path, tmp_path: Path) -> None:
    """As LLaVA's own: a text that is no block would be left out, and pictures come first."""
    blocks = tmp_path / "blocks.jinja"
    blocks.write_text(
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
        "{% for part in m.content | selectattr('type', 'equalto', 'image') %}{{ '<image>\\n' }}{% endfor %}"
        "{% for part in m.content | selectattr('type', 'equalto', 'text') %}{{ part.text }}{% endfor %}"
        "{{ '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}"
    )
    tasks = [
        ask(said("What is blue?")),
        ask(said(image(1), "What is blue?"), said("That.", role="assistant"), said("So?")),
    ]
    async with serving(llava, VisionService) as caller:
        told = [await answer(caller, task) for task in tasks]
    async with serving(llava, VisionService, chat_template_file=str(blocks)) as caller:
        assert [await answer(caller, task) for task in tasks] == told


async def test_options_of_the_cache_hold(vision_folder: Folders) -> None:
    folder, task = vision_folder("qwen3_vl"), ask(said(image(1), "What is blue?"))
    async with serving(folder, VisionService) as caller:
        told = await answer(caller, task)
    given: list[dict[str, Any]] = [
        {"prefill_step_size": 16},
        {"max_kv_size": 100},
        {"kv_bits": 8, "kv_group_size": 32},  # eight bits are enough for these few tokens
    ]
    for options in given:
        async with serving(folder, VisionService, **options) as caller:
            assert await answer(caller, task) == told, options
            again = await caller.stream("again", task)
            assert isinstance(again[0], Started)
            assert again[0].cached_tokens >= 36  # the image, and what is before it
            assert collect(again).choices[0].text == told, options


@pytest.mark.parametrize(("name", "part"), [("gemma3", "language_model"), ("qwen3_5", "vision_tower.merger")])
async def test_an_adapter_holds_beside_pictures(vision_folder: Folders, tmp_path: Path, name: str, part: str) -> None:
    """One for the language model, and one for the encoder of pictures: what they say is what mlx-vlm says."""
    folder, file = vision_folder(name), tmp_path / "image.png"
    mx.random.seed(0)  # of the adapter
    network = load_model(folder)
    layers = [one for one, layer in network.named_modules() if part in one and isinstance(layer, nn.Linear)]
    network = get_peft_model(network, layers, rank=2, verbose=False)
    network.update(tree_map(lambda weight: weight + 0.3, network.trainable_parameters()))
    save_adapter(network, tmp_path / "adapters.safetensors")
    model, processor = load_reference(folder, adapter_path=str(tmp_path))
    file.write_bytes(image(1).data)
    text = prompt(processor, "image")
    steps = mlx_vlm.stream_generate(model, processor, text, image=[str(file)], max_tokens=TOKENS, temperature=0.0)
    expected = processor.tokenizer.decode([step.token for step in steps][:TOKENS])
    task = ask(said(image(1), "What is blue?"))
    async with serving(folder, VisionService) as caller:
        assert await answer(caller, task) != expected
    given: list[dict[str, Any]] = [{}, {"kv_bits": 8, "kv_group_size": 32}]
    for options in given:
        async with serving(folder, VisionService, adapter_path=str(tmp_path), **options) as caller:
            assert await answer(caller, task) == expected


async def served_as_text(
    folder: Path, caplog: pytest.LogCaptureFixture, reason: str, words: str = "it is a vision model that is served for"
) -> None:
    with caplog.at_level(logging.WARNING, "orchard.worker"):
        async with serving(folder, VisionService) as caller:
            assert await answer(caller, ask(said("What is blue?")))
            failed = await caller.failure("asked", ask(said(image(1), "What is blue?")))
    assert words in failed.message
    assert reason in caplog.text


async def test_without_the_extra_it_is_a_model_of_text(
    llava: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(vision_service, "_HAS_MLX_VLM", False)
    await served_as_text(llava, caplog, "they need the extra mlx-orchard[vision]", "and the extra mlx-orchard[vision]")


async def test_where_prompts_must_be_read_whole_it_is_a_model_of_text(
    llava: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What stands behind a medium is read after it."""
    monkeypatch.setattr(calibration, "load_calibration", lambda name: None)
    monkeypatch.setattr(calibration, "save_calibration", lambda name, found: None)
    monkeypatch.setattr(calibration, "reads_in_pieces", lambda model, options: False)
    await served_as_text(llava, caplog, "its prompts must be read whole")


def without_vision_weights(folder: Path) -> None:
    weights: Any = mx.load(str(folder / "model.safetensors"))
    kept = {name: array for name, array in weights.items() if name.startswith("language_model")}
    mx.save_safetensors(str(folder / "model.safetensors"), kept)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (without_vision_weights, "its weights are those of the language model only"),
        (lambda folder: (folder / "preprocessor_config.json").unlink(), "its processor can't be loaded"),
    ],
)
async def test_a_folder_without_a_part_for_media_is_a_model_of_text(
    llava: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
    reason: str,
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(llava, folder)
    damage(folder)
    await served_as_text(folder, caplog, reason)


async def test_media_wait_until_there_is_room_for_what_is_made_of_them(
    llava: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred waiting requests would take gigabytes; those that wait have their files only."""
    monkeypatch.setattr(text_service, "MEDIA_SHARE", 0.0)
    read = MediaReader.read
    held: list[int] = []

    def noted(self: MediaReader, *given: Any) -> Medium:
        held.append(caller.service._media_bytes())
        return read(self, *given)

    tasks = {str(seed): ask(said(image(seed), "What is blue?")) for seed in range(1, 7)}
    async with serving(llava, VisionService) as caller:
        alone = {name: await answer(caller, task) for name, task in tasks.items()}
        monkeypatch.setattr(MediaReader, "read", noted)
        events = await asyncio.gather(*(caller.stream(name, task) for name, task in tasks.items()))
        assert {name: collect(one).choices[0].text for name, one in zip(tasks, events, strict=True)} == alone
        assert held == [0] * len(tasks)
        assert caller.service._media_bytes() == 0


def film_file(tmp_path: Path, pictures: list[Image.Image]) -> Path:
    """A film of 4 frames a second, without loss."""
    frames = np.stack([np.asarray(shown) for shown in pictures]).transpose(0, 3, 1, 2)
    return write_film(tmp_path / "film.avi", frames, 4.0, *LOSSLESS)


def video(file: Path, **options: Any) -> MediaPart:
    return MediaPart("video", "", PARAM, data=file.read_bytes(), options=MediaOptions(**options))


@pytest.mark.parametrize("name", some(["qwen3_vl", "gemma4", "qwen3_5", "qwen3_omni_moe"], 4))
async def test_an_answer_about_a_film_is_that_of_mlx_vlm(
    vision_folder: Folders, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "qwen3_omni_moe":  # mlx-vlm 0.7.10 counts frames, not seconds: see test_mrope.py
        monkeypatch.setattr(vision_model, "_tokens_per_second", lambda config: 0.0)
    pictures = [picture(seed) for seed in range(12)]
    file = film_file(tmp_path, pictures)
    monkeypatch.setitem(sys.modules, "cv2", StubOpenCV(pictures, 4.0))
    model, processor = load_reference(vision_folder(name))
    besides = [image(1)] if name != "qwen3_5" else []  # mlx-vlm 0.7.10 fails on a film and a picture together
    text = prompt(processor, "video", *(part.kind for part in besides))
    png_file = tmp_path / "image.png"
    png_file.write_bytes(image(1).data)
    files = {"video": [str(file)], "image": [str(png_file)] if besides else None}
    steps = mlx_vlm.stream_generate(model, processor, text, **files, fps=2.0, max_tokens=TOKENS, temperature=0.0)
    expected = processor.tokenizer.decode([step.token for step in steps][:TOKENS])
    async with serving(vision_folder(name), VisionService) as caller:
        assert await answer(caller, ask(said(video(file, fps=2.0), *besides, "What is blue?"))) == expected
        events = await caller.stream("more", ask(said(video(file, fps=4.0), image(1), "What is blue?")))
        fewer = await caller.stream("less", ask(said(video(file, max_frames=4), image(1), "What is blue?")))
        assert isinstance(events[0], Started)
        assert isinstance(fewer[0], Started)
        assert events[0].prompt_tokens > fewer[0].prompt_tokens
