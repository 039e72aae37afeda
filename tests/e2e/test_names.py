"""Names that clients have for models: other vendors', and those of models that must be downloaded first."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from anthropic import Anthropic, NotFoundError
from openai import OpenAI

from orchard.config import ModelSettings
from orchard.demo import MODEL_PATH
from tests.support.hub import Hub, run_hub
from tests.support.model_folders import make_model
from tests.support.serving import Server, serve

QUESTION = "Say this is a test"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with run_hub() as hub:
        hub.repos["org/demo-copy"] = Path(MODEL_PATH)
        hub.repos["org/broken"] = make_model(tmp_path_factory.mktemp("broken"), here=0)
        yield hub


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="module")
def server(hub: Hub, cache: Path) -> Iterator[Server]:
    """A server with the demo, which also answers for names that are not here; others it may download."""
    with serve(
        (),
        env={**hub.env, "HF_HUB_CACHE": str(cache), "HF_HOME": str(cache)},
        spare=False,
        models=(ModelSettings(model_path="demo", aliases=("claude-alias",)),),
        fallback_model="demo",
        allow_download=True,
        max_loaded_models=2,
        keep_alive_interval=0.1,
    ) as running:
        running.until("demo", state="ready", timeout=60)
        yield running


@pytest.fixture
def claude(server: Server) -> Iterator[Anthropic]:
    with Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.mark.parametrize("model", ["claude-alias", "claude-unheard-of", "demo"])
def test_a_vendors_name_is_answered_and_echoed(claude: Anthropic, model: str) -> None:
    whole = claude.messages.create(model=model, max_tokens=300, messages=[{"role": "user", "content": QUESTION}])
    assert whole.model == model
    with claude.messages.stream(
        model=model, max_tokens=300, messages=[{"role": "user", "content": QUESTION}]
    ) as stream:
        streamed = stream.get_final_message()
    assert streamed.model == model
    assert {block.type for block in streamed.content} >= {"text"}
    assert claude.models.retrieve(model).id == "demo"


def test_the_sdks_read_the_list(claude: Anthropic, server: Server) -> None:
    (model, *_) = claude.models.list()
    assert model.id == "demo"
    assert model.capabilities
    assert model.capabilities.thinking.supported
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        assert client.models.list().data[0].id == "demo"
        assert client.models.retrieve("claude-alias").id == "claude-alias"


def test_a_request_waits_for_a_download(server: Server, hub: Hub, cache: Path) -> None:
    hub.goes_on.clear()
    body = {"model": "org/demo-copy", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as response:
        lines = response.iter_lines()
        assert next(line for line in lines if line.startswith(": downloading"))
        hub.goes_on.set()
        rest = list(lines)
    assert rest[-2:] == ["data: [DONE]", ""]
    assert any('"content":' in line and '"org/demo-copy"' in line for line in rest)
    listed = _listed(server)
    assert listed["org/demo-copy"]["loaded"]
    assert listed["org/demo-copy"]["owned_by"] == "org"
    # From now on it is here, and nobody asks the hub again.
    hub.asked.clear()
    whole = httpx.post(f"{server.url}/v1/chat/completions", json={**body, "stream": False}, timeout=60).json()
    assert whole["model"] == "org/demo-copy"
    assert hub.asked == []
    shutil.rmtree(cache / "models--org--demo-copy")
    assert "org/demo-copy" not in _listed(server)


def _listed(server: Server) -> dict[str, Any]:
    return {model["id"]: model for model in httpx.get(f"{server.url}/v1/models", timeout=60).json()["data"]}


def test_a_download_that_fails_is_an_error(server: Server, claude: Anthropic) -> None:
    with pytest.raises(NotFoundError, match="there is no model 'org/none'"):
        claude.messages.create(model="org/none", max_tokens=9, messages=[{"role": "user", "content": QUESTION}])
    body = {"model": "org/broken", "messages": [{"role": "user", "content": QUESTION}]}
    broken = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    assert broken.status_code == 500
    assert "was downloaded, but is not a model" in broken.json()["error"]["message"]
