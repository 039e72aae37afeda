"""Downloads that clients begin, watch and stop."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchard.config import ModelSettings
from orchard.gateway.models.hub_search import HubModel
from orchard.gateway.routes import models as routes
from tests.support.hub import SIZE, Hub, run_hub
from tests.support.model_folders import make_model, some_weights
from tests.support.serving import FAKE, Server, serve

TINY = "/v1/models/org/tiny/download"
KEY, ADMIN = "user-key", "admin-key"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with two models."""
    with run_hub() as hub:
        for name in ("tiny", "other"):
            folder = tmp_path_factory.mktemp(name)
            hub.repos[f"org/{name}"] = make_model(folder, shards=2)
            (folder / "model-00002-of-00002.safetensors").write_bytes(some_weights(SIZE))
        yield hub


def environment(hub: Hub, cache: Path) -> dict[str, str]:
    return {**hub.env, "HF_HOME": str(cache), "HF_HUB_CACHE": str(cache / "hub")}


def ask(server: Server, method: str, path: str = TINY, key: str = "", **headers: str) -> httpx.Response:
    return httpx.request(method, server.url + path, headers={"x-api-key": key} | headers, timeout=30)


def poll(server: Server, path: str = TINY, **expected: Any) -> dict[str, Any]:
    """Ask until the fields are as expected."""
    while True:
        told: dict[str, Any] = ask(server, "GET", path).json()
        if all(told[name] == value for name, value in expected.items()):
            return told
        assert told["status"] == "downloading", told
        time.sleep(0.05)


def test_a_download_from_begin_to_end(hub: Hub, tmp_path: Path) -> None:
    with serve(env=environment(hub, tmp_path), allow_download=True, model_dir=str(tmp_path)) as server:
        assert ask(server, "GET").json()["error"]["code"] == "model_not_found"
        hub.goes_on.clear()
        begun = ask(server, "POST").json()
        assert begun == {
            "object": "model.download",
            "id": "org/tiny",
            "status": "downloading",
            "downloaded_bytes": 0,
            "total_bytes": 0,
            "error": None,
        }
        assert ask(server, "POST").json()["status"] == "downloading"  # joins it
        assert ask(server, "POST", "/v1/models/org/nothing/download").json()["status"] == "downloading"
        failed = poll(server, "/v1/models/org/nothing/download", status="failed")
        assert "there is no model 'org/nothing'" in failed["error"]
        while (told := ask(server, "GET").json())["downloaded_bytes"] < 0.4 * SIZE:
            assert told["status"] == "downloading"
        assert ask(server, "DELETE").json()["status"] == "cancelled"
        hub.goes_on.set()
        ask(server, "POST")
        done = poll(server, status="done")
        assert done["downloaded_bytes"] == done["total_bytes"] > 0.9 * SIZE
        assert len([asked for asked in hub.sent("tiny") if asked.endswith("/config.json")]) == 1  # kept


def test_the_hub_is_searched(hub: Hub, tmp_path: Path) -> None:
    models = (ModelSettings(model_path="demo", on_demand=True),)
    with serve((), models=models, env=environment(hub, tmp_path), spare=False, allow_download=True) as server:
        hub.uses["org/other"] = "image-text-to-text"
        found = ask(server, "GET", "/v1/hub/models?query=org").json()
        assert [(each["id"], each["use"], each["downloaded"]) for each in found["data"]] == [
            ("org/tiny", "other", False),
            ("org/other", "vision", False),
        ]
        assert all(SIZE < each["size_bytes"] < 1.1 * SIZE for each in found["data"])
        ask(server, "POST")
        poll(server, status="done")
        (tiny,) = ask(server, "GET", "/v1/hub/models?query=TINY%20org").json()["data"]
        assert tiny["downloaded"]
        assert ask(server, "GET", "/v1/hub/models?query=no%20such%00").json()["data"] == []
        for query in ("", "?query=", "?query=" + 201 * "x"):
            refused = ask(server, "GET", f"/v1/hub/models{query}")
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "query")


def hold_searches() -> None:
    async def search(words: str) -> list[HubModel]:
        if words != "quick":
            await asyncio.get_running_loop().create_future()
        return []

    pytest.MonkeyPatch().setattr(routes, "search_hub_in_process", search)


async def test_searches_that_hang_are_few_and_end_with_their_callers() -> None:
    with serve(prepare=hold_searches, allow_download=True, spare=False) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:

            async def find(words: str) -> int:
                return (await client.get(f"/v1/hub/models?query={words}")).status_code

            waiting = [asyncio.create_task(find("slow")) for _ in range(200)]
            done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            while len(others) > 16:
                more, others = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
                done |= more
            assert {task.result() for task in done} == {429}
            assert await find("quick") == 429
            for task in others:
                task.cancel()
            while await find("quick") != 200:
                pass


def test_a_hub_that_cannot_be_reached_is_said(hub: Hub, tmp_path: Path) -> None:
    nowhere = {**environment(hub, tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"}
    with serve(env=nowhere, allow_download=True) as server:
        refused = ask(server, "GET", "/v1/hub/models?query=x")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
        assert "http://127.0.0.1:9 can't be searched" in refused.json()["error"]["message"]


def test_where_nothing_may_be_downloaded(server: Server) -> None:
    for method, path in (("POST", TINY), ("GET", TINY), ("DELETE", TINY), ("GET", "/v1/hub/models?query=x")):
        refused = ask(server, method, path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        assert "--allow-download" in refused.json()["error"]["message"]


def test_who_may(hub: Hub, tmp_path: Path) -> None:
    with serve(
        [FAKE], env=environment(hub, tmp_path), allow_download=True, api_keys=(KEY,), admin_keys=(ADMIN,)
    ) as own:
        for method in ("POST", "GET", "DELETE"):
            assert "takes an admin key" in ask(own, method, key=KEY).json()["error"]["message"]
            assert ask(own, method).status_code == 401
        assert ask(own, "POST", key=ADMIN, origin="https://elsewhere.example").status_code == 403
        here = ask(own, "POST", "/v1/models/fake/download", key=ADMIN).json()
        assert (here["status"], here["id"]) == ("done", "fake")
        assert not [asked for asked in hub.asked if "fake" in asked]
