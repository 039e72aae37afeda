"""The bundled model that looks at pictures: real files, real questions, by the official SDKs, against a real server."""

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from anthropic import Anthropic
from openai import OpenAI
from PIL import Image, ImageDraw

from orchard.demo import VISION_MODEL_PATH
from orchard.gateway.models.registry import resolve_model
from tests.support.serving import Server, serve

ROOT = Path(__file__).parents[2]

Shape = tuple[Literal["circle", "square", "triangle"], str, tuple[int, int]]

RED_CIRCLE: Shape = ("circle", "red", (80, 80))
BLUE_SQUARE: Shape = ("square", "blue", (40, 40))
GREEN_TRIANGLE: Shape = ("triangle", "green", (120, 120))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve([resolve_model("demo-vision")], spare=False) as running:
        running.until("demo-vision", state="ready")
        yield running


def drawn(*shapes: Shape, file: str = "PNG") -> bytes:
    """A picture file of 160 x 160 pixels."""
    image = Image.new("RGB", (160, 160), "white")
    pen = ImageDraw.Draw(image)
    for shape, colour, (x, y) in shapes:
        box = (x - 26, y - 26, x + 26, y + 26)
        if shape == "circle":
            pen.ellipse(box, fill=colour)
        elif shape == "square":
            pen.rectangle(box, fill=colour)
        else:
            pen.polygon([(x, y - 26), (x - 26, y + 26), (x + 26, y + 26)], fill=colour)
    content = io.BytesIO()
    image.save(content, file)
    return content.getvalue()


def media_type(file: bytes) -> str:
    return "image/png" if file.startswith(b"\x89PNG") else "image/jpeg"


def by_openai(server: Server, question: str, *files: bytes) -> str:
    parts: list[Any] = [
        {"type": "image_url", "image_url": {"url": f"data:{media_type(file)};base64,{base64.b64encode(file).decode()}"}}
        for file in files
    ]
    messages: list[Any] = [{"role": "user", "content": [*parts, {"type": "text", "text": question}]}]
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(model="demo-vision", messages=messages, max_tokens=60)
    return answer.choices[0].message.content or ""


def by_anthropic(server: Server, question: str, *files: bytes) -> str:
    blocks: list[Any] = [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": media_type(file), "data": base64.b64encode(file).decode()},
        }
        for file in files
    ]
    messages: list[Any] = [{"role": "user", "content": [*blocks, {"type": "text", "text": question}]}]
    with Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        (said,) = client.messages.create(model="demo-vision", messages=messages, max_tokens=60).content
    assert said.type == "text"
    return said.text


ASK = pytest.mark.parametrize("ask", [by_openai, by_anthropic])


@pytest.mark.parametrize(("ask", "file"), [(by_openai, "PNG"), (by_anthropic, "JPEG")])
def test_it_tells_what_one_picture_shows(server: Server, ask: Any, file: str) -> None:
    one, two = drawn(RED_CIRCLE, file=file), drawn(BLUE_SQUARE, GREEN_TRIANGLE, file=file)
    answers = {
        (one, "What colour is the circle?"): "The circle is red.",
        (one, "What shape is the red shape?"): "The red shape is a circle.",
        (two, "How many shapes are there?"): "There are 2 shapes.",
        (two, "Where is the triangle?"): "The triangle is at the bottom right.",
        (two, "Is there a yellow star?"): "No, there is no yellow star.",
        (two, "What do you see?"): "I see a blue square and a green triangle.",
    }
    assert {asked: ask(server, asked[1], asked[0]) for asked in answers} == answers


def test_the_example_of_the_readme(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It prints what its last comment says."""
    monkeypatch.chdir(ROOT)  # where the example has its picture
    (example,) = re.findall(r"```python\n([^`]*demo-vision[^`]*)```", Path("README.md").read_text())
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        exec(example, {"client": client})  # noqa: S102
    assert capsys.readouterr().out.strip() == example.rpartition("# ")[2].strip()


@ASK
def test_it_compares_two_pictures(server: Server, ask: Any) -> None:
    red, blue = drawn(RED_CIRCLE), drawn(("circle", "blue", (80, 80)), file="JPEG")
    assert ask(server, "Which picture has a blue circle?", red, blue) == "The second picture has a blue circle."
    differ = "They differ: the first picture has a red circle, the second a blue circle."
    assert ask(server, "What is the difference between the pictures?", red, blue) == differ
    assert ask(server, "Are the two pictures the same?", red, red) == "The two pictures show the same."


@ASK
def test_it_answers_text_and_asks_for_a_picture(server: Server, ask: Any) -> None:
    assert "vision demo model of Orchard" in ask(server, "Who are you?")
    assert "I see no picture" in ask(server, "What colour is the circle?")


def test_the_folder_is_small_and_complete() -> None:
    files = {path.name: path.stat().st_size for path in VISION_MODEL_PATH.iterdir()}
    assert files.keys() >= {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "preprocessor_config.json",
        "README.md",
    }
    assert sum(files.values()) <= 8_000_000
    assert json.loads((VISION_MODEL_PATH / "config.json").read_text())["model_type"] == "qwen3_vl"
    assert "has not been measured" not in (VISION_MODEL_PATH / "README.md").read_text()
