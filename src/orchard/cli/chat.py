"""`orchard chat`: find or start a server, then talk to it."""

import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from types import FrameType
from typing import IO, NoReturn

import typer

from orchard.cli.endpoint import AnswerPiece, ChatClient, ServerError
from orchard.cli.serve import url_of
from orchard.cli.talk import ChatSession, command
from orchard.config import Settings
from orchard.core.errors import OrchardError

_HINT = "/help lists commands, Ctrl-C stops an answer, Ctrl-D or /exit quits."
_BLOCK = '"""'
_STOP_SECONDS = 5.0
# A model's text must not move the cursor or set the terminal's title.
_CONTROLS = {code: None for code in (*range(32), 127, *range(128, 160)) if chr(code) not in "\n\t"}


def chat(model: str | None, url: str | None, message: str | None, api_key: str | None = None) -> None:
    """Hold a conversation, or answer only `message` (or the piped text). Raise OrchardError with the reason."""
    interactive = message is None and sys.stdin.isatty()
    if message is None and not interactive:
        message = sys.stdin.read().strip()
    if not interactive and not message:
        raise OrchardError("invalid_request", "the message is empty")
    with _server(model, url, api_key) as (client, served):
        talk = ChatSession(client, served)
        if message is not None:
            show(talk.ask(message), plain=True)
        else:
            typer.echo(f"{served} at {client.url}\n{typer.style(_HINT, dim=True)}")
            converse(talk, input)


def converse(talk: ChatSession, read: Callable[[str], str]) -> None:
    """Read lines and answer them until the user leaves."""
    with suppress(ImportError):
        import readline  # noqa: F401 - importing it is what gives input() a history and the arrow keys

    while True:
        try:
            line = read("> ").strip()
        except KeyboardInterrupt:
            typer.echo()
            continue
        except EOFError:
            typer.echo()
            return
        if line in ("/exit", "/quit"):
            return
        if line.startswith(_BLOCK):
            if text := _block(line.removeprefix(_BLOCK), read):
                _answer(talk, text)
        elif line:
            _take(talk, line)


def _block(first: str, read: Callable[[str], str]) -> str:
    """Read the rest of a text of several lines; return nothing after an interrupt."""
    lines = [first]
    try:
        while not lines[-1].endswith(_BLOCK):
            lines.append(read("... ").rstrip())
    except (KeyboardInterrupt, EOFError):
        typer.echo()
        return ""
    lines[-1] = lines[-1].removesuffix(_BLOCK)
    return "\n".join(lines).strip()


def _take(talk: ChatSession, line: str) -> None:
    """Run a command, or answer a message."""
    try:
        said = command(talk, line)
    except OrchardError as error:
        typer.secho(error.message, fg="red", err=True)
        return
    if said is None:
        _answer(talk, line)
    else:
        typer.secho(said, dim=True)


def show(pieces: Iterable[AnswerPiece], *, plain: bool = False) -> None:
    """Write an answer as it comes; with `plain`, without reasoning and notes."""
    kind = ""
    for piece in pieces:
        if plain and piece.kind != "text":
            continue
        gap = "\n" if kind and kind != piece.kind else ""
        kind = piece.kind
        text = piece.text.translate(_CONTROLS) if sys.stdout.isatty() else piece.text
        typer.echo(gap + (text if kind == "text" else typer.style(text, dim=True)), nl=False)
    typer.echo()


def _answer(talk: ChatSession, line: str) -> None:
    try:
        with closing(talk.ask(line)) as pieces:
            show(pieces)
    except KeyboardInterrupt:
        typer.secho("\n(stopped)", dim=True)
    except ServerError as error:
        typer.secho(error.message, fg="red", err=True)


@contextmanager
def _server(model: str | None, url: str | None, api_key: str | None) -> Iterator[tuple[ChatClient, str]]:
    """Yield a server and the model to ask for: the server at `url`, the one that runs here, or a new one."""
    default = Settings()
    here = url_of(os.environ.get("ORCHARD_HOST", default.host), os.environ.get("ORCHARD_PORT", default.port))
    with ChatClient(url or here, api_key) as client:
        try:
            served = _served(client.models(), model, client.url)
        except ServerError:
            if url:
                raise
        else:
            yield client, served
            return
    with _started(model or "demo") as own:
        yield own, own.models()[0]


def _served(ids: list[str], model: str | None, url: str) -> str:
    """Choose one of a server's models. Raise ServerError if it has none, or not the one that the user names."""
    if not ids:
        raise ServerError(f"the server at {url} serves no model")
    if model is None or model in ids:
        return model or ids[0]
    from orchard.gateway.models.registry import resolve
    from orchard.gateway.models.sources import DEMO

    # The bundled model is there for whoever names it, though it isn't listed beside others.
    if (name := resolve(model).id) in (*ids, DEMO):
        return name
    raise ServerError(f"the server at {url} doesn't serve '{name}'; it serves: {', '.join(ids)}")


@contextmanager
def _started(model: str) -> Iterator[ChatClient]:
    """Run a new server on a free port, with a new key, and stop it at the end."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)  # else the server would outlive this process
    options = ["--host", "127.0.0.1", "--port", "0", "--log-level", "error", "--shutdown-grace", "0"]
    command = [sys.executable, "-m", "orchard", "serve", *options, "--", model]
    key = secrets.token_urlsafe()
    others = {"ORCHARD_CONFIG", "ORCHARD_API_KEYS"}  # a file's models are not asked for, and there is one key
    environment = {name: value for name, value in os.environ.items() if name not in others} | {"ORCHARD_API_KEY": key}
    with tempfile.TemporaryFile("w+") as log:
        # A session of its own: Ctrl-C stops an answer here and doesn't reach the server.
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, env=environment
        )
        with server:
            try:
                with ChatClient(_url_of(server, log), key) as client:
                    yield client
            finally:
                server.terminate()
                with suppress(subprocess.TimeoutExpired):
                    server.wait(_STOP_SECONDS)
                server.kill()  # does nothing to a process that has ended


def _url_of(server: subprocess.Popen[str], log: IO[str]) -> str:
    """Wait for the server's banner and return its address."""
    assert server.stdout is not None
    for line in server.stdout:
        if found := re.search(r" at (http://\S+)$", line.rstrip()):
            return found[1]
    server.wait()
    log.seek(0)
    lines = log.read().split("\n")
    reason = next((line for line in reversed(lines) if line), "it ended without a message")
    raise ServerError(reason.removeprefix("orchard: "))
