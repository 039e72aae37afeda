"""Models that make room for each other, with the bundled model twice."""

import shutil
from pathlib import Path
from typing import Any

import httpx

from orchard.config import ModelSettings
from orchard.core.tasks.text_options import TextOptions
from orchard.demo import MODEL_PATH
from tests.support.serving import serve

PROMPT = "Which words are these? " + " ".join(f"word{number}" for number in range(60))


def test_a_model_that_comes_back_still_knows_its_prompts(tmp_path: Path) -> None:
    shutil.copytree(MODEL_PATH, tmp_path / "a")  # with the files' times: it has been calibrated
    shutil.copytree(MODEL_PATH, tmp_path / "b", copy_function=shutil.copyfile)  # without: it is another model
    options = TextOptions(prompt_cache_dir=str(tmp_path / "prompts"))
    models = [ModelSettings(model_path=str(tmp_path / name), text=options) for name in "ab"]
    with (
        serve((), models=models, max_loaded_models=1, spare=False) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):

        def ask(model: str) -> dict[str, Any]:
            task = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": PROMPT}]}
            usage: dict[str, Any] = client.post("/v1/chat/completions", json=task).json()["usage"]
            return usage

        first = ask("a")
        assert first["prompt_tokens_details"]["cached_tokens"] == 0
        client.post("/v1/models/a/unload").raise_for_status()
        assert ask("a")["prompt_tokens_details"]["cached_tokens"] == first["prompt_tokens"] - 1
        ask("b")
        assert ask("a")["prompt_tokens_details"]["cached_tokens"] == first["prompt_tokens"] - 1
