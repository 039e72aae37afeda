"""Open WebUI without a browser: what its page asks of its server, which runs with the settings of docs/clients.md."""

import json
import os
import re
import shlex
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import socketio

from tests.clients.agents import ROOT
from tests.clients.prompts import ASK_WEATHER, SUM, SUM_ANSWER, WEATHER_SCHEMA
from tests.clients.starting import started

SECTION = (ROOT / "docs" / "clients.md").read_text().partition("## Open WebUI")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def webui(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with open_webui(url, tmp_path_factory.mktemp("open-webui")) as client:
        yield client


@contextmanager
def open_webui(url: str, home: Path) -> Iterator[httpx.Client]:
    """Yield a signed-in client of an Open WebUI that uses the server; `home` is its folder."""
    written = " ".join(
        re.findall(r"^```console\n\$ (export [^`]*)^(?:\$ open-webui serve\n)?```", SECTION, re.MULTILINE)
    )
    words = shlex.split(written.replace("http://127.0.0.1:8000", url), comments=True)
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "DATA_DIR": str(home), "WEBUI_SECRET_KEY": "secret" * 6}
    own |= {"WEBUI_AUTH": "False", "ENABLE_OLLAMA_API": "False", "OFFLINE_MODE": "True"}
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    command = [os.environ["OPEN_WEBUI"], "serve", "--host", "127.0.0.1"]
    with started(command, home, _is_ready, own | settings) as address, httpx.Client(base_url=address) as client:
        client.timeout = 60
        user = {"email": "", "password": ""}  # without sign-in, everybody is this one
        token = _post(client, "/api/v1/auths/signin", json=user)["token"]
        client.headers["authorization"] = f"Bearer {token}"
        yield client


def _is_ready(url: str) -> bool:
    return httpx.get(f"{url}/health").status_code == 200


def _post(client: httpx.Client, path: str, **content: Any) -> Any:
    response = client.post(path, **content)
    assert response.status_code == 200, response.text
    return response.json()


def test_the_models_are_listed(webui: httpx.Client) -> None:
    assert "demo" in [model["id"] for model in webui.get("/api/models").json()["data"]]


def test_a_streamed_answer(webui: httpx.Client) -> None:
    # So long that guesses can't bring all of it in one step.
    body = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": "Count from 1 to 30."}]}
    with webui.stream("POST", "/api/chat/completions", json=body) as response:
        *events, done = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    assert done == "[DONE]"
    deltas = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events]
    assert "".join(deltas) == ", ".join(map(str, range(1, 31)))
    assert sum(map(bool, deltas)) > 1


def test_a_chat_of_the_page(webui: httpx.Client) -> None:
    """The page sends a question over HTTP and gets the answer, and the chat's title, through a socket."""
    received = _chat(webui, SUM, {"background_tasks": {"title_generation": True}}, {"chat:title", "done"})
    assert received["chat:title"]
    assert SUM_ANSWER in received["done"]["output"][0]["content"][0]["text"]


def _chat(client: httpx.Client, question: str, options: dict[str, Any], awaited: set[str]) -> dict[str, Any]:
    """Ask as the page does; return what comes through the socket, by type, as soon as all that is awaited has come."""
    message = {"id": "question", "parentId": None, "role": "user", "content": question, "models": ["demo"]}
    body = {"model": "demo", "stream": True, "parent_id": None, "id": "answer", "user_message": message}
    body |= {"messages": [{"role": "user", "content": question}], **options}
    token = client.headers["authorization"].removeprefix("Bearer ")
    with socketio.SimpleClient() as page:
        address = str(client.base_url)
        page.connect(address, socketio_path="/ws/socket.io", transports=["websocket"], auth={"token": token})
        _post(client, "/api/chat/completions", json=body | {"session_id": page.sid})
        received: dict[str, Any] = {}
        while not awaited <= received.keys():
            _, event = page.receive(timeout=60)
            data = event["data"]["data"]
            done = event["data"]["type"] == "chat:completion" and data.get("done")
            received["done" if done else event["data"]["type"]] = data
    return received


def test_a_call(webui: httpx.Client) -> None:
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER_SCHEMA}}
    body = {"model": "demo", "tools": [tool], "messages": [{"role": "user", "content": ASK_WEATHER}]}
    (choice,) = _post(webui, "/api/chat/completions", json=body)["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("get_weather", {"city": "Paris"})


def test_a_picture(webui: httpx.Client, url: str) -> None:
    # The model isn't listed unless the server's command names it: a connection may name models, too.
    connections = {"ENABLE_OPENAI_API": True, "OPENAI_API_BASE_URLS": [f"{url}/v1"] * 2}
    connections |= {"OPENAI_API_KEYS": ["none"] * 2, "OPENAI_API_CONFIGS": {"1": {"model_ids": ["demo-vision"]}}}
    _post(webui, "/openai/config/update", json=connections)
    assert {"demo", "demo-vision"} <= {model["id"] for model in webui.get("/api/models").json()["data"]}
    file = _upload(webui, "/api/v1/files/?process=false", ROOT / "examples" / "shapes.png", "image/png")
    content = [
        {"type": "text", "text": "What is in the picture?"},
        {"type": "image_url", "image_url": {"url": file["id"]}},
    ]
    body = {"model": "demo-vision", "messages": [{"role": "user", "content": content}]}
    (choice,) = _post(webui, "/api/chat/completions", json=body)["choices"]
    assert "blue square" in choice["message"]["content"]


def test_its_ollama_connection(webui: httpx.Client, url: str) -> None:
    connection = {"ENABLE_OLLAMA_API": True, "OLLAMA_BASE_URLS": [url], "OLLAMA_API_CONFIGS": {}}
    _post(webui, "/ollama/config/update", json=connection)
    assert webui.get("/ollama/api/version").json()["version"]
    assert "demo" in [model["model"] for model in webui.get("/ollama/api/tags").json()["models"]]
    assert _post(webui, "/ollama/api/show", json={"model": "demo"})["capabilities"]
    body = {"model": "demo", "messages": [{"role": "user", "content": SUM}]}
    with webui.stream("POST", "/ollama/api/chat", json=body) as response:
        lines = [json.loads(line) for line in response.iter_lines() if line.strip()]
    assert SUM_ANSWER in "".join(line["message"]["content"] for line in lines)
    assert lines[-1]["done"]
    _post(webui, "/ollama/config/update", json=connection | {"ENABLE_OLLAMA_API": False})


def test_speech(webui: httpx.Client) -> None:
    heard = _upload(webui, "/api/v1/audio/transcriptions", ROOT / "examples" / "words.mp3", "audio/mpeg")
    assert "telephone" in heard["text"]


def test_a_silent_recording(webui: httpx.Client, tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "silent.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(2 * 16_000))
    assert _upload(webui, "/api/v1/audio/transcriptions", tmp_path / "silent.wav", "audio/wav")["text"] == ""


def test_the_voices_are_listed(webui: httpx.Client) -> None:
    """Its own list, which it shows if the server has none, lacks some names."""
    voices = [voice["id"] for voice in webui.get("/api/v1/audio/voices").json()["voices"]]
    assert {"alloy", "fable", "nova", "onyx"} <= set(voices)


def _upload(client: httpx.Client, path: str, file: Path, kind: str) -> Any:
    return _post(client, path, files={"file": (file.name, file.read_bytes(), kind)})


@pytest.fixture(scope="module")
def making(makers_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """As `webui`, with models that make images and speech."""
    with open_webui(makers_url, tmp_path_factory.mktemp("open-webui")) as client:
        yield client


def test_a_spoken_answer(making: httpx.Client) -> None:
    said = making.post("/api/v1/audio/speech", json={"input": "Hello there.", "voice": "alloy"})
    assert (said.status_code, said.headers["content-type"]) == (200, "audio/mpeg")
    assert said.content.startswith((b"ID3", b"\xff"))


def test_images(making: httpx.Client) -> None:
    (made,) = _post(making, "/api/v1/images/generations", json={"prompt": "a cat"})
    assert _size(making, made) == (1024, 1024)
    (edited,) = _post(making, "/api/v1/images/edit", json={"prompt": "at night", "image": made["url"]})
    assert _size(making, edited) == (1024, 1024)


def test_an_image_in_a_chat(making: httpx.Client) -> None:
    (image,) = _chat(making, "a cat", {"features": {"image_generation": True}}, {"files", "done"})["files"]["files"]
    assert _size(making, image) == (1024, 1024)


def _size(client: httpx.Client, image: dict[str, str]) -> tuple[int, int]:
    """Return the width and height of a PNG."""
    file = client.get(image["url"]).content
    assert file.startswith(b"\x89PNG")
    return int.from_bytes(file[16:20]), int.from_bytes(file[20:24])
