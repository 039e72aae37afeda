"""How generating an image affects a chat stream beside it.

    ORCHARD_CACHE_DIR=$PWD/.venv/images .venv/bin/orchard setup images
    IMAGES_CACHE_DIR=$PWD/.venv/images .venv/bin/python -m benchmarks.drawing

One stream of a chat model runs, in turn while the server generates an image and while mflux generates the same image in
a process that doesn't belong to the server. `gap` is the stream's longest gap in the first case, divided by that in the
second; the target is 1.2 at most. Prints one JSON line. The image model is a tiny random one.
"""

import argparse
import asyncio
import json
import os
import shlex
import statistics
import tempfile
import time
from pathlib import Path

import httpx
from msgspec.structs import replace
from tests.images.conftest import TINY, draw, python, run_tiny
from tests.support.serving import serve

from benchmarks.traffic import Traffic, gaps
from benchmarks.transcription import Window, timed
from orchard.config import ModelSettings
from orchard.core.tasks.images import ImageOptions
from orchard.environments.environment import IMAGES

_FAMILY, _PRESET = "z-image", "z-image-turbo"
_CLASS = "mflux.models.z_image.variants.z_image:ZImage"


def narrow_environment(cache: Path) -> None:
    """Make an environment for images in `cache` whose Python makes mflux narrow."""
    os.environ["ORCHARD_CACHE_DIR"] = str(cache)
    narrow = IMAGES.folder / "bin" / "python"
    narrow.parent.mkdir(parents=True)
    # Of the worker's command, "-I" and the path of the script are dropped.
    narrow.write_text(f'#!/bin/sh\nshift 2\nexec {shlex.quote(python())} -I {shlex.quote(TINY)} "$@"\n')
    narrow.chmod(0o700)


def drawn_directly(folder: Path, model: Path, side: int, steps: int) -> Window:
    """Draw with mflux in a process of its own; return when it began to draw, after a first image, and when it ended."""
    files = folder / "first.png", folder / "second.png"
    image = {"prompt": "a cat", "width": side, "height": side, "seed": 7}
    draw({
        "type": _CLASS,
        "alias": _PRESET,
        "model": {"model_path": str(model)},
        "images": [
            image | {"num_inference_steps": count, "to": str(to)} for count, to in zip((2, steps), files, strict=True)
        ],
    })  # fmt: skip
    offset = time.perf_counter() - time.time()
    begin, end = (file.stat().st_mtime + offset for file in files)
    return begin, end


async def measure(given: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Give the figures of all runs."""
    model = folder / _FAMILY
    run_tiny("build", _FAMILY, str(model))
    narrow_environment(folder / "cache")
    painter = replace(
        ModelSettings(model_path=str(model), served_model_name="painter"), image=ImageOptions(config_name=_PRESET)
    )
    talker = ModelSettings(model_path=given.chat, served_model_name="chat")
    environment = {"ORCHARD_CACHE_DIR": str(folder / "cache")}
    with (
        serve((), env=environment, models=(painter, talker), max_loaded_models=2, log_level="warning") as server,
        httpx.Client(base_url=server.url, timeout=3600) as http,
    ):

        def served(steps: int = given.steps) -> None:
            size = f"{given.side}x{given.side}"
            body = {"model": "painter", "prompt": "a cat", "size": size, "seed": 7, "steps": steps}
            http.post("/v1/images/generations", json=body).raise_for_status()

        served(2)
        await asyncio.to_thread(server.until, "chat", 300, state="ready")
        traffic = Traffic(server.url, "chat", 1)
        await traffic.begun()
        beside: list[tuple[Window, Window]] = []
        for _ in range(given.runs):
            direct = await asyncio.to_thread(drawn_directly, folder, model, given.side, given.steps)
            beside.append((direct, await asyncio.to_thread(timed, served)))
        answers = await traffic.stop()
    unrelated = statistics.median(max(gaps(answers, *window)) for window, _ in beside)
    ours = statistics.median(max(gaps(answers, *window)) for _, window in beside)
    return {
        "runs": given.runs,
        "load_average": round(os.getloadavg()[0], 2),
        "direct_s": round(statistics.median(end - begin for (begin, end), _ in beside), 2),
        "server_s": round(statistics.median(end - begin for _, (begin, end) in beside), 2),
        "gap_beside_unrelated_ms": round(unrelated * 1e3, 1),
        "gap_beside_server_ms": round(ours * 1e3, 1),
        "gap": round(ours / unrelated, 2),
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chat", default="demo", help="the model of the stream")
    parser.add_argument("--side", type=int, default=256, help="side of the image, in pixels")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({"benchmark": "drawing", **asyncio.run(measure(given, Path(folder)))}))


if __name__ == "__main__":
    main()
