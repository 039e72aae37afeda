"""`orchard config check`, and what `orchard serve` says of a configuration."""

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from orchard.cli.app import app
from orchard.cli.config import check_config_file, configured_path
from orchard.cli.settings.layers import Mistakes
from tests.support.command import clean, orchard, refused

WRONG = "server:\n  prot: 1\nmodels:\n  - {model_path: a, kv_bits: 5}\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("orchard.yaml")


def test_a_right_file(file: Path) -> None:
    file.write_text(
        "server: {port: 9}\nmodels:\n- {model_path: demo, trust_remote_code: true}\n"
        "- {model_path: demo, served_model_name: c, on_demand: on}"
    )
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    assert (result.exit_code, result.output.splitlines()) == (
        0,
        [
            "orchard.yaml:3: trust_remote_code: does nothing. Orchard never runs code that comes with a model.",
            "orchard.yaml: OK: 2 models: demo, c (on demand); at 127.0.0.1:9",
        ],
    )


@pytest.mark.parametrize("command", [("config", "check"), ("serve", "--config"), ("launch", "--config")])
def test_a_wrong_file(file: Path, command: tuple[str, ...]) -> None:
    file.write_text(WRONG)
    done = orchard(*command, str(file))
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (
        1,
        "",
        [
            "orchard.yaml:2: prot: is not a setting; did you mean `port`?",
            "orchard.yaml:4: kv_bits: must be one of 2, 3, 4, 6, 8, or 0, not '5'",
        ],
    )


@pytest.mark.parametrize("command", [("config", "check"), ("serve", "--config")])
def test_models_that_are_not_here(file: Path, command: tuple[str, ...]) -> None:
    file.write_text(
        "models:\n- model_path: nonsuch\n- model_path: demo\n- served_model_name: x\n  model_path: or\u200bg/none"
    )
    done = orchard(*command, str(file))
    assert (done.returncode, done.stdout) == (1, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("orchard.yaml:2: model_path: no model 'nonsuch': it is neither a bundled model ('demo', ")
    assert second.startswith("orchard.yaml:5: model_path: no model 'or\\u200bg/none': ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("server: {fallback_model: nonsuch}", "1: fallback_model: no model 'nonsuch' here; "),
        (
            "models:\n- {model_path: demo, adapters: {b: .}}",
            "2: model_path: adapter 'b' of model 'demo' can't be used: ",
        ),
        (
            "models:\n- {model_path: gemma}\n- {model_path: mlx-community/gemma-3-4b-it-qat-4bit}\n"
            "server: {allow_download: on}",
            "3: model_path: two models of the configuration are called 'mlx-community/gemma-3-4b-it-qat-4bit': ",
        ),
    ],
)
def test_what_the_registry_refuses_has_its_place(file: Path, text: str, expected: str) -> None:
    file.write_text(text)
    with pytest.raises(Mistakes) as caught:
        check_config_file(file)
    (line,) = caught.value.lines
    assert line.startswith(f"orchard.yaml:{expected}")


def test_a_model_of_the_command_line_that_is_not_here(file: Path) -> None:
    assert "no model 'nonsuch'" in refused(orchard("serve", "nonsuch"))
    file.write_text("server: {port: 0}")
    assert orchard("serve", "--config", str(file), "nonsuch").stderr.startswith("MODEL: no model 'nonsuch'")


def test_a_server_of_a_file(file: Path) -> None:
    file.write_text(
        "server: {port: 0, api_keys: secret, log_level: error, responses_path: ':memory:'}\n"
        "models: [{model_path: demo, served_model_name: small, aliases: [tiny], trust_remote_code: true}]"
    )
    command = [sys.executable, "-m", "orchard", "serve"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean(ORCHARD_CONFIG=str(file), ORCHARD_PROT="1"),
    ) as process:
        assert process.stdout
        first = process.stdout.readline()
        url = first.rsplit(" ", 1)[-1].strip()
        models = httpx.get(f"{url}/v1/models", headers={"x-api-key": "secret"}, timeout=60).json()
        assert httpx.get(f"{url}/v1/models", timeout=60).status_code == 401
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
    assert " listens at http://127.0.0.1:" in first
    assert "small" in [model["id"] for model in models["data"]]
    assert [line for line in stderr.splitlines() if line.startswith("orchard: ")] == [
        "orchard: orchard.yaml:2: trust_remote_code: does nothing. Orchard never runs code that comes with a model.",
        "orchard: ORCHARD_PROT: is not a setting of Orchard; did you mean `ORCHARD_PORT`?",
    ]


@pytest.mark.parametrize("name", ["small", "TINY", "demo", "other"])
def test_a_configured_name_stands_for_a_path(file: Path, name: str) -> None:
    file.write_text("models: [{model_path: demo, served_model_name: Small, aliases: [tiny]}]")
    path = "other" if name == "other" else "demo"
    assert configured_path(name, {"ORCHARD_CONFIG": str(file)}) == path
    assert configured_path(name, {}) == name
