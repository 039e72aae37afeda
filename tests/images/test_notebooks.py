"""The notebooks about images run as they stand, against tiny random models under the names of real ones.

To keep what they show:

make test-images ARGS="-n 0 -k notebooks --basetemp=/tmp/shown"
cp /tmp/shown/*[0-9]/shown/*.ipynb examples
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from msgspec.structs import replace
from tools.notebooks import names

from orchard.config import ModelSettings
from orchard.core.tasks.images import ImageOptions
from tests.images.conftest import serve_tiny

KLEIN = "black-forest-labs/FLUX.2-klein-4B"
MODELS = {
    "image_generations": ((KLEIN, "flux2", "flux2-klein-4b"),),
    "image_edit": (
        (KLEIN, "flux2", "flux2-klein-edit-4b"),
        ("black-forest-labs/FLUX.1-Fill-dev", "flux1-fill", "flux-fill-dev"),
    ),
}
"""What the server of each notebook serves: a model's name, the family of the tiny one, and its preset."""
_MOST_BYTES = 60_000


def test_there_is_a_server_for_every_notebook() -> None:
    assert sorted(MODELS) == names(images=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("notebook", MODELS)
def test_notebooks_about_images_run(notebook: str, tiny: Callable[[str], Path], tmp_path: Path) -> None:
    models = [
        replace(
            ModelSettings(model_path=str(tiny(family)), served_model_name=name), image=ImageOptions(config_name=preset)
        )
        for name, family, preset in MODELS[notebook]
    ]
    out = tmp_path / "shown"
    out.mkdir()
    with serve_tiny(tmp_path / "cache", *models) as server:
        command = [sys.executable, "-m", "tools.notebooks", notebook, "--url", server.url, "--out", str(out)]
        small = {**os.environ, "SIZE": "48x48"}
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240, env=small)
    assert ran.returncode == 0, ran.stderr
    (shown,) = out.iterdir()
    outputs = [output for cell in nbformat.read(shown, as_version=4).cells for output in cell.get("outputs", [])]
    assert any("image/jpeg" in output.get("data", {}) for output in outputs)
    assert shown.stat().st_size <= _MOST_BYTES
