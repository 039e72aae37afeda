"""A new kind of model with a dialect of its own: a file each, and a row each in the tables of kinds and of routes."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

import orchard
from orchard.cli import setup
from orchard.cli.settings.table import build_table
from orchard.config import ModelSettings, Settings, with_kinds
from orchard.core.request import Request
from orchard.core.tasks.embed import Embed
from orchard.core.tasks.generate import Generate
from orchard.gateway.models.registry import Registry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.pool.worker_process import WorkerProcess
from orchard.gateway.replies.event_stream import EventStream
from orchard.gateway.routes.app import create_app
from orchard.gateway.routes.table import ROUTES, RouteGroup
from orchard.kinds import FAKE, KINDS, TEXT, Backend, ModelKind
from tests.support import toy_dialect
from tests.support.environments import site_packages, toy_environment
from tests.support.model_folders import make_model
from tests.support.toy_kind import ToyEmbed, ToyOptions

TOY = Backend("tests.support.toy_kind:ToyService", (ToyEmbed,), ToyOptions, extra="toy")
VECTORS = "/v1/toy/org/responses-7b/vectors"


@pytest.fixture(autouse=True)
def _rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add a row to each table."""
    row = ModelKind(TOY, lambda config, files: config.get("model_type") == "toy", ("toy",))
    monkeypatch.setitem(KINDS, "toy", row)
    ROUTES.append(RouteGroup(toy_dialect.add, toy_dialect.fail, ("/v1",), ("/vectors",)))
    yield
    ROUTES.pop()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A folder with a toy model, and one of a text model."""
    for name, kind in (("bear", "toy"), ("writer", "qwen3")):
        make_model(tmp_path / name, {"model_type": kind})
    return Settings(model_dir=str(tmp_path), responses_path=":memory:", memory_limit=10**6)


class Toys:
    """A server in this process, whose workers are processes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pool = Pool(Registry.from_settings(settings), settings)
        transport = httpx.ASGITransport(create_app(self.pool, settings))
        self.client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60)

    async def vectors(self, *texts: str, **fields: Any) -> httpx.Response:
        return await self.client.post(VECTORS, json={"texts": texts, "model": "bear"} | fields)


@pytest.fixture
async def toys(settings: Settings) -> AsyncIterator[Toys]:
    running = Toys(settings)
    yield running
    await running.pool.close()


async def test_a_model_of_the_new_kind_is_found_loaded_on_demand_and_counted(toys: Toys) -> None:
    answer = await toys.vectors("a", "four")
    assert (answer.status_code, answer.json()) == (200, {"vectors": [[1.0] * 3, [4.0] * 3], "tokens": 5})
    assert (await toys.vectors("b", model=None)).json()["vectors"] == [[1.0] * 3]  # the only one that gives vectors
    listed = (await toys.client.get("/v1/models")).json()["data"]
    (bear,) = [entry for entry in listed if entry["id"] == "bear"]
    assert (bear["kind"], bear["state"], bear["size"], bear["batching"]) == ("toy", "ready", "3", None)
    counted = toys.pool.metrics.models["bear"]
    assert dict(counted.requests) == {("/v1/toy/{name:path}/vectors", "ok"): 2}
    assert (counted.prompts, counted.prompt_tokens, counted.completion_tokens.total) == (2, 6, 0)
    assert (sum(counted.first_token.counts), sum(counted.gap.counts)) == (2, 0)
    stats = (await toys.client.get("/v1/stats")).json()["models"]["bear"]
    assert (stats["units"], stats["tokens"]["prompt"]) == ({"toys": 1.5}, 6)
    lines = (await toys.client.get("/metrics")).text.splitlines()
    assert 'orchard_units_total{model="bear",unit="toys"} 1.5' in lines


def test_options_of_the_new_kind_are_settings(settings: Settings) -> None:
    server, model = with_kinds(Settings), with_kinds(ModelSettings)  # as after a start with the row in the table
    rows = build_table({model: "entry", server: "server"})
    assert [(row.homes, row.scope) for row in rows if row.name == "size"] == [((ToyOptions,), "all")]
    folder = settings.model_dir
    own = replace(model(model_path=f"{folder}/bear", served_model_name="own"), toy=ToyOptions(size=2))
    for given, size in (
        (replace(server(model_dir=folder), toy=ToyOptions(size=5)), 5),
        (replace(server(models=(own,)), toy=ToyOptions(size=5)), 2),
        (settings, 3),
    ):
        entry = next(one for one in Registry.from_settings(given).list_models() if one.kind == "toy")
        assert entry.options == ToyOptions(size=size)


async def test_a_model_is_asked_only_for_what_it_gives(toys: Toys) -> None:
    chat = {"model": "bear", "messages": [{"role": "user", "content": "Hi"}]}
    refused = await toys.client.post("/v1/chat/completions", json=chat)
    assert refused.status_code == 400
    error = refused.json()["error"]
    message = "model 'bear' gives toy vectors and no text; it is served at /v1/toy/{name}/vectors"
    assert (error["message"], error["param"]) == (message, "model")
    refused = await toys.vectors("a", model="writer")
    assert (refused.status_code, refused.json()["field"]) == (400, "model")
    message = refused.json()["oops"]
    assert message.startswith("model 'writer' gives text and no toy vectors; it is served at /v1/chat")
    assert "/v1/messages, " in message
    assert not toys.pool.processes.workers, "nothing was loaded for either"
    claude = (await toys.client.get("/anthropic/v1/models")).json()["data"]
    assert "bear" not in [entry["id"] for entry in claude]


async def test_errors_are_told_in_the_new_dialects_words(toys: Toys, settings: Settings) -> None:
    cases: list[tuple[httpx.Response, int, str | None]] = [(await toys.vectors("a", model="nobody"), 404, "model")]
    cases += [(await toys.vectors(""), 400, "texts")]
    cases += [(await toys.vectors("a", texts=7), 400, "texts"), (await toys.client.get(VECTORS), 405, None)]
    cases += [(await Toys(replace(settings, api_keys=("key",))).vectors("a"), 401, None)]
    for response, status, field in cases:
        assert (response.status_code, response.json()["field"]) == (status, field), response.text
        assert set(response.json()) == {"oops", "kind", "field"}


async def test_a_desktop_app_may_ask_by_the_new_dialect(toys: Toys) -> None:
    app = {"origin": "tauri://localhost"}
    assert (await toys.client.post(VECTORS, json={"texts": ["a"]}, headers=app)).status_code == 404
    elsewhere = await toys.client.post("/v1/toy/nowhere", json={}, headers=app)
    assert elsewhere.status_code == 403


async def test_a_crash_ends_its_own_request_alone(toys: Toys) -> None:
    crashed = await toys.vectors("crash")
    assert (crashed.status_code, crashed.json()["kind"]) == (503, "worker_crashed")
    assert (await toys.vectors("b")).json()["vectors"] == [[1.0] * 3]
    assert (
        toys.pool.metrics.models["bear"].crashes == 2
    )  # it was given to a second process, as nobody had seen anything


async def test_what_a_kind_lacks_is_named(toys: Toys, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = replace(TOY, service="tests.support.no_such_kind:Service")
    monkeypatch.setitem(KINDS, "toy", replace(KINDS["toy"], backend=lacking))
    failed = await toys.vectors("a")
    assert failed.json()["kind"] == "model_failed"
    reason = "the package 'tests.support.no_such_kind' is not installed: pip install 'mlx-orchard[toy]'"
    assert reason in failed.json()["oops"]


async def test_a_process_that_cant_be_started_is_told(toys: Toys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    failed = await toys.vectors("a")
    assert failed.json()["kind"] == "model_failed"
    assert "its process can't be started" in failed.json()["oops"]


async def test_a_kind_has_an_environment_of_its_own(
    toys: Toys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers find the package `orchard` there, and none that is installed beside it."""
    environment = toy_environment(tmp_path, monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # which must not reach the worker
    own = replace(TOY, service="tests.support.toy_kind:IsolatedToyService", environment=environment)
    monkeypatch.setitem(KINDS, "toy", replace(KINDS["toy"], backend=own))
    failed = await toys.vectors("a")
    assert failed.json()["kind"] == "model_failed"
    assert "its environment is missing: run 'orchard setup toy'" in failed.json()["oops"]

    setup.set_up_environment(environment)
    failed = await Toys(toys.settings).vectors("a")
    assert "the package 'tests' is not installed: run 'orchard setup toy'" in failed.json()["oops"]

    (site_packages(environment) / "tests.pth").write_text(str(Path(__file__).parents[2]))
    made = Toys(toys.settings)
    assert (await made.vectors("four")).json()["vectors"] == [[4.0] * 3]
    (bear,) = [entry for entry in (await made.client.get("/v1/models")).json()["data"] if entry["id"] == "bear"]
    assert (bear["prefix"], bear["found"]) == (environment.folder.name, "msgspec psutil")
    await made.pool.close()


async def test_a_kind_that_only_a_download_reveals_gets_no_other_tasks() -> None:
    for backend, task in ((FAKE, ToyEmbed(("a",))), (TOY, Generate()), (TEXT, Embed(("a",)))):
        stream = EventStream()
        WorkerProcess(backend, Settings()).send_request(Request("req_1", "m", task), stream)
        (failed,) = await stream.next(1)
        assert failed.kind == "invalid_request"  # type: ignore[union-attr]
        assert f"and no {task.gives}; it is served at" in failed.message  # type: ignore[union-attr]


def test_a_kind_is_named_only_where_it_is_written() -> None:
    """Beside its backend: its task, its dialect, its row of kinds, its row of routes, and its proof."""
    package = Path(orchard.__file__).parent
    files = {file.relative_to(package) for file in package.rglob("*.py") if "rerank" in file.read_text().lower()}
    named = {file.as_posix() for file in files if file.parts[0] != "backends"}
    written = {"core/tasks/rerank.py", "dialects/openai/rerank.py", "kinds.py", "gateway/routes/table.py"}
    assert named == {*written, "cli/verify/other_kinds.py"}


def test_every_address_that_errors_name_is_a_route() -> None:
    routes = {prefix + end for group in ROUTES for prefix in group.prefixes for end in group.answers}
    backends = {kind.backend for name, kind in KINDS.items() if name != "toy"}
    named = {address for backend in backends for task in backend.tasks for address in task.addresses}
    assert named <= routes
