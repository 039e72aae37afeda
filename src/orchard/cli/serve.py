"""`orchard serve`, and the progress line of its terminal while models load or are downloaded."""

import ipaddress
import json
import logging
import os
import resource
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orchard import __version__
from orchard.cli.config import registry_of
from orchard.cli.settings.layers import Places
from orchard.cli.settings.values import printable_text
from orchard.cli.word_wrap import print_line
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import Generate
from orchard.kinds import KINDS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from orchard.gateway.model_status import ModelStatus
    from orchard.gateway.models.registry import Registry

# The soft limits of open files, 1024 on Linux and 256 on macOS, are too low for all connections.
_OPEN_FILES = 10240
_MOST_NAMES = 4
_MOST_NOT_SERVED = 10
_BAR_COLUMNS = 24


def serve_models(settings: Settings, notes: Iterable[str] = (), places: Places | None = None) -> None:
    """Serve until SIGINT or SIGTERM. First print `notes`, one on each line.

    Raise OrchardError if a model does not exist or the port is in use; with a configuration file, raise Mistakes for
    the models.
    """
    from orchard.gateway.models.registry import Registry
    from orchard.gateway.models.sources import DEMO

    registry = registry_of(settings, places) if places and places.has_file else Registry.from_settings(settings)
    from orchard.gateway.http.listen import bind_sockets
    from orchard.gateway.pool.worker_process import launch

    for note in (*notes, *unserved_lines(registry)):
        print_line(f"orchard: {note}", sys.stderr)
    sockets, problem = bind_sockets(settings)
    if problem:
        print_line(f"orchard: {problem}", sys.stderr)
    raise_file_limit()
    launched = None
    with suppress(OSError, OrchardError):  # if it can't be started, the load of its model says why
        # It imports its libraries while this process does the same.
        launched = registry.first_backend, launch(registry.first_backend, settings)
    from orchard.gateway.http.server import run_server
    from orchard.gateway.pool.pool import Pool
    from orchard.gateway.routes.app import create_app

    kinds = {entry.id: entry.kind for entry in registry.configured_models()} or {DEMO: "text"}
    urls = [base_url(settings.host, one) for one in sockets]
    text = banner(kinds, urls[0], has_keys=settings.asks_for_keys, has_console=settings.console, more_urls=urls[1:])
    if not settings.asks_for_keys and not ipaddress.ip_address(sockets[0].getsockname()[0]).is_loopback:
        text += "\nAnyone who can reach this machine over the network can use the server: it needs no API key."
    line = ProgressLine.of_terminal()
    pool = Pool(registry, settings, launched)
    app = create_app(pool, settings, reports=places.settings if places else ())
    run_server(
        app, pool, settings, sockets, on_ready=lambda: print(text, flush=True), on_tick=line.show if line else None
    )


def raise_file_limit() -> None:
    """Let this process open more files, as far as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS refuses more than kern.maxfilesperproc, whatever the hard limit is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def unserved_lines(registry: "Registry") -> list[str]:
    """Return a line about each model of this machine that can't be served; one about those beyond the first ones."""
    lines = [printable_text(f"'{name}' is not served: {reason}") for name, reason in registry.refused.items()]
    left = len(lines) - _MOST_NOT_SERVED
    return lines if left <= 0 else [*lines[:_MOST_NOT_SERVED], f"{left} more are not served: see 'orchard models'"]


def base_url(host: str, sock: socket.socket) -> str:
    """Return the address at which a client on this machine reaches the socket."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared with, not listened on
        host = "127.0.0.1" if sock.family == socket.AF_INET else "::1"
    return server_url(host, sock.getsockname()[1])


def server_url(host: str, port: int | str) -> str:
    """Return the URL of a server; `host` is a name or an IP address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def local_url() -> str:
    """Return the URL of this machine's server: at the address that the environment names, else at the default one."""
    default = Settings()
    return server_url(os.environ.get("ORCHARD_HOST", default.host), os.environ.get("ORCHARD_PORT", default.port))


def banner(
    kinds: Mapping[str, str],
    url: str,
    *,
    has_keys: bool = False,
    has_console: bool = True,
    more_urls: Sequence[str] = (),
) -> str:
    """Return the text to print once the server listens: its address, the models it loads, and what to try next.

    `kinds` maps the name of each model, at least one, to its kind.
    """
    from orchard.gateway.models.sources import DEMO, REAL_MODEL

    models = list(kinds)
    more = f" and {len(models) - _MOST_NAMES} more" if len(models) > _MOST_NAMES else ""
    names = ", ".join(models[:_MOST_NAMES]) + more
    default = Settings()
    option = "" if url == server_url(default.host, default.port) else f" --url {url}"
    key = '-H "authorization: Bearer $ORCHARD_API_KEY" ' if has_keys else ""
    sdk_key = "and one of its API keys" if has_keys else "any API key"
    tasks = {name: KINDS[kind].backend.tasks[0] for name, kind in kinds.items()}
    name = next((name for name, task in tasks.items() if task is Generate), models[0])
    task, content = tasks[name], tasks[name].example.replace("{name}", json.dumps(name))
    chat = f"  talk to it    {_command_name()} run{option}\n" if task is Generate else ""
    console = f"  in a browser  {url}/\n" if has_console else ""
    request = f"  ask it        curl {url}{task.addresses[0]} {key}{content}\n" if content else ""
    tiny = f", which is tiny\n  a real model  {_command_name()} pull {REAL_MODEL}" if models == [DEMO] else ""
    return f"""\
Orchard {__version__} listens at {" and ".join([url, *more_urls])}
  models        {names}{tiny}
{chat}{console}{request}  OpenAI SDKs   base_url="{url}/v1", {sdk_key}
  reference     {url}/docs
Ctrl-C stops it."""


def _command_name() -> str:
    """Return what to type to run `orchard`, which need not be on the PATH."""
    typed = sys.argv[0]
    return typed if Path(typed).name == "orchard" and not shutil.which("orchard") else "orchard"


class ProgressLine:
    """One line that shows what each requested model waits for, with progress bars for loads. `show` redraws it.

    The cursor stays at its beginning, so that output of other processes replaces it. Our own log lines erase it first.
    """

    def __init__(self, console: Callable[[], "Console"]) -> None:
        """Call `console` only when there is something to show, because rich is slow to import."""
        self._console = console
        self._shown: Console | None = None
        self._drawn = False

    @classmethod
    def of_terminal(cls) -> "ProgressLine | None":
        """Return one for stderr, where the log goes; None if stderr can't show it."""
        dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
        return cls(_stderr_console) if sys.stderr.isatty() and not dumb else None

    def show(self, models: Mapping[str, "ModelStatus"]) -> None:
        """Draw the line, or erase it if nothing is loading any more."""
        under_way = {name: now for name, now in models.items() if now.note}
        with suppress(OSError):  # the terminal may be closed; the server goes on
            if under_way:
                self._draw(under_way)
            else:
                self._erase()

    def _draw(self, models: Mapping[str, "ModelStatus"]) -> None:
        from rich.control import Control
        from rich.progress_bar import ProgressBar
        from rich.segment import ControlType, Segments
        from rich.table import Table

        if self._shown is None:
            self._shown = self._console()
            for handler in logging.getLogger().handlers:
                handler.addFilter(self._erase_before_log)
        console = self._shown
        cells: list[RenderableType] = []
        for name, now in models.items():
            cells.append(f"{name}: {now.note}")
            if now.progress is not None:
                cells.append(ProgressBar(1.0, now.progress, width=max(1, _BAR_COLUMNS // len(models))))
        line = Table.grid(padding=(0, 1))
        for _ in cells:
            line.add_column(no_wrap=True, overflow="ellipsis")
        line.add_row(*cells)
        # A line as wide as the terminal would move the cursor to the next line.
        options = console.options.update(width=console.width - 1)
        with console:  # one write
            self._erase()
            console.print(Segments(console.render_lines(line, options, pad=False)[0]), end="")
            console.control(Control(ControlType.CARRIAGE_RETURN))
        self._drawn = True

    def _erase(self) -> None:
        if self._shown and self._drawn:
            from rich.control import Control
            from rich.segment import ControlType

            self._drawn = False
            self._shown.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))

    def _erase_before_log(self, _: logging.LogRecord) -> bool:
        with suppress(OSError):
            self._erase()
        return True


def _stderr_console() -> "Console":
    from rich.console import Console

    return Console(stderr=True)
