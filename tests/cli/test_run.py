"""`orchard run`: what it asks, whom it asks, and what it downloads."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from msgspec.structs import replace

from orchard.cli import run
from orchard.cli.models.pull import fetch_missing, pull_model
from orchard.cli.own_server import open_server
from orchard.core.errors import OrchardError
from tests.cli.test_chat import SLOW, reader
from tests.support.command import clean, orchard, refused
from tests.support.hub import Hub
from tests.support.serving import FAKE, Server, serve
from tests.support.stub_server import Stub


@pytest.mark.parametrize(
    "args",
    [("fake", "hello there"), ("FAKE", "hello", "there"), ("-p", "hello there"), ("fake:latest", "-p", "hello there")],
)
@pytest.mark.parametrize("command", ["run", "chat"])
def test_a_question(server: Server, command: str, args: tuple[str, ...]) -> None:
    done = orchard(command, *args, "--url", server.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello there\n", "")


def test_piped_text_goes_to_the_server_that_runs(server: Server) -> None:
    done = orchard("run", stdin="hi\nyou\n", ORCHARD_PORT=str(server.port))
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\nyou\n", "")


def test_piped_text_comes_before_the_question(server: Server) -> None:
    assert orchard("run", "fake", "what?", "--url", server.url, stdin="a\nb\n").stdout == "a\nb\n\nwhat?\n"


def test_errors_are_one_line(server: Server) -> None:
    assert "empty" in refused(orchard("run", "--url", server.url))
    assert "refuses" in refused(orchard("run", "-p", '{"refuse": "overloaded"}', "--url", server.url))
    assert "no server answers" in refused(orchard("run", "-p", "x", "--url", "http://127.0.0.1:9"))
    assert "no server answers" in refused(orchard("run", "--url", "http://127.0.0.1:9"))  # and stdin is empty
    assert "doesn't serve 'other'; it serves: fake" in refused(orchard("run", "other", "x", "--url", server.url))
    assert "/nonsuch.png can't be read" in refused(orchard("run", "fake", "x", "--image", "/nonsuch.png"))
    assert "no model 'nonsuch'" in refused(orchard("run", "nonsuch", "x", ORCHARD_PORT=str(server.port)))


def test_an_image_goes_with_the_question(tmp_path: Path) -> None:
    for name, kind in (("a.jpg", "image/jpeg"), ("photo", "image/png")):
        (tmp_path / name).write_bytes(b"bytes")
        assert run._read_image(tmp_path / name) == f"data:{kind};base64,Ynl0ZXM="


def test_an_answer_that_fails_half_way(server: Server) -> None:
    done = orchard("run", "-p", '{"fail": "internal", "text": "half"}', "--url", server.url)
    assert (done.returncode, done.stdout) == (1, "half")
    assert "the script fails this request" in done.stderr


def test_a_model_that_cannot_load_says_why(unloadable: Path, stub: Stub) -> None:
    refused(orchard("run", str(unloadable), "x", ORCHARD_PORT=str(stub.server_port)))


def test_an_interrupt_cancels_the_answer_and_leaves_no_half_line(server: Server) -> None:
    command = [sys.executable, "-m", "orchard", "run", "fake", SLOW, "--url", server.url]
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=none, stdout=pipe, stderr=pipe, text=True, env=clean()) as process:
        assert process.stdout
        assert process.stdout.read(5) == "tick "
        process.send_signal(signal.SIGINT)
        server.until(running=0, timeout=5)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "\n")


def test_the_tiny_model_says_what_comes_after_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", reader([EOFError, EOFError]))
    with serve([replace(FAKE, id="demo")]) as bundled:
        run.run_model(None, "", (), bundled.url, None, sure=False)
    assert "For a real model: orchard run qwen3-4b" in capsys.readouterr().out.replace("\n", " ")


def test_a_missing_model_is_downloaded_once(hub: Hub, hub_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fetch_missing("org/tiny", sure=True) == "org/tiny"
    assert len(hub.sent("/model.safetensors.index.json")) == 1
    assert capsys.readouterr().out == ""  # it is for answers
    hub.asked.clear()
    assert fetch_missing("org/tiny", sure=False) == "org/tiny"
    assert hub.asked == []


def test_the_question_before_a_download_says_how_large_it_is(
    hub: Hub, hub_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def refuse(text: str, *, default: bool, err: bool) -> bool:
        assert err
        asked.append(text)
        return not default

    monkeypatch.setattr("typer.confirm", refuse)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    with pytest.raises(typer.Abort):
        fetch_missing("org/tiny", sure=False)
    size = sum(file.stat().st_size for file in hub.files("org/tiny").values())
    assert asked == [f"Download {size} bytes?"]
    assert capsys.readouterr().err == "org/tiny is not on this machine.\n"
    assert hub.sent() == []


def test_without_a_terminal_nothing_is_downloaded_unasked(hub: Hub, hub_cache: Path) -> None:
    with pytest.raises(OrchardError, match="org/tiny is not on this machine; --yes downloads it"):
        fetch_missing("org/tiny", sure=False)
    assert hub.sent() == []


def test_a_tag_of_ollama_is_said_to_be_another_file(
    hub: Hub, hub_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = "mlx-community/Llama-3.2-3B-Instruct-4bit"
    hub.repos[repo] = hub.repos["org/tiny"]
    try:
        assert fetch_missing("Llama3.2:3b", sure=True) == repo
        assert f"'Llama3.2:3b' is {repo} here; Ollama's file" in capsys.readouterr().err
        pull_model("llama3.2:3B")
        assert f"'llama3.2:3B' is {repo} here; Ollama's file" in capsys.readouterr().err
        pull_model(f"https://huggingface.co/{repo}")
        assert "Ollama" not in capsys.readouterr().err
    finally:
        del hub.repos[repo]


@pytest.mark.parametrize(
    ("name", "model"),
    [("DEMO", "demo"), ("demo:latest", "demo"), ("Demo-Vision", "demo-vision"), ("ORG/Tiny", "org/tiny")],
)
def test_names_in_another_case_need_no_server(hub: Hub, hub_cache: Path, name: str, model: str) -> None:
    fetch_missing("org/tiny", sure=True)
    hub.asked.clear()
    assert fetch_missing(name, sure=False) == model
    assert hub.asked == []


def test_a_model_that_is_whole_but_cannot_be_served_is_not_downloaded_again(hub: Hub, hub_cache: Path) -> None:
    fetch_missing("org/data", sure=True)
    hub.asked.clear()
    with pytest.raises(OrchardError, match=r"has no config\.json"):
        fetch_missing("org/data", sure=True)
    assert hub.sent() == []


def test_a_server_that_runs_serves_what_was_downloaded(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHARD_PORT", str(stub.server_port))

    def fetch(name: str) -> str:
        stub.models.append("org/tiny")
        return "org/tiny"

    with open_server("mine", None, None, fetch) as (client, served):
        assert (client.url, served) == (f"http://127.0.0.1:{stub.server_port}", "org/tiny")
