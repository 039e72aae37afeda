"""The clients for Node: each *.test.mjs is a file of tests for Node's own test runner."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NODE = Path(__file__).parent / "node"


FILES = sorted(path.name for path in NODE.glob("*.test.mjs"))
SPEECH, REALTIME = "speech.test.mjs", "realtime.test.mjs"


@pytest.mark.parametrize("file", [name for name in FILES if name not in (SPEECH, REALTIME)])
def test_node(url: str, file: str) -> None:
    _run(url, file)


def test_speech(makers_url: str) -> None:
    _run(makers_url, SPEECH)


def test_realtime(voices_url: str, voices_folder: Path) -> None:
    _run(voices_url, REALTIME, ORCHARD_SPEECH=str(voices_folder / "said.wav"))


def _run(url: str, file: str, **variables: str) -> None:
    program = shutil.which("node")
    assert program, "Node 24.16 or newer must be on the PATH"
    assert (NODE / "node_modules").is_dir(), "`make test-clients` installs what the tests need"
    command = [program, "--test", "--test-reporter=spec", file]
    environment = os.environ | {"ORCHARD_URL": url} | variables
    run = subprocess.run(command, cwd=NODE, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
