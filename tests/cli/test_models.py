"""`orchard models`, `orchard pull` and `orchard rm`, each in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from orchard.cli.models import remove_model
from orchard.core.errors import OrchardError
from tests.support.hub import LARGE, SIZE, Hub, run_hub
from tests.support.model_folders import cache_model, make_model, some_weights


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with run_hub() as hub:
        hub.repos["org/tiny"] = make_model(tmp_path_factory.mktemp("repo"))
        hub.repos["org/tiny-GGUF"] = tmp_path_factory.mktemp("gguf")
        for name in ("config.json", "tiny.Q8_0.gguf"):
            (hub.repos["org/tiny-GGUF"] / name).write_text("{}")
        hub.repos["org/data"] = tmp_path_factory.mktemp("data")
        (hub.repos["org/data"] / "data.json").write_text("{}")
        yield hub


def orchard(cache: Path, *args: str, answer: str = "", env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run a command over a cache; give its exit code and what it wrote to stdout and stderr."""
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), **(env or {})}
    command = [sys.executable, "-m", "orchard", *args]
    done = subprocess.run(command, input=answer, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_models_lists_what_is_here(tmp_path: Path) -> None:
    cache, folder = tmp_path / "hub", tmp_path / "models"
    snapshot = cache_model(
        cache, "mlx-community/gemma-3-4b-it-4bit", config={"model_type": "gemma3", "vision_config": 1}
    )
    cache_model(cache, "org/half", shards=2, here=1)
    make_model(folder / "mine")
    code, out, error = orchard(cache, "models", "--model-dir", str(folder))
    assert (code, error) == (0, "")
    head, demo, gemma, mine, vision, whisper, half = out.splitlines()
    assert head.split() == ["Model", "Kind", "Context", "Size", "Aliases", "Folder"]
    assert demo.split()[:3] == ["demo", "text", "32,768"]
    gemma_row = ["mlx-community/gemma-3-4b-it-4bit", "vision", "131,072", "100", "bytes", "gemma", str(snapshot)]
    assert gemma.split() == gemma_row
    assert half == "'org/half' is not served: it is not complete: 1 of its 2 files of weights are not here"
    assert mine.split() == ["mine", "text", "4,096", "100", "bytes", str(folder / "mine")]
    assert vision.split()[:2] == ["demo-vision", "vision"]
    assert whisper.split()[:2] == ["demo-whisper", "transcription"]


def test_models_lists_what_the_configuration_names_first(tmp_path: Path) -> None:
    file = tmp_path / "orchard.yaml"
    file.write_text("models:\n  - model_path: demo\n    served_model_name: mine\n    aliases: [gpt-4, claude]\n")
    code, out, error = orchard(tmp_path / "hub", "models", "--config", str(file))
    assert (code, error) == (0, "")
    assert out.splitlines()[1].split()[:-1] == ["mine", "text", "32,768", "8.5", "MB", "gpt-4,", "claude"]


def test_pull_models_rm(hub: Hub, tmp_path: Path) -> None:
    code, out, _ = orchard(tmp_path, "pull", "org/tiny", env=hub.env)
    assert code == 0
    assert out.startswith("org/tiny is here: text, 100 bytes in ")
    assert "org/tiny " in orchard(tmp_path, "models")[1]
    code, out, _ = orchard(tmp_path, "rm", "org/tiny", answer="n\n")
    assert code == 1
    assert out.startswith("Delete org/tiny, ")
    assert (tmp_path / "models--org--tiny").exists()
    code, out, _ = orchard(tmp_path, "rm", "org/tiny", answer="y\n")
    assert code == 0
    assert "org/tiny is deleted; " in out
    assert not (tmp_path / "models--org--tiny").exists()


def test_pull_leaves_what_is_bundled(hub: Hub, tmp_path: Path) -> None:
    said = orchard(tmp_path, "pull", "demo", env=hub.env)
    assert said == (0, "demo is bundled with Orchard: there is nothing to download\n", "")


@pytest.fixture
def half(hub: Hub, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A pull whose small files are here, and half of its large one."""
    hub.repos["org/large"] = make_model(tmp_path / "large", shards=2)
    (hub.repos["org/large"] / LARGE).write_bytes(some_weights(SIZE))
    hub.goes_on.clear()
    hub.asked.clear()
    env = {**os.environ, **hub.env, "HF_HUB_CACHE": str(tmp_path / "hub")}
    command = [sys.executable, "-m", "orchard", "pull", "org/large"]
    pipe = subprocess.PIPE
    # Children of a shell's background command would inherit that it is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            wait_until(lambda: len(list((tmp_path / "hub").glob("models--org--large/snapshots/*/*"))) == 4)
            wait_until(lambda: any(part.stat().st_size >= 10_000_000 for part in parts(tmp_path)))
            yield process
        finally:
            process.kill()
            hub.goes_on.set()


def parts(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "hub" / "models--org--large").glob("blobs/*.incomplete"))


def test_a_pull_that_is_interrupted_ends_at_once_and_the_next_one_keeps_whole_files(
    hub: Hub, half: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    children = psutil.Process(half.pid).children(recursive=True)
    os.killpg(half.pid, signal.SIGINT)  # as a terminal does
    _, error = half.communicate(timeout=20)  # the hub itself would wait for longer
    assert half.returncode == 130
    assert error.endswith("\norchard: stopped; the next 'orchard pull' keeps the files that are complete\n")
    assert "Traceback" not in error
    assert len(children) == 1
    assert not children[0].is_running()
    assert parts(tmp_path) == []
    hub.goes_on.set()
    hub.asked.clear()
    code, _, error = orchard(tmp_path / "hub", "pull", "org/large", env=hub.env)
    assert code == 0
    assert "24.0/24.0 MB" in error
    assert len(hub.sent()) == len(hub.sent(LARGE)) == 1


def test_a_pull_that_is_killed_leaves_nothing_running(half: "subprocess.Popen[str]", tmp_path: Path) -> None:
    children = psutil.Process(half.pid).children(recursive=True)
    half.kill()
    assert not psutil.wait_procs(children, timeout=20)[1]
    assert parts(tmp_path) == []


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_pull_says_what_went_wrong(hub: Hub, tmp_path: Path) -> None:
    code, _, error = orchard(tmp_path, "pull", "org/none", env=hub.env)
    assert code == 1
    assert error.startswith("orchard: there is no model 'org/none' at http://127.0.0.1:")
    code, _, error = orchard(tmp_path, "pull", "org/data", env=hub.env)
    assert code == 1
    assert "but can't be served: it has no config.json" in error


def test_pull_leaves_what_is_in_gguf(hub: Hub, tmp_path: Path) -> None:
    hub.asked.clear()
    code, _, error = orchard(tmp_path / "cache", "pull", "org/tiny-GGUF", env=hub.env)
    assert code == 1
    assert "'org/tiny-GGUF' is not downloaded: it is in GGUF" in error
    assert "mlx-community" in error
    assert not any("/resolve/" in asked for asked in hub.asked)


@pytest.mark.parametrize("name", ["demo", "org/none", "", "..", "../hub", "/tmp", "models--org--a"])  # noqa: S108
def test_rm_refuses_what_is_not_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    cache_model(tmp_path / "hub", "org/a")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OrchardError, match="is not in the local Hugging Face cache"):
        remove_model(name, sure=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_rm_counts_what_lies_on_the_disk(tmp_path: Path) -> None:
    snapshot = cache_model(tmp_path, "org/a", here=0)
    blobs = snapshot.parent.parent / "blobs"
    blobs.mkdir()
    (blobs / "abc").write_bytes(bytes(5_000_000))
    (snapshot / "model.safetensors").symlink_to(blobs / "abc")
    code, out, _ = orchard(tmp_path, "rm", "org/a", "-y")
    assert code == 0
    assert "5.0 MB are free again" in out
