"""What a worker does around mflux: it stops, it refuses, it keeps nothing."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

from orchard.core.events import Failed, Finished, Progressed, Started
from orchard.core.media import MediaPart
from orchard.core.tasks.images import EditImages, GenerateImages, ImageOptions
from orchard.environments.environment import IMAGES
from orchard.gateway.pool.worker_process import _environment
from tests.images.conftest import ImageWorker, draw, noise, pixels, python

CAT = GenerateImages(prompt="a cat", width=64, height=48, steps=4, seed=7)


async def test_it_stops_at_the_next_step_and_goes_on_with_the_next_request(
    tiny: Callable[[str], Path], worker: ImageWorker
) -> None:
    await worker.load(tiny("z-image"), config_name="z-image-turbo")
    stream = worker.submit(GenerateImages(prompt="a cat", width=64, height=48, steps=100_000))
    told: list[object] = []
    while len(told) < 3:
        told += await stream.next(60)
    assert told[:3] == [Started(0), Progressed(0, 100_000), Progressed(1, 100_000)]
    stream.close()
    events = await worker.events(CAT)
    assert isinstance(events[-1], Finished)
    assert [event for event in events if isinstance(event, Progressed)][-1] == Progressed(4, 4)


async def test_numbers_that_are_no_image_are_no_black_image(tiny: Callable[[str], Path], worker: ImageWorker) -> None:
    await worker.load(tiny("flux1-dev"), config_name="flux-dev")
    events = await worker.events(GenerateImages(prompt="a cat", width=64, height=48, steps=2, guidance=1e38, seed=7))
    assert isinstance(events[-1], Failed)
    assert events[-1].message.startswith("the model computed no image, as happens where numbers overflow;")


async def test_prompts_that_would_be_cut_off_are_refused(tiny: Callable[[str], Path], worker: ImageWorker) -> None:
    """A token is a character here, or nearly one."""
    await worker.load(tiny("flux1"), config_name="flux-schnell")
    (failed,) = await worker.events(GenerateImages(prompt="a" * 300, width=64, height=48))
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.param) == ("invalid_request", "prompt")
    assert failed.message.endswith("tokens, and the model reads at most 256")
    events = await worker.events(GenerateImages(prompt="a" * 100, width=64, height=48, steps=1))
    assert isinstance(events[-1], Finished), "CLIP's 77 tokens are no limit"


async def test_a_negative_prompt_has_a_limit_too(tiny: Callable[[str], Path], worker: ImageWorker) -> None:
    await worker.load(tiny("qwen"), config_name="qwen-image")
    (failed,) = await worker.events(GenerateImages(prompt="a cat", negative_prompt="a" * 1100, width=64, height=48))
    assert isinstance(failed, Failed)
    assert failed.param == "negative_prompt"


async def test_stored_bits_are_kept(tiny: Callable[[str], Path], worker: ImageWorker, tmp_path: Path) -> None:
    model = {"model_path": str(tiny("qwen")), "quantize": 4}
    qwen = {"type": "mflux.models.qwen.variants.txt2img.qwen_image:QwenImage", "alias": "qwen-image", "model": model}
    direct, four = tmp_path / "direct.png", tmp_path / "four"
    fields = {"prompt": "a cat", "width": 64, "height": 48, "num_inference_steps": 2, "seed": 7, "to": str(direct)}
    draw(qwen | {"images": [fields], "save": str(four)})
    await worker.load(four, config_name="qwen-image", quantize=16)
    (made,) = await worker.images(GenerateImages(prompt="a cat", width=64, height=48, steps=2, seed=7))
    assert np.array_equal(made, pixels(direct))
    worker.process.unload()
    await worker.until("idle")
    worker.process.load("tiny", str(four), ImageOptions(config_name="qwen-image", quantize=8))
    await worker.until("gone")
    assert worker.process.failure == "its weights are stored with 4 bits, so quantize can't be 8; 16 means as stored"


async def test_files_of_another_model_do_not_break_the_worker(
    tiny: Callable[[str], Path], worker: ImageWorker, tmp_path: Path
) -> None:
    await worker.until("idle")
    worker.process.load("tiny", str(tiny("qwen")), ImageOptions(config_name="flux-schnell"))
    await worker.until("gone")
    assert worker.process.refused
    assert worker.process.failure
    assert worker.process.failure.startswith("the model can't be run: ")


async def test_nothing_is_written(tiny: Callable[[str], Path], worker: ImageWorker, tmp_path: Path) -> None:
    await worker.load(tiny("flux2"), config_name="flux2-klein-edit-4b")
    noise(96, 64, 1).save(tmp_path / "picture.png")
    before = sorted(os.listdir(tmp_path))
    picture = MediaPart("image", "", "image", path=str(tmp_path / "picture.png"))
    events = await worker.events(EditImages(prompt="a cat", images=(picture,), steps=1))
    assert isinstance(events[-1], Finished)
    assert sorted(os.listdir(tmp_path)) == before


READERS = """
import json, pathlib, runpy, sys
runpy.run_path(sys.argv[1])["add_orchard"]()
import mlx.core as mx
from mflux.models.common.weights.loading.weight_loader import WeightLoader
from orchard.backends.images.weights import read_without_torch
read_without_torch()
folder = pathlib.Path(sys.argv[2])
weights = {"a": mx.array([1.5, 3e38], mx.bfloat16), "b": mx.array([0.1], mx.float32)}
mx.save_safetensors(str(folder / "model.safetensors"), weights)
index = {"weight_map": dict.fromkeys(weights, "model.safetensors")}
(folder / "model.safetensors.index.json").write_text(json.dumps(index))
found = [WeightLoader._load_safetensors(folder, mode) for mode in ("torch_convert", "torch_bfloat16")]
print(json.dumps([[str(read["a"].dtype), str(read["b"].dtype), read["a"].tolist()] for read in found]))
"""


def test_weights_that_mflux_reads_with_pytorch_are_read_without(tmp_path: Path) -> None:
    command = [python(), "-I", "-c", READERS, IMAGES.command[2], str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    as_pytorch = ["mlx.core.float16", "mlx.core.float32", [1.5, float("inf")]]
    assert json.loads(done.stdout.splitlines()[-1]) == [as_pytorch, as_pytorch]


BARS = """
import pathlib, runpy, sys
runpy.run_path(sys.argv[1])["add_orchard"]()
from orchard.backends.images.pipeline import Pipeline
from orchard.backends.images.presets import PRESETS
from orchard.core.media import MediaPart
from orchard.core.tasks.images import ImageOptions
try:
    Pipeline.load(PRESETS["flux-schnell"], pathlib.Path(sys.argv[2]), ImageOptions(), print)
except Exception:
    from mflux.models.common.config.config import Config, ModelConfig
    print(Config(ModelConfig.schnell()).time_steps.disable)
"""


def test_mflux_shows_no_bars(tmp_path: Path) -> None:
    command = [python(), "-I", "-c", BARS, IMAGES.command[2], str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=False, timeout=100)
    assert done.stdout.splitlines()[-1:] == ["True"], done.stderr
