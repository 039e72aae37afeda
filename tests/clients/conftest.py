"""Real clients against a running server with the demo model: `make test-clients`.

These tests have an environment of their own, without Orchard: the clients' dependencies are not ours.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.clients.agents import KEY
from tests.clients.running import running
from tests.clients.starting import started

# The server's code of `makers_url`: image models that draw plain colours, and a tiny random speech model.
_MAKERS = """
from pathlib import Path
from orchard.cli import main
from tests.support import fake_images
from tests.support.speech_models import make_qwen3_tts

Path("speaks").mkdir()
make_qwen3_tts(Path("speaks"))
fake_images.use()
main()
"""
_MAKERS_CONFIG = """
server: {responses_path: ":memory:"}
models:
  - {model_path: demo}
  - {model_path: generates, served_model_name: black-forest-labs/FLUX.2-klein-4B, config_name: flux2-klein-4b}
  - {model_path: edits, served_model_name: black-forest-labs/FLUX.1-Kontext-dev, config_name: flux-kontext-dev}
  - {model_path: speaks, served_model_name: mlx-community/Qwen3-TTS-12Hz-0.6B-CustomVoice-bf16}
"""
# Clients read keys, addresses and switches from the environment: none of the user's must reach a test.
for name in list(os.environ):
    if re.match(
        "CLAUDE|CLINE|(AIDER|ANTHROPIC|AZURE|CODEX|CONTINUE|LANGCHAIN|LANGSMITH|LITELLM|OPENAI|OPENCLAW|OPENCODE|ORCHARD"
        "|PI|QWEN)_",
        name,
    ):
        del os.environ[name]
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else LiteLLM asks the internet for prices


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL, without /v1, of a server with the demo model.

    CLIENTS_URL names one that runs already; otherwise the command in ORCHARD starts one.
    """
    if given := os.environ.get("CLIENTS_URL"):
        try:
            yield running(given)
        except ValueError as error:
            pytest.exit(str(error), returncode=1)
        return
    command = [os.environ.get("ORCHARD", "orchard"), "serve", "demo"]
    try:
        with started(command, tmp_path_factory.mktemp("server"), _is_ready) as address:
            yield address
    except ChildProcessError as error:
        pytest.exit(str(error), returncode=1)


@pytest.fixture(scope="session")
def keyed_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """As `url`, of a server that needs a key."""
    command = [os.environ.get("ORCHARD", "orchard"), "serve", "demo", "--api-key", KEY]
    with started(command, tmp_path_factory.mktemp("keyed"), _is_ready) as address:
        yield address


def _is_ready(url: str) -> bool:
    health = httpx.get(f"{url}/health", headers={"authorization": f"Bearer {KEY}"}).json()
    return bool(health["models"]["demo"]["state"] == "ready")


@pytest.fixture(scope="session")
def makers_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """As `url`, of a server with models that make images and speech, under the names in docs/clients.md."""
    folder = tmp_path_factory.mktemp("makers")
    for name in ("generates", "edits"):
        (folder / name / "transformer").mkdir(parents=True)
        (folder / name / "model_index.json").write_text("{}")
        (folder / name / "transformer" / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    (folder / "config.yaml").write_text(_MAKERS_CONFIG)
    python = Path(os.environ["ORCHARD"]).with_name("python")
    variables = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with started(
        [str(python), "-c", _MAKERS, "serve", "--config", "config.yaml"], folder, _is_ready, variables
    ) as made:
        yield made
