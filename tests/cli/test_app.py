"""The command line as a user meets it."""

import http.server
import itertools
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from typer.testing import CliRunner

from orchard.cli import chat
from orchard.cli import serve as serve_command
from orchard.cli.app import app
from orchard.cli.bench import LoadProfile, run_bench
from orchard.cli.chat import HELP, ChatSession
from orchard.cli.endpoint import AnswerPiece, ChatClient, ServerError, sse_data
from orchard.core.tasks.generate import Generate
from orchard.kinds import KINDS
from tests.support.command import clean, orchard, orchard_process, refused
from tests.support.serving import FAKE, Server, serve

COMMANDS = ("serve", "chat", "models", "pull", "rm", "ps", "load", "unload", "logs", "top", "bench", "doctor", "config")
SLOW = '{"pieces": 1000, "text": "tick ", "interval": 0.02}'


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


class TestCommands:
    @pytest.mark.parametrize("args", [(), ("--help",), ("-h",)])
    def test_help_lists_the_commands(self, args: tuple[str, ...]) -> None:
        result = CliRunner().invoke(app, args)
        assert result.exit_code == 0
        assert all(re.search(rf"\b{command}\b", result.output) for command in COMMANDS)

    @pytest.mark.parametrize(
        ("command", "hint"), [("run", "orchard chat"), ("list", "orchard models"), ("stop", "orchard unload")]
    )
    def test_commands_of_other_programs_get_a_hint(self, command: str, hint: str) -> None:
        result = CliRunner().invoke(app, [command, "qwen"])
        assert result.exit_code == 2
        assert f"No such command '{command}'" in result.output
        assert f"'{hint}" in result.output
        assert "orchard" not in CliRunner().invoke(app, ["nonsense"]).output.split("No such command")[1]

    def test_version(self) -> None:
        assert re.fullmatch(r"orchard \d+\.\d+\.\d+\n", orchard_process("--version").stdout)


class TestServe:
    def test_a_missing_model(self) -> None:
        assert "no model 'nonsuch'" in refused(orchard_process("serve", "nonsuch"))

    def test_a_folder_that_is_no_model(self, tmp_path: Path) -> None:
        assert "has no config.json" in refused(orchard("serve", str(tmp_path)))

    def test_a_model_in_gguf(self, tmp_path: Path) -> None:
        for name in ("model-Q4_K_M.gguf", "config.json"):
            (tmp_path / name).write_text("{}")
        for model in (tmp_path, tmp_path / "model-Q4_K_M.gguf"):
            line = refused(orchard("serve", str(model)))
            assert "GGUF" in line
            assert "MLX format" in line
            assert "mlx-community" in line

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
        assert "orchard chat\n" in serve_command.banner({"demo": "text"}, "http://127.0.0.1:8000")
        text = serve_command.banner({"demo": "text"}, "http://127.0.0.1:9000")
        assert "orchard chat --url http://127.0.0.1:9000\n" in text
        assert 'base_url="http://127.0.0.1:9000/v1"' in text

    def test_the_banner_names_the_command_as_it_was_typed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "argv", [".venv/bin/orchard", "serve"])
        monkeypatch.setenv("PATH", "")
        assert "  .venv/bin/orchard chat\n" in serve_command.banner({"demo": "text"}, "http://127.0.0.1:8000")

    def test_the_banner_says_what_comes_after_the_tiny_model(self) -> None:
        text = serve_command.banner({"demo": "text"}, "http://127.0.0.1:8000")
        assert "  models        demo, which is tiny\n  a real model  " in text
        assert "orchard pull mlx-community/" in text
        assert "pull" not in serve_command.banner({"mine": "text"}, "http://127.0.0.1:8000")

    def test_the_banner_names_several_models(self) -> None:
        text = serve_command.banner(dict.fromkeys("abcdef", "vision"), "http://127.0.0.1:9000")
        assert " listens at http://127.0.0.1:9000\n  models        a, b, c, d and 2 more\n" in text
        assert '"model": "a"' in text

    @pytest.mark.parametrize("kind", [kind for kind, known in KINDS.items() if known.backend])
    def test_the_banner_shows_a_request_that_the_model_serves(self, kind: str) -> None:
        backend = KINDS[kind].backend
        assert backend
        text = serve_command.banner({"mine": kind}, "http://127.0.0.1:9000")
        shown = re.search(r"ask it +curl http://127.0.0.1:9000(\S+) .*\"mine\"", text)
        assert shown
        assert shown[1] in (address for task in backend.tasks for address in task.addresses)
        assert ("orchard chat" in text) == (Generate in backend.tasks)

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


class Stub(http.server.ThreadingHTTPServer):
    """A server that answers every POST with `answer`, and every GET with a list of one model."""

    answer = b""
    status = 200


class StubHandler(http.server.BaseHTTPRequestHandler):
    server: Stub

    def do_GET(self) -> None:
        self._send(200, b'{"data": [{"id": "stub"}]}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._send(self.server.status, self.server.answer)

    def log_message(self, *args: Any) -> None:
        pass

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(("127.0.0.1", 0), StubHandler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


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


class TestChat:
    def test_one_message(self, server: Server) -> None:
        done = orchard("chat", "-m", "hello there", "--url", server.url)
        assert (done.returncode, done.stdout, done.stderr) == (0, "hello there\n", "")

    def test_piped_text_goes_to_the_server_that_runs(self, server: Server) -> None:
        done = orchard("chat", stdin="hi\nyou\n", ORCHARD_PORT=str(server.port))
        assert (done.returncode, done.stdout, done.stderr) == (0, "hi\nyou\n", "")

    def test_errors_are_one_line(self, server: Server) -> None:
        assert "empty" in refused(orchard("chat", "--url", server.url))
        assert "refuses" in refused(orchard("chat", "-m", '{"refuse": "overloaded"}', "--url", server.url))
        assert "no server answers" in refused(orchard("chat", "-m", "x", "--url", "http://127.0.0.1:9"))
        assert "no server answers" in refused(orchard("chat", "--url", "http://127.0.0.1:9"))  # and stdin is empty
        assert "no model 'other'" in refused(orchard("chat", "other", "-m", "x", "--url", server.url))

    def test_an_answer_that_fails_half_way(self, server: Server) -> None:
        done = orchard("chat", "-m", '{"fail": "internal", "text": "half"}', "--url", server.url)
        assert (done.returncode, done.stdout) == (1, "half")
        assert "the script fails this request" in done.stderr

    def test_a_model_that_cannot_load_says_why(self, unloadable: Path, stub: Stub) -> None:
        refused(orchard("chat", str(unloadable), "-m", "x", ORCHARD_PORT=str(stub.server_port)))

    def test_a_conversation(self, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
        lines: list[str | type[BaseException]] = ["one", KeyboardInterrupt, " ", "/think", "two", "/help", EOFError]
        with ChatClient(server.url) as client:
            talk = ChatSession(client, "fake")
            chat.converse(talk, reader(lines))
            assert talk.talk.thinking is True
            assert [turn.content for turn in talk.talk.messages] == ["one", "one", "two", "two"]
            chat.converse(talk, reader(['{"refuse": "overloaded"}', "/reset", "/exit"]))
            assert talk.talk.messages == []
        out, err = capsys.readouterr()
        assert "one\n" in out
        assert HELP in out
        assert "refuses" in err

    def test_an_interrupt_stops_the_answer_and_frees_its_row(
        self, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def interrupted(pieces: Iterator[AnswerPiece]) -> None:
            next(pieces)
            raise KeyboardInterrupt

        monkeypatch.setattr(chat, "print_answer", interrupted)
        with ChatClient(server.url) as client:
            talk = ChatSession(client, "fake")
            chat.converse(talk, reader([SLOW, EOFError]))
            assert talk.talk.messages[1].content.startswith("tick ")
            server.until(running=0, timeout=5)
        assert "(stopped)" in capsys.readouterr().out

    def test_an_interrupt_leaves_no_half_line(self, server: Server) -> None:
        command = [sys.executable, "-m", "orchard", "chat", "-m", SLOW, "--url", server.url]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=clean()) as process:
            assert process.stdout
            assert process.stdout.read(5) == "tick "
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60)
        assert (process.returncode, error) == (130, "\n")

    def test_control_characters_do_not_reach_a_terminal(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        chat.print_answer([AnswerPiece("text", "a\x1b]0;title\x07\x9b2Jb\n\tc")])
        assert capsys.readouterr().out == "a]0;title2Jb\n\tc\n"

    def test_answers_are_broken_between_words_on_a_terminal_only(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("COLUMNS", "20")
        pieces = [AnswerPiece("text", "A long ans"), AnswerPiece("text", "wer that has words")]
        chat.print_answer(pieces)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        chat.print_answer(pieces)
        assert capsys.readouterr().out == "A long answer that has words\nA long answer that\nhas words\n"

    def test_an_error_on_a_terminal_has_a_line_of_its_own(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fails() -> Iterator[AnswerPiece]:
            yield AnswerPiece("text", "half an ans")
            raise ServerError("the answer broke off")

        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        with pytest.raises(ServerError):
            chat.print_answer(fails())
        assert capsys.readouterr().out == "half an ans\n"

    def test_the_tiny_model_says_what_comes_after_it(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        monkeypatch.setattr("builtins.input", reader([EOFError, EOFError]))
        with serve([replace(FAKE, id="demo")]) as bundled:
            chat.chat_in_terminal(None, bundled.url, None)
        assert "orchard pull mlx-community/" in capsys.readouterr().out


def reader(lines: list[Any]) -> Any:
    """An input() that gives these lines and raises these exceptions."""
    rest = iter(lines)

    def read(_: str) -> str:
        line = next(rest)
        if isinstance(line, str):
            return line
        raise line

    return read
