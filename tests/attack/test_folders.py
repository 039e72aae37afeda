"""Stores and caches that are damaged, shared by two servers, or in folders that can't be written to."""

import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.models.registry import resolve_model
from tests.support.gateway_client import body
from tests.support.serving import FAKE, Server, serve

DEMO = resolve_model("demo")


def post(server: Server, path: str, **fields: object) -> httpx.Response:
    return httpx.post(server.url + path, json=fields, timeout=60)


def respond(server: Server, model: str, text: str, previous: str | None = None) -> Any:
    """Return a stored response."""
    fields = {"previous_response_id": previous} if previous else {}
    response = post(server, "/v1/responses", model=model, input=text, max_output_tokens=16, **fields)
    assert response.status_code == 200, response.text
    assert "warning" not in response.headers
    return response.json()


@pytest.mark.parametrize("damage", [b'{"type": "mess\xff', b"", b'{"type": 5}'])
def test_a_damaged_row_of_the_store_is_an_error_that_says_so(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "responses.db"
    with serve(responses_path=str(path)) as server:
        whole, broken = (respond(server, "fake", text)["id"] for text in ("whole", "broken"))
        database = sqlite3.connect(path)
        with database:
            database.execute("UPDATE items SET item = ? WHERE response = ?", (damage, broken))
        database.close()
        for route in ("", "/input_tokens", "/compact"):
            refused = post(server, f"/v1/responses{route}", model="fake", input="on", previous_response_id=broken)
            assert (refused.status_code, "is damaged" in refused.text) == (503, True), refused.text
        assert respond(server, "fake", "on", whole)
        assert httpx.delete(f"{server.url}/v1/responses/{broken}").status_code == 200


def test_a_home_that_cannot_be_written_to_costs_only_what_needs_it(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "file" / "home")  # not even root can make a folder below a file
    (tmp_path / "file").touch()
    env = {"HOME": nowhere, "ORCHARD_CACHE_DIR": f"{nowhere}/cache"}
    with serve(env=env, responses_path="~/.orchard/responses.db") as server:
        assert post(server, "/v1/chat/completions", **body(text="hello")).status_code == 200
        response = post(server, "/v1/responses", model="fake", input="Hi")
        assert (response.status_code, response.json()["store"], "not stored" in response.headers["warning"]) == (
            200,
            False,
            True,
        )
        upload = httpx.post(f"{server.url}/v1/audio/transcriptions", files={"file": b"sound"}, data={"model": "fake"})
        for refused in (
            post(server, "/v1/responses", model="fake", input="Hi", background=True),
            post(server, "/v1/conversations"),
            upload,
        ):
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")


@pytest.mark.parametrize("model", ["fake", pytest.param("demo", marks=pytest.mark.deep)])
def test_two_servers_share_a_store_and_a_prompt_cache(tmp_path: Path, model: str) -> None:
    text = TextOptions(prompt_cache_dir=str(tmp_path / "prompts"))
    models = [DEMO if model == "demo" else FAKE]
    shared: dict[str, Any] = {"responses_path": str(tmp_path / "responses.db"), "text": text, "spare": False}
    with serve(models, **shared) as one, serve(models, **shared) as two:
        for server in (one, two):
            server.until(model, state="ready")
        last, said = None, []
        for turn in range(6):
            said.append(f"Turn {turn}.")
            last = respond((one, two)[turn % 2], model, said[-1], last)["id"]
            for server in (one, two):
                items = httpx.get(f"{server.url}/v1/responses/{last}/input_items", params={"order": "asc"}).json()[
                    "data"
                ]
                assert [item["content"][0]["text"] for item in items if item["role"] == "user"] == said
    database = sqlite3.connect(tmp_path / "responses.db")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[random.Random(len(content)).randrange(len(content))] ^= 1
    file.write_bytes(content)


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _swap(file: Path) -> None:
    other = min(file.parent.glob("*.safetensors"))
    content = other.read_bytes()
    other.write_bytes(file.read_bytes())
    file.write_bytes(content)


def _become_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.deep  # tests/engine/prefix_cache/test_disk_io.py damages files for `make test`
def test_damaged_prompt_cache_files_change_no_answer(tmp_path: Path) -> None:
    damages: list[Callable[[Path], None]] = [_flip, _cut, _swap, _become_a_pipe, Path.unlink]
    text = TextOptions(prompt_cache_dir=str(tmp_path))
    head = "Orchard serves models. " * 40
    prompts = [f"{head} Story {n // 2} {'and so on ' * 30} Question {n}?" for n in range(8)]

    def answers() -> list[str]:
        with serve([DEMO], text=text, spare=False) as server:
            server.until("demo", state="ready")
            asked = [[{"role": "user", "content": prompt}] for prompt in prompts]
            replies = [
                post(server, "/v1/chat/completions", messages=one, max_tokens=24, temperature=0).json() for one in asked
            ]
        return [reply["choices"][0]["message"]["content"] for reply in replies]

    right = answers()
    files = sorted(tmp_path.glob("*/*.safetensors"))
    assert len(files) >= len(damages)
    for number, file in enumerate(files):
        damages[number % len(damages)](file)
    assert answers() == right
