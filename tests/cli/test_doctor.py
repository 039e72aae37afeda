"""`orchard doctor`: what it finds, and what it says about it."""

import http.server
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchard.cli import doctor, machine
from orchard.cli.machine import Finding
from orchard.config import Settings
from orchard.environments.environment import IMAGES
from orchard.gateway.models import sources
from orchard.gateway.models.sources import ModelSource
from tests.support.command import orchard, orchard_process
from tests.support.model_folders import make_model
from tests.support.serving import serve
from tests.support.sounds import program_called, use_ffmpeg

GB = 10**9
PROBED: dict[str, Any] = {
    "backend": "metal",
    "device": "Apple M9",
    "memory_bytes": 32 * GB,
    "usable_bytes": 20 * GB,
    "usable_by": "device",
    "available_bytes": 12 * GB,
    "wired_bytes": 21 * GB,
    "ffmpeg": None,
}


@pytest.fixture(autouse=True)
def _a_busy_machine_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ANSWER_SECONDS", 60.0)


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine of which MLX tells this, with an empty cache of models."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(sys, "executable", str(program_called(tmp_path, "python", f"echo '{json.dumps(PROBED)}'")))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


def examined(name: str, *notes: str, **settings: Any) -> list[Finding]:
    """The findings of a name, with these settings."""
    found = list(doctor._examine_all(Settings(port=0, **settings), notes))
    return [finding for finding in found if finding.name == name]


def test_a_sound_installation(tmp_path: Path) -> None:
    done = orchard_process("doctor", "--port", "0", HF_HUB_CACHE=str(tmp_path / "none"))
    assert done.returncode == 0, done.stdout
    for words in (
        "Python 3",
        "mlx-lm ",
        "vision, for models of the kind vision",
        "computes on ",
        "all models may take ",
        "models of the kind image",
        "demo, demo-vision, demo-whisper: ",
        "no models in ",
        "are free in ",
        "the system will choose a free port",
        "can run here",
    ):
        assert words in done.stdout
    assert "problem " not in done.stdout
    assert ("wired limit" in done.stdout) is (sys.platform == "darwin" and "computes on metal" in done.stdout)


def test_it_reads_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[tuple[Any, ...]] = []

    def examine(settings: Settings, notes: list[str]) -> Iterator[Finding]:
        seen.append((settings.host, settings.port, settings.model_dir, settings.memory_limit, len(notes)))
        yield Finding("warning", "setting", "odd")

    monkeypatch.setattr(doctor, "_examine_all", examine)
    file = tmp_path / "orchard.yaml"
    file.write_text("server:\n  port: 7777\n  memory_limit: 8GB\n")
    asked = ("doctor", "--config", str(file), "--model-dir", str(tmp_path))
    assert orchard(*asked, ORCHARD_HOST="127.0.0.2", ORCHARD_PROT="1").returncode == 0
    assert orchard(*asked, "--port", "8888").returncode == 0
    assert seen == [
        ("127.0.0.2", 7777, str(tmp_path), 8 * GB, 1),
        ("127.0.0.1", 8888, str(tmp_path), 8 * GB, 0),
    ]


def test_notes_about_settings_are_findings(mac: None) -> None:
    assert examined("setting", "no such thing") == [Finding("warning", "setting", "no such thing")]


def test_a_running_orchard_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORCHARD_API_KEY", raising=False)
    with serve(api_keys=("the-key",)) as server:
        locked = doctor._check_address("127.0.0.1", server.port)
        monkeypatch.setenv("ORCHARD_API_KEY", "the-key")
        opened = doctor._check_address("127.0.0.1", server.port)
    assert (locked.status, "needs an API key" in locked.seen) == ("ok", True)
    seen = f"an Orchard server answers at 127.0.0.1:{server.port} and serves fake"
    assert opened == Finding("ok", "address", seen)


def test_a_stranger_on_the_port_is_one() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as stranger:
        thread = threading.Thread(target=stranger.serve_forever, args=(0.01,))
        thread.start()
        finding = doctor._check_address("127.0.0.1", stranger.server_port)
        stranger.shutdown()
        thread.join()
    assert finding.status == "problem"
    assert "in use" in finding.seen
    assert "--port" in finding.advice
    assert doctor._check_address("127.0.0.1", stranger.server_port).seen.endswith(f":{stranger.server_port} is free")


def test_an_address_of_another_machine_is_one() -> None:
    finding = doctor._check_address("192.0.2.1", 0)
    assert finding.status == "problem"
    assert "--host" in finding.advice


def test_a_folder_of_models_must_exist(tmp_path: Path) -> None:
    for command in ("doctor", "models"):
        done = orchard(command, "--model-dir", str(tmp_path / "none"))
        assert (done.returncode, "there is no folder" in done.stderr) == (2, True)


def test_a_broken_mlx(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    assert not doctor.print_findings(Settings(port=0))
    out = capsys.readouterr().out
    assert "MLX doesn't work" in out
    assert "demo-vision" in out


def test_the_environment_of_images(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORCHARD_CACHE_DIR", str(tmp_path))
    finding = doctor._check_environment(IMAGES)
    assert finding.status == "warning"
    assert finding.seen == "images is not installed: models of the kind image can't run"
    assert finding.advice == "If you want to use such models: run 'orchard setup images'."
    python = IMAGES.folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert doctor._check_environment(IMAGES) == Finding(
        "ok", "environment", f"images, for models of the kind image: {python}"
    )


def test_ffmpeg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = use_ffmpeg(monkeypatch, tmp_path)
    probed = machine.probe_mlx()
    assert not isinstance(probed, Finding)
    assert Finding("ok", "ffmpeg", str(program)) in list(doctor._check_mlx(probed))
    (finding,) = [finding for finding in doctor._check_mlx(PROBED) if finding.name == "ffmpeg"]
    assert (finding.status, "brew install ffmpeg" in finding.advice) == ("warning", True)


def test_two_backends_of_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda _: "1")
    (finding,) = doctor._check_conflicts()
    assert finding.status == "problem"


def test_packages_with_versions_that_orchard_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor._installed_version
    others = {"mlx-lm": "9.1", "rich": None}
    monkeypatch.setattr(doctor, "_installed_version", lambda name: others[name] if name in others else real(name))
    (finding,) = examined("packages")
    assert finding.status == "problem"
    assert "mlx-lm 9.1 is here, and Orchard needs " in finding.seen
    assert "rich is missing" in finding.seen
    assert "mlx-vlm" not in finding.seen


def test_an_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor._installed_version
    monkeypatch.setattr(doctor, "_installed_version", lambda name: None if name == "mlx-audio" else real(name))
    assert doctor._check_extra("vision") == Finding("ok", "extra", "vision, for models of the kind vision")
    finding = doctor._check_extra("audio")
    assert finding.status == "warning"
    assert (
        finding.seen == "audio, for models of the kinds transcription, speech and turn_detection: mlx-audio is missing"
    )
    assert "mlx-orchard[audio]" in finding.advice


def test_a_bundled_model_that_is_missing(mac: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = ModelSource("demo-vision", str(tmp_path))
    monkeypatch.setattr(sources, "BUNDLED", sources.BUNDLED | {"demo-vision": broken})
    (finding,) = examined("bundled")
    assert finding.status == "problem"
    assert "demo-vision" in finding.seen


def test_the_wired_limit_is_told_on_macs_only(mac: None, monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = examined("wired limit")
    assert "21.0 GB of 32.0 GB" in finding.seen
    monkeypatch.setattr(sys, "platform", "linux")
    assert examined("wired limit") == []


def test_models_are_compared_with_the_memory(mac: None, tmp_path: Path) -> None:
    large = make_model(tmp_path / "models" / "large")
    os.truncate(large / "model.safetensors", 12 * GB)
    folder = str(tmp_path / "models")
    (finding,) = examined("models", model_dir=folder)
    assert finding.seen == "memory has room for 1 of 1, one at a time; the largest of them is large, 12.0 GB"
    (finding,) = examined("model", model_dir=folder, memory_limit=8 * GB)
    assert finding.seen == "the weights of large take 12.0 GB; all models may take 8.0 GB"
    assert examined("models") == []


def test_what_can_not_be_served_is_a_finding_and_not_counted(mac: None, tmp_path: Path) -> None:
    make_model(tmp_path / "sound")
    (make_model(tmp_path / "mute") / "tokenizer_config.json").unlink()
    os.truncate(make_model(tmp_path / "short") / "model.safetensors", 90)
    folder = str(tmp_path)
    assert [(one.status, one.seen) for one in examined("model", model_dir=folder)] == [
        (
            "warning",
            "'mute' is not served: it has no tokenizer: copy tokenizer.json, or the files in its place, from the "
            "original model",
        ),
        ("warning", "'short' is not served: its model.safetensors is not complete: 10 bytes are missing"),
    ]
    (finding,) = examined("models", model_dir=folder)
    assert finding.seen.startswith("memory has room for 1 of 1")


def test_a_model_of_the_configuration_that_is_missing(mac: None, tmp_path: Path) -> None:
    (finding,) = examined("models", fallback_model="nonsuch")
    assert (finding.status, "nonsuch" in finding.seen) == ("problem", True)
