"""Images through OpenAI's SDKs and a real server, whose models draw plain colours without mflux."""

import base64
import json
import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AzureOpenAI, OpenAI
from PIL import Image

from orchard.core.tasks.images import ImageOptions
from orchard.gateway.models.entry import ModelEntry
from tests.support import fake_images
from tests.support.bombs import bombs
from tests.support.forms import PICTURES, SentForm, forms
from tests.support.fuzzing import AMOUNT, Call, check_error, fuzz, sent_to
from tests.support.gateway_client import body
from tests.support.proofs import prove_served
from tests.support.serving import FAKE, Server, serve

KEY = "secret"


def picture(size: tuple[int, int] = (64, 32), brightness: int = 200) -> bytes:
    file = BytesIO()
    Image.new("RGB", size, (brightness,) * 3).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    models = [
        fake_images.painter("painter", folder, "qwen-image"),
        fake_images.painter("filler", folder, "flux-fill-dev", queue_size=2),
    ]
    limits = {"api_keys": (KEY,), "max_loaded_models": 3}
    env = {"ORCHARD_CACHE_DIR": str(folder / "cache")}
    with serve([*models, FAKE], spare=False, env=env, prepare=fake_images.use, **limits) as running:
        yield running


@pytest.fixture(autouse=True)
def _nothing_is_left(folder: Path) -> Iterator[None]:
    yield
    _wait_until_nothing_is_left(folder)


def _wait_until_nothing_is_left(folder: Path) -> None:
    deadline = time.monotonic() + 30  # a client that has left is noticed a moment later
    while [path for path in (folder / "cache" / "uploads").glob("*/*") if path.name != "lock"]:
        assert time.monotonic() < deadline, "an upload is left on the disk"
        time.sleep(0.02)


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0, timeout=100) as client:
        yield client


@pytest.fixture(scope="module")
def forms_client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers={"x-api-key": KEY}, timeout=60) as client:
        yield client


def generate(client: OpenAI, **fields: Any) -> Any:
    given: dict[str, Any] = {"model": "painter", "prompt": "a cat", "size": "64x32", **fields}
    own = {name: given.pop(name) for name in ("seed", "steps", "guidance", "negative_prompt") if name in given}
    return client.images.generate(**given, extra_body=own)


def edit(client: OpenAI, **fields: Any) -> Any:
    files = {"image": ("a.png", picture()), "mask": ("m.png", picture(brightness=255))}
    given: dict[str, Any] = {"model": "filler", "prompt": "a cat", **files, **fields}
    own = {name: given.pop(name) for name in ("seed", "steps", "guidance", "negative_prompt") if name in given}
    return client.images.edit(**given, extra_body=own)


def opened(data: str | bytes) -> Image.Image:
    return Image.open(BytesIO(base64.b64decode(data) if isinstance(data, str) else data))


def test_images_are_generated(client: OpenAI) -> None:
    made = generate(client, n=2, seed=7, steps=3, guidance=4, negative_prompt="dogs")
    images = [opened(one.b64_json) for one in made.data]
    assert [(image.format, image.size) for image in images] == [("PNG", (64, 32))] * 2
    assert [image.getpixel((0, 0)) for image in images] == [(7, 0, 0), (8, 0, 0)]
    assert [one.seed for one in made.data] == [7, 8]
    assert (made.size, made.output_format, made.background, made.usage.total_tokens) == ("64x32", "png", "opaque", 0)
    assert abs(made.created - time.time()) < 60
    for name in ("jpeg", "webp"):
        best, worst = (
            len(generate(client, output_format=name, output_compression=quality, seed=99).data[0].b64_json)
            for quality in (100, 0)
        )
        assert worst < best
        assert opened(generate(client, output_format=name).data[0].b64_json).format == name.upper()
    assert generate(client, size="auto").size == "1024x1024"


def test_an_address_gives_its_image_without_a_key(client: OpenAI, server: Server) -> None:
    (one,) = generate(client, response_format="url", output_format="jpeg", seed=1).data
    assert one.b64_json is None
    assert re.fullmatch(re.escape(server.url) + r"/v1/images/made/[\w-]{22}\.jpeg", one.url)
    found = httpx.get(one.url)
    assert (found.status_code, found.headers["content-type"]) == (200, "image/jpeg")
    assert opened(found.content).size == (64, 32)
    guessed = httpx.get(one.url.replace("/made/", "/made/x"))
    assert (guessed.status_code, guessed.json()["error"]["type"]) == (404, "invalid_request_error")
    assert httpx.post(one.url).status_code == 401
    assert httpx.post(f"{server.url}/v1/images/generations", json={}).status_code == 401


def test_pictures_are_edited(client: OpenAI) -> None:
    (one,) = edit(client, seed=5).data
    assert (opened(one.b64_json).size, opened(one.b64_json).getpixel((9, 9))) == ((64, 32), (5, 255, 200))
    (one,) = edit(client, image=[("a.png", picture((96, 64), 90))], mask=("m.png", picture((96, 64))), seed=5).data
    assert (opened(one.b64_json).size, opened(one.b64_json).getpixel((9, 9))) == ((96, 64), (5, 200, 90))


def test_pictures_of_an_edit_may_be_urls(client: OpenAI) -> None:
    def url(data: bytes) -> dict[str, str]:
        return {"image_url": f"data:image/png;base64,{base64.b64encode(data).decode()}"}

    asked: dict[str, Any] = {"model": "filler", "prompt": "a cat", "seed": 5}
    asked |= {"images": [url(picture())], "mask": url(picture(brightness=255))}
    made: Any = client.post("/images/edits", body=asked, cast_to=object)
    assert made["data"][0]["b64_json"] == edit(client, seed=5).data[0].b64_json
    bad: list[tuple[dict[str, Any], str, str]] = [
        ({"images": [{"image_url": "http://127.0.0.1:1/a.png"}]}, "images[0].image_url", "no host '127.0.0.1'"),
        ({"images": [{"image_url": "file:///etc/passwd"}]}, "images[0].image_url", "--allowed-local-media"),
        ({"images": [url(picture()[:50])]}, "images[0].image_url", "it is broken or truncated"),
        ({"images": [url(picture()), url(picture())]}, "images[1].image_url", "edits one input image"),
        ({"mask": url(picture((32, 32)))}, "mask.image_url", "has 32 x 32 pixels"),
        ({"mask": url(bytes(21 * 2**20))}, "mask.image_url", "an image may have 20971520 bytes"),
        ({"model": "fake", "images": [{"image_url": "http://127.0.0.1:1/a.png"}]}, "model", "edited images"),
    ]
    for fields, param, words in bad:
        with pytest.raises(openai.APIStatusError) as caught:
            client.post("/images/edits", body=asked | fields, cast_to=object)
        assert (caught.value.status_code in (400, 413), caught.value.param) == (True, param)
        assert words in str(caught.value)


@pytest.mark.parametrize("way", [generate, edit])
def test_a_stream_has_partial_images(client: OpenAI, way: Any) -> None:
    kind = "image_generation" if way is generate else "image_edit"
    with way(client, stream=True, partial_images=2, n=2, steps=9, seed=3, output_format="webp") as stream:
        events = list(stream)
    partial, completed = f"{kind}.partial_image", f"{kind}.completed"
    assert [event.type for event in events] == [partial, partial, completed] * 2
    assert [event.index for event in events] == [0, 0, 0, 1, 1, 1]
    assert [event.partial_image_index for event in events if event.type == partial] == [0, 1] * 2
    assert [event.seed for event in events if event.type == completed] == [3, 4]
    for event in events:
        assert (opened(event.b64_json).format, event.output_format) == ("WEBP", "webp")
        assert (event.size, event.background, event.quality) == ("64x32", "opaque", "auto")
    assert events[-1].usage.total_tokens == 0
    with way(client, stream=True, steps=4) as stream:
        assert [event.type for event in stream] == [completed]


def test_progress_is_told_and_a_client_that_leaves_ends_the_work(client: OpenAI, server: Server) -> None:
    headers = {"x-api-key": KEY}
    with client.images.with_streaming_response.generate(
        model="painter", prompt="slow", size="64x32", stream=True, extra_body={"steps": 200}
    ) as stream:
        comments = (line for line in stream.iter_lines() if line.startswith(": "))
        assert re.fullmatch(r": \d+ of 200 steps", next(comments))
        next(comments)
        assert server.until("painter", running=1)["percent"] is not None
        note = httpx.get(f"{server.url}/v1/stats", headers=headers).json()["models"]["painter"]["note"]
        assert re.fullmatch(r"\d+ of 200 steps", note)  # which the terminal shows
    left = 200 * fake_images.SLOW_STEP / 2
    assert server.until("painter", timeout=left, running=0)["percent"] is None
    assert generate(client.with_options(timeout=left)).data, "the model is free long before the image would be finished"


def test_the_queue_is_bounded(client: OpenAI, server: Server) -> None:
    with ThreadPoolExecutor(1) as threads, edit(client, prompt="slow", steps=8, n=2, stream=True):
        other = threads.submit(edit, client, prompt="slow", steps=8)
        server.until("filler", running=1, waiting=1)
        with pytest.raises(openai.RateLimitError) as caught:
            edit(client)
        assert caught.value.response.headers["retry-after"] == "30"
        assert other.result().data


def test_a_client_that_does_not_read_gets_all_later_and_holds_nobody_up(client: OpenAI, server: Server) -> None:
    asked = {"model": "painter", "prompt": "slow noise", "size": "2048x2048", "output_format": "jpeg", "seed": 1}
    asked |= {"stream": True, "steps": 4, "partial_images": 3}
    with httpx.stream(
        "POST", f"{server.url}/v1/images/generations", json=asked, headers={"x-api-key": KEY}, timeout=60
    ) as lazy:
        server.until("painter", running=1, percent=100.0)
        assert generate(client).data
        health = server.health("painter")
        # It waits if it is paused by now, and has ended if its last image was sent before the pause came.
        assert health["running"] + health["waiting"] <= 1
        events = [json.loads(line[6:]) for line in lazy.iter_lines() if line.startswith("data: ")]
    kinds = ["image_generation.partial_image"] * 3 + ["image_generation.completed"]
    assert [event.get("type") for event in events] == kinds
    assert min(len(event["b64_json"]) for event in events) > 5_000_000
    server.until("painter", running=0)


@pytest.mark.timeout(3600)
async def test_fuzzed_requests(client: OpenAI, server: Server) -> None:
    assert generate(client).data, "it is loaded"
    assert edit(client).data, "it is loaded"
    models = "painter", "filler"
    sent = sent_to(*models)
    assert await fuzz(server, sent, 0, models) == {"200": len(sent)}
    assert not (await fuzz(server, (), AMOUNT // 8, models))["left"]


def _files() -> list[bytes]:
    return [picture(), picture((64, 32), 0), picture((32, 32)), picture((16_000, 4000)), *bombs()]


# tests/gateway/media/test_uploads.py sends such forms to the part that reads them.
@pytest.mark.deep
@pytest.mark.timeout(3600)
@settings(max_examples=AMOUNT // 16)
@given(st.deferred(lambda: forms(_files(), PICTURES)))
def test_fuzzed_forms(forms_client: httpx.Client, folder: Path, sent: SentForm) -> None:
    call = Call("POST", "/v1/images/edits", {"content-type": sent.kind}, None)
    headers = {b"content-type": sent.kind.encode("latin-1")}
    answer = forms_client.post(call.path, content=iter(sent.pieces), headers=headers)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        check_error(call, answer)
    assert forms_client.get("/health").json()["models"]["filler"]["restarts"] == 0
    _wait_until_nothing_is_left(folder)


BAD: dict[str, tuple[Any, dict[str, Any], int, str]] = {
    "an empty prompt": (generate, {"prompt": ""}, 400, "prompt"),
    "a blank prompt": (generate, {"prompt": " \n"}, 400, "prompt"),
    "a size of the wrong form": (generate, {"size": "large"}, 400, "size"),
    "a size that no model can do": (generate, {"size": "1000x1001"}, 400, "size"),
    "too many": (generate, {"n": 11}, 400, "n"),
    "another format": (generate, {"output_format": "gif"}, 400, "output_format"),
    "what a preset lacks": (edit, {"negative_prompt": "dogs"}, 400, "negative_prompt"),
    "a model that only generates": (edit, {"model": "painter"}, 400, "model"),
    "a model that only edits": (generate, {"model": "filler"}, 400, "model"),
    "a chat model": (generate, {"model": "fake"}, 400, "model"),
    "no model of that name": (generate, {"model": "nobody"}, 404, "model"),
    "no picture": (edit, {"image": ("a.png", b"")}, 400, "image"),
    "a broken picture": (edit, {"image": ("a.png", picture()[:50])}, 400, "image"),
    "two pictures for one": (edit, {"image": [("a.png", picture()), ("b.png", picture())]}, 400, "image[]"),
    "a page in place of a picture": (edit, {"image": ("a.html", b"<p>")}, 400, "image"),
    "a picture of 21 MiB": (edit, {"image": ("a.png", bytes(21 * 2**20))}, 413, "image"),
    "a mask of another size": (edit, {"mask": ("m.png", picture((32, 32)))}, 400, "mask"),
    "a broken mask": (edit, {"mask": ("m.png", b"nonsense")}, 400, "mask"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(client: OpenAI, name: str) -> None:
    way, fields, status, param = BAD[name]
    with pytest.raises(openai.APIStatusError) as caught:
        way(client, **fields)
    assert (caught.value.status_code, caught.value.body["param"]) == (status, param)  # type: ignore[index]


def test_half_a_gigabyte_is_refused_before_it_has_been_sent(server: Server) -> None:
    head = b'--x\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\n'
    sent = []

    def pieces() -> Iterator[bytes]:
        yield head
        for _ in range(500):
            sent.append(2**20)
            yield bytes(2**20)

    headers = {"x-api-key": KEY, "content-type": "multipart/form-data; boundary=x"}
    headers["content-length"] = str(len(head) + 500 * 2**20)
    refused = httpx.post(f"{server.url}/v1/images/edits", headers=headers, content=pieces(), timeout=60)
    assert (refused.status_code, refused.json()["error"]["param"]) == (413, "image")
    assert "20971520 bytes" in refused.json()["error"]["message"]
    assert len(sent) < 500


def test_other_addresses_and_kinds(client: OpenAI, server: Server) -> None:
    with pytest.raises(openai.BadRequestError, match=re.escape("/v1/images/generations, /v1/images/edits")):
        client.chat.completions.create(model="painter", messages=[{"role": "user", "content": "Hi"}])
    with AzureOpenAI(azure_endpoint=server.url, api_key=KEY, api_version="1", max_retries=0, timeout=60) as azure:
        made = azure.images.generate(model="painter", prompt="a cat", size="64x64")
        assert opened(made.data[0].b64_json or "").size == (64, 64)  # type: ignore[index]
        edited = azure.images.edit(model="filler", prompt="a cat", image=picture(), mask=picture(brightness=255))
        assert opened(edited.data[0].b64_json or "").size == (64, 32)  # type: ignore[index]
        with pytest.raises(openai.BadRequestError) as caught:
            azure.images.generate(model="painter", prompt="")
        assert caught.value.code == "BadRequest"
    stats = httpx.get(f"{server.url}/v1/stats", headers={"x-api-key": KEY}).json()["models"]["filler"]
    assert stats["units"]["images"] >= 1


def test_a_chat_goes_on_meanwhile(client: OpenAI, server: Server) -> None:
    headers = {"x-api-key": KEY}
    with generate(client, prompt="slow", steps=5, stream=True) as stream:
        chat = httpx.post(f"{server.url}/v1/chat/completions", json=body(text="tick"), headers=headers, timeout=60)
        assert [event.type for event in stream] == ["image_generation.completed"]
    assert chat.json()["choices"][0]["message"]["content"] == "tick"


def test_without_the_environment_the_error_says_what_to_do(tmp_path: Path) -> None:
    model = ModelEntry("painter", str(tmp_path), None, kind="image", options=ImageOptions())
    env = {"ORCHARD_CACHE_DIR": str(tmp_path / "cache")}
    with serve([model], env=env) as running:
        asked = {"model": "painter", "prompt": "a cat"}
        refused = httpx.post(f"{running.url}/v1/images/generations", json=asked, timeout=60)
        assert running.health("painter")["state"] == "failed"
    assert (refused.status_code, refused.json()["error"]["code"]) == (500, "model_failed")
    assert "run 'orchard setup images'" in refused.json()["error"]["message"]
    assert os.listdir(tmp_path) in ([], ["cache"])


def test_the_proof_of_seeds(server: Server) -> None:
    proof = prove_served(server, ModelEntry("painter", "", None, kind="image"), "seeds")
    assert (proof.status, proof.seen) == ("ok", "2 images at once are those of their seeds alone")
    refused = prove_served(server, ModelEntry("filler", "", None, kind="image"), "seeds")
    assert (refused.status, "does not draw" in refused.seen) == ("left out", True)
