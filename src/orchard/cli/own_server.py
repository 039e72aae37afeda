"""A server for a command: the one at an address, one that runs on this machine, or one of its own."""

import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from orchard.cli.endpoint import ChatClient, ServerError
from orchard.cli.serve import local_url
from orchard.cli.settings.table import settings_by_variable
from orchard.cli.signals import exit_on_signals
from orchard.gateway.models import catalogue
from orchard.gateway.models.names import lenient_spellings
from orchard.gateway.models.registry import resolve_model
from orchard.gateway.models.sources import BUNDLED, DEMO, named_folder

_STOP_SECONDS = 5.0


@contextmanager
def open_server(
    model: str | None, url: str | None, api_key: str | None, fetch: Callable[[str], str]
) -> Iterator[tuple[ChatClient, str]]:
    """Yield a server (the one at `url`, one that runs on this machine, or a new one) and the model to request.

    `fetch` is called with the name of a model that no server on this machine has. It makes sure that the model is here,
    and returns what to serve. Raise ServerError if the server at `url` lacks the model.
    """
    with ChatClient(url or local_url(), api_key) as client:
        try:
            served = choose_model(client.list_models(), model, client.url)
        except ServerError:
            if url:
                raise
            path, served = fetch(model or DEMO), None
            with suppress(ServerError):  # a server that runs lists what was downloaded
                served = choose_model(client.list_models(), path, client.url)
        if served:
            yield client, served
            return
    if sys.stderr.isatty():  # importing MLX may take long
        print(f"Starting a server for {path}", file=sys.stderr)
    with start_server(path) as own:
        yield own, own.list_models()[0]


def choose_model(ids: list[str], model: str | None, url: str) -> str:
    """Choose one of a server's models. Raise ServerError if it has none, or not `model`."""
    if not ids:
        raise ServerError(f"the server at {url} serves no model")
    # A bundled model can be named even when the list of models leaves it out.
    if model is None or model in (*ids, *BUNDLED):
        return model or ids[0]
    name = catalogue.find_repo(model) or (resolve_model(model).id if named_folder(model) else model)
    spellings = lenient_spellings(model) | {name.casefold()}
    if served := next((known for known in ids if known.casefold() in spellings), None):
        return served
    raise ServerError(f"the server at {url} doesn't serve '{name}'; it serves: {', '.join(ids)}")


@contextmanager
def start_server(model: str | None, options: Sequence[str] = (), keys: Sequence[str] = ()) -> Iterator[ChatClient]:
    """Start a server on a free port; stop it at the end, which takes up to `_STOP_SECONDS`.

    `options` are further ones of `orchard serve`; `model` None: the models of the configuration file that they name.
    `keys` are its API keys, of which the client sends the first; by default, it has a new one.
    """

    always = ["--host", "127.0.0.1", "--port", "0", "--log-level", "error", "--shutdown-grace", "0"]
    command = [sys.executable, "-m", "orchard", "serve", *always, *options, *(["--", model] if model else ())]
    keys = keys or [secrets.token_urlsafe()]
    others = {"ORCHARD_CONFIG", "ORCHARD_API_KEYS"}  # don't load a configuration file's models; use these keys only
    if not model:
        others |= {name for name, setting in settings_by_variable().items() if setting.scope == "named"}
    environment = {name: value for name, value in os.environ.items() if name not in others}
    environment["ORCHARD_API_KEY"] = ",".join(keys)
    with exit_on_signals(), tempfile.TemporaryFile("w+") as log:  # otherwise the server would outlive this process
        # In its own session, the server doesn't get the Ctrl-C that stops an answer here.
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, env=environment
        )
        with server:
            try:
                with ChatClient(_wait_for_url(server, log), keys[0]) as client:
                    yield client
            finally:
                server.terminate()
                with suppress(subprocess.TimeoutExpired):
                    server.wait(_STOP_SECONDS)
                server.kill()  # does nothing to a process that has ended


def _wait_for_url(server: subprocess.Popen[str], log: IO[str]) -> str:
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
