"""Images through a real server and OpenAI's own client, compared with those of mflux called directly."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from msgspec.structs import replace
from openai import OpenAI

from orchard.config import ModelSettings
from orchard.core.tasks.images import ImageOptions
from tests.images.conftest import draw, noise, pixels, serve_tiny
from tests.support.serving import Server

Z_IMAGE = {"type": "mflux.models.z_image.variants.z_image:ZImage", "alias": "z-image-turbo"}
FILL = {"type": "mflux.models.flux.variants.fill.flux_fill:Flux1Fill", "alias": "dev-fill"}
MODELS = {"painter": ("z-image", "z-image-turbo"), "filler": ("flux1-fill", "flux-fill-dev")}


@pytest.fixture(scope="module")
def server(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    models = [
        replace(
            ModelSettings(model_path=str(tiny(family)), served_model_name=name), image=ImageOptions(config_name=preset)
        )
        for name, (family, preset) in MODELS.items()
    ]
    with serve_tiny(tmp_path_factory.mktemp("cache"), *models) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> OpenAI:
    return OpenAI(base_url=f"{server.url}/v1", api_key="any", timeout=120, max_retries=0)


def direct(tmp_path: Path, folder: Path, call: dict[str, str], **fields: Any) -> Any:
    """Return the pixels of mflux."""
    image = {"prompt": "a cat", "width": 64, "height": 48, "num_inference_steps": 2, "seed": 7} | fields
    order = call | {"model": {"model_path": str(folder)}, "images": [image | {"to": str(tmp_path / "direct.png")}]}
    draw(order)
    return pixels(tmp_path / "direct.png")


def test_generation(client: OpenAI, tiny: Callable[[str], Path], tmp_path: Path) -> None:
    made = client.images.generate(
        model="painter", prompt="a cat", size="64x48", n=2, extra_body={"seed": 7, "steps": 2}
    )
    assert made.data
    first, second = (pixels(base64.b64decode(image.b64_json or "")) for image in made.data)
    assert np.array_equal(first, direct(tmp_path, tiny("z-image"), Z_IMAGE))
    assert np.array_equal(second, direct(tmp_path, tiny("z-image"), Z_IMAGE, seed=8))


def test_an_edit_with_a_mask(client: OpenAI, tiny: Callable[[str], Path], tmp_path: Path) -> None:
    files = tmp_path / "picture.png", tmp_path / "mask.png"
    noise(64, 48, 1).save(files[0])
    noise(64, 48, 2).convert("L").save(files[1])
    with files[0].open("rb") as image, files[1].open("rb") as mask:
        made = client.images.edit(
            model="filler",
            image=image,
            mask=mask,
            prompt="a cat",
            extra_body={"seed": 7, "steps": 2, "guidance": 3.0},
        )
    assert made.data
    asked = {"image_path": str(files[0]), "masked_image_path": str(files[1]), "guidance": 3.0}
    expected = direct(tmp_path, tiny("flux1-fill"), FILL, **asked)
    assert np.array_equal(pixels(base64.b64decode(made.data[0].b64_json or "")), expected)


def test_a_stream(client: OpenAI, tiny: Callable[[str], Path], tmp_path: Path) -> None:
    stream = client.images.generate(
        model="painter",
        prompt="a cat",
        size="64x48",
        stream=True,
        partial_images=1,
        extra_body={"seed": 7, "steps": 2},
    )
    events = list(stream)
    assert [event.type for event in events] == ["image_generation.partial_image", "image_generation.completed"]
    expected = direct(tmp_path, tiny("z-image"), Z_IMAGE)
    assert np.array_equal(pixels(base64.b64decode(events[-1].b64_json)), expected)
    assert not np.array_equal(pixels(base64.b64decode(events[0].b64_json)), expected)


def test_a_client_that_leaves_ends_the_work(server: Server, client: OpenAI) -> None:
    body = {"model": "painter", "prompt": "a cat", "size": "64x48", "steps": 200, "n": 10, "stream": True}
    with (
        httpx.Client(base_url=server.url, timeout=120) as http,
        http.stream("POST", "/v1/images/generations", json=body) as answer,
    ):
        lines = answer.iter_lines()
        assert any(line.startswith(": ") for line in lines)
        server.until("painter", running=1)
    server.until("painter", running=0)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guidance": 2.0}, "guidance"),
        ({"negative_prompt": "dogs"}, "negative_prompt"),
        ({"prompt": "a" * 3000}, "prompt"),
        ({"size": "100x100"}, "size"),
        ({"model": "filler"}, "model"),
    ],
)
def test_what_a_preset_does_not_use_is_a_400(server: Server, fields: dict[str, Any], param: str) -> None:
    body = {"model": "painter", "prompt": "a cat", "size": "64x48", "steps": 1} | fields
    answer = httpx.post(f"{server.url}/v1/images/generations", json=body, timeout=120)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
