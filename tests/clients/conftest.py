"""Real clients against a running server with the demo model: `make test-clients`.

These tests have an environment of their own, without Orchard: the clients' dependencies are not ours.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
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
# The server's code of `voices_url`: a model that says digits, one that finds every turn to be over, and what is said.
_VOICES = """
from pathlib import Path
from orchard.cli import main
from tests.support.digit_speaker import make_digit_speaker
from tests.support.realtime_events import SESSION_RATE, pcm, spoken
from tests.support.sounds import wav
from tests.support.turn_models import make_smart_turn
import numpy

Path("mouth").mkdir()
make_digit_speaker(Path("mouth"))
make_smart_turn(Path("turns"), bias=50)
said = pcm(spoken("two", "four", before=0.5, after=0.5))
Path("said.wav").write_bytes(wav(numpy.frombuffer(said, "<i2"), SESSION_RATE))
main()
"""
_VOICES_CONFIG = """
server:
  responses_path: ":memory:"
  realtime: {assistant: {chat: demo, transcription: ears, speech: mouth, turn_detection: turns}}
models:
  - {model_path: demo}
  - {model_path: demo-whisper, served_model_name: ears, aliases: [gpt-4o-mini-transcribe]}
  - {model_path: mouth}
  - {model_path: turns}
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
    with _started_with(_MAKERS, _MAKERS_CONFIG, folder, _is_ready) as made:
        yield made


@pytest.fixture(scope="session")
def voices_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server of `voices_url`, which writes into said.wav what somebody says."""
    return tmp_path_factory.mktemp("voices")


@pytest.fixture(scope="session")
def voices_url(voices_folder: Path) -> Iterator[str]:
    """As `url`, of a server with models for spoken conversations: `assistant`, and each of its models."""

    def is_ready(url: str) -> bool:
        models = httpx.get(f"{url}/health").json()["models"]
        return all(model["state"] == "ready" for model in models.values())

    with _started_with(_VOICES, _VOICES_CONFIG, voices_folder, is_ready) as made:
        yield made


def _started_with(code: str, config: str, folder: Path, ready: Callable[[str], bool]) -> AbstractContextManager[str]:
    """Start a server with code that makes its models, in Orchard's own environment."""
    (folder / "config.yaml").write_text(config)
    python = Path(os.environ["ORCHARD"]).with_name("python")
    variables = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return started([str(python), "-c", code, "serve", "--config", "config.yaml"], folder, ready, variables)
