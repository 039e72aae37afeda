from collections.abc import AsyncIterator, Iterator

import pytest
from openai import AsyncOpenAI, OpenAI

from orchard.config import VoiceModels
from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.models.registry import resolve_model
from tests.support.serving import Server, serve
from tests.support.speech_models import make_qwen3_tts


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server with the bundled demo model for all end-to-end tests that leave it as it was."""
    with serve([resolve_model("demo")], spare=False) as running:
        running.until("demo", state="ready")
        yield running


@pytest.fixture(scope="session")
def narrow() -> Iterator[Server]:
    """A server that asks for a key, answers one request at a time and lets two wait."""
    options = TextOptions(decode_concurrency=1, queue_size=2)
    with serve([resolve_model("demo")], api_keys=("the-key",), text=options, spare=False) as running:
        running.until("demo", state="ready")
        yield running


@pytest.fixture(scope="session")
def voice_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a voice: `assistant` listens, thinks and speaks with small models. It takes two keys."""
    folder = tmp_path_factory.mktemp("models") / "tiny-tts"
    folder.mkdir()
    make_qwen3_tts(folder)
    models = [resolve_model(name) for name in ("demo", "demo-whisper", str(folder))]
    voices = {"assistant": VoiceModels(chat="demo", transcription="demo-whisper", speech="tiny-tts")}
    keys = ("key-a", "key-b")
    with serve(models, spare=False, max_loaded_models=3, realtime=voices, api_keys=keys) as running:
        for model in ("demo", "demo-whisper", "tiny-tts"):
            running.until(model, state="ready", timeout=250)
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
async def async_client(server: Server) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client
