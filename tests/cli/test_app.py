"""The command line as a user meets it."""

import itertools
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from orchard.cli import serve as serve_command
from orchard.cli.app import app
from orchard.cli.bench import LoadProfile, run_bench
from orchard.cli.endpoint import AnswerPiece, ChatClient, ServerError, sse_data
from orchard.core.tasks.generate import Generate
from orchard.kinds import KINDS
from tests.support.command import clean, orchard, orchard_process, refused
from tests.support.model_folders import cache_model
from tests.support.serving import serve
from tests.support.stub_server import Stub

COMMANDS = (
    *("serve", "run", "models", "pull", "search", "recommend", "rm", "ps", "load", "unload", "logs", "top", "bench"),
    *("verify", "doctor", "config", "setup", "agent", "service"),
)


class TestCommands:
    @pytest.mark.parametrize("args", [(), ("--help",), ("-h",)])
    def test_help_lists_the_commands(self, args: tuple[str, ...]) -> None:
        result = CliRunner().invoke(app, args)
        assert result.exit_code == 0
        assert all(re.search(rf"\b{command}\b", result.output) for command in COMMANDS)

    @pytest.mark.parametrize(
        ("command", "hint"),
        [
            *(
                ("list", "orchard models"),
                ("ls", "orchard models"),
                ("stop", "orchard unload"),
                ("get", "orchard pull"),
            ),
            *(("help", "orchard --help"), ("status", "orchard ps"), ("server", "orchard serve")),
        ],
    )
    def test_commands_of_other_programs_get_a_hint(self, command: str, hint: str) -> None:
        result = CliRunner().invoke(app, [command, "qwen"])
        assert result.exit_code == 2
        assert f"No such command '{command}'" in result.output
        assert f"'{hint}" in result.output
        assert "Did you mean" not in result.output
        assert "orchard" not in CliRunner().invoke(app, ["nonsense"]).output.split("No such command")[1]

    def test_version(self) -> None:
        assert re.fullmatch(r"orchard \d+\.\d+\.\d+\n", orchard_process("--version").stdout)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("orchard rec", ["recommend"]),
        ("orchard run qwen3-vl-", ["qwen3-vl-mine", "qwen3-vl-2b", "qwen3-vl-4b", "qwen3-vl-8b", "qwen3-vl-30b"]),
        ("orchard chat demo-w", ["demo-whisper"]),
        ("orchard agent co", ["codex", "continue"]),
        ("orchard serve demo qwen3-vl-m", ["qwen3-vl-mine"]),
    ],
)
def test_a_shell_completes_commands_and_models(tmp_path: Path, words: str, expected: list[str]) -> None:
    cache_model(tmp_path, "qwen3-vl-mine")
    asked = {"_ORCHARD_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert orchard_process(HF_HUB_CACHE=str(tmp_path), **asked).stdout.split() == expected


class TestServe:
    def test_a_missing_model(self) -> None:
        assert "no model 'nonsuch'" in refused(orchard_process("serve", "nonsuch"))

    def test_a_file_that_is_not_there(self) -> None:
        assert "there is no such file" in refused(orchard_process("serve", "./nonsuch.gguf"))

    def test_a_folder_that_is_no_model(self, tmp_path: Path) -> None:
        assert "has no config.json" in refused(orchard("serve", str(tmp_path)))

    def test_a_model_in_gguf(self, tmp_path: Path) -> None:
        for name in ("model-Q4_K_M.gguf", "config.json"):
            (tmp_path / name).write_text("{}")
        for model in (tmp_path, tmp_path / "model-Q4_K_M.gguf"):
            line = refused(orchard("serve", str(model)))
            assert "GGUF" in line
            assert f"'orchard import {model}'" in line

    def test_a_port_in_use(self, unloadable: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            line = refused(orchard("serve", str(unloadable), "--port", str(port)))
        assert f"127.0.0.1:{port}" in line
        assert "in use" in line
        assert "--port" in line

    def test_an_unknown_host(self, unloadable: Path) -> None:
        assert "no.such.host.invalid" in refused(orchard("serve", str(unloadable), "--host", "no.such.host.invalid"))

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_it_quietly(self, unloadable: Path, number: signal.Signals) -> None:
        command = [sys.executable, "-m", "orchard", "serve", str(unloadable), "--port", "0", "--log-level", "error"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean()
        ) as process:
            assert process.stdout
            first = process.stdout.readline()
            process.send_signal(number)
            _, stderr = process.communicate(timeout=60)
        assert re.fullmatch(r"Orchard \S+ listens at http://127\.0\.0\.1:\d+\n", first)
        assert process.returncode == 0
        assert "Traceback" not in stderr

    def test_the_banner_says_what_to_try(self) -> None:
        assert "orchard run\n" in serve_command.banner({"demo": "text"}, "http://127.0.0.1:8000")
        text = serve_command.banner({"demo": "text"}, "http://127.0.0.1:9000")
        assert "orchard run --url http://127.0.0.1:9000\n" in text
        assert 'base_url="http://127.0.0.1:9000/v1"' in text

    def test_the_banner_names_the_command_as_it_was_typed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "argv", [".venv/bin/orchard", "serve"])
        monkeypatch.setenv("PATH", "")
        assert "  .venv/bin/orchard run\n" in serve_command.banner({"demo": "text"}, "http://127.0.0.1:8000")

    def test_the_banner_says_what_comes_after_the_tiny_model(self) -> None:
        text = serve_command.banner({"demo": "text"}, "http://127.0.0.1:8000")
        assert "  models        demo, which is tiny\n  a real model  " in text
        assert "orchard pull qwen3-4b" in text
        assert "pull" not in serve_command.banner({"mine": "text"}, "http://127.0.0.1:8000")

    def test_it_names_the_console_unless_there_is_none(self) -> None:
        line = "  in a browser  http://127.0.0.1:9000/\n"
        assert line in serve_command.banner({"mine": "text"}, "http://127.0.0.1:9000")
        assert line not in serve_command.banner({"mine": "text"}, "http://127.0.0.1:9000", has_console=False)

    def test_the_banner_names_several_models(self) -> None:
        text = serve_command.banner(dict.fromkeys("abcdef", "vision"), "http://127.0.0.1:9000")
        assert " listens at http://127.0.0.1:9000\n  models        a, b, c, d and 2 more\n" in text
        assert '"model": "a"' in text

    @pytest.mark.parametrize("kind", [kind for kind, known in KINDS.items() if known.backend.tasks[0].example])
    def test_the_banner_shows_a_request_that_the_model_serves(self, kind: str) -> None:
        backend = KINDS[kind].backend
        text = serve_command.banner({"mine": kind}, "http://127.0.0.1:9000")
        shown = re.search(r"ask it +curl http://127.0.0.1:9000(\S+) .*\"mine\"", text)
        assert shown
        assert shown[1] in (address for task in backend.tasks for address in task.addresses)
        assert ("orchard run" in text) == (Generate in backend.tasks)

    def test_the_banner_shows_no_request_that_needs_more_than_curl(self) -> None:
        assert " curl " not in serve_command.banner({"mine": "turn_detection"}, "http://127.0.0.1:9000")

    def test_the_banner_prefers_a_model_that_chats(self) -> None:
        text = serve_command.banner({"vectors": "embeddings", "talks": "text"}, "http://127.0.0.1:9000")
        assert "/v1/chat/completions" in text
        assert '"model": "talks"' in text

    @pytest.mark.parametrize(
        ("host", "expected"), [("127.0.0.1", "127.0.0.1"), ("::", "127.0.0.1"), ("localhost", "localhost")]
    )
    def test_the_base_url(self, host: str, expected: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            assert serve_command.base_url(host, sock) == f"http://{expected}:{sock.getsockname()[1]}"


def test_bench_says_that_a_key_is_needed() -> None:
    with serve(api_keys=("the-key",)) as locked, pytest.raises(ServerError, match="an API key is needed"):
        run_bench(locked.url, None, LoadProfile(), scenarios=["c1"], api_key=None, as_json=False)


def test_a_near_miss_of_a_bundled_model_names_all_of_them() -> None:
    assert "'demo', 'demo-vision', 'demo-whisper'" in refused(orchard("serve", "demo-vison"))


@given(st.lists(st.integers(0, 90)), st.sampled_from([b"\n", b"\r\n"]))
def test_sse_is_read_the_same_however_it_is_cut(cuts: list[int], end: bytes) -> None:
    lines = [
        b": hello",
        b'data: {"a": "\xe2\x80\xa8"}',
        b"",
        b"event: x",
        b"data:1",
        b"data: 2",
        b"",
        b"data: [DONE]",
        b"",
        b"",
    ]
    whole = end.join(lines)
    places = [0, *sorted(cuts), len(whole)]
    chunks = [whole[begin:stop] for begin, stop in itertools.pairwise(places)]
    assert list(sse_data(chunks)) == [b'{"a": "\xe2\x80\xa8"}', b"1\n2", b"[DONE]"]


@pytest.mark.parametrize("written", ["{}", "{}/", "{}/v1", "{}/v1/"])
def test_an_address_as_people_write_it(stub: Stub, written: str) -> None:
    for scheme in ("", "http://"):
        with ChatClient(written.format(f"{scheme}127.0.0.1:{stub.server_port}")) as client:
            assert (client.url, client.list_models()) == (f"http://127.0.0.1:{stub.server_port}", ["stub"])


def talk_to(stub: Stub, *events: str, status: int = 200) -> list[AnswerPiece]:
    stub.status, stub.answer = status, "".join(f"data: {event}\n\n" for event in events).encode()
    with ChatClient(f"http://127.0.0.1:{stub.server_port}/") as client:
        assert client.list_models() == ["stub"]
        return list(client.stream_answer({"model": "stub", "messages": []}))


class TestClient:
    def test_reasoning_text_and_a_cut(self, stub: Stub) -> None:
        reasoning, text, note = talk_to(
            stub,
            '{"choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "hm"}}]}',
            '{"choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": null}]}',
            '{"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}',
            '{"choices": [], "usage": {}}',
            "[DONE]",
        )
        assert (reasoning, text, note.kind) == (("reasoning", "hm"), ("text", "yes"), "note")

    @pytest.mark.parametrize(
        ("event", "status", "expected"),
        [
            ('{"error": {"message": "too much"}}', 200, "^too much$"),
            ('{"error": "too hot"}', 200, "^too hot$"),
            ('{"choices": []}', 200, "broke off"),
            ("{", 200, "not a chat completion"),
            ("", 418, "418"),
        ],
    )
    def test_errors(self, stub: Stub, event: str, status: int, expected: str) -> None:
        with pytest.raises(ServerError, match=expected):
            talk_to(stub, event, status=status)

    def test_no_server(self) -> None:
        with ChatClient("http://127.0.0.1:9") as client, pytest.raises(ServerError, match="no server answers"):
            client.list_models()
