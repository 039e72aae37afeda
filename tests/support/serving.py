"""A real gateway in a process of its own, for tests and benchmarks.

Its process is forked from one that has imported the gateway already: importing takes longer than most tests.
"""

import contextlib
import multiprocessing
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

import httpx
from msgspec.structs import replace

from orchard.config import Settings
from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.registry import Registry

FAKE = ModelEntry("fake", "fake", 1000, "fake")

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["orchard.gateway.http.server", "tests.support.warm_gateway", __name__])


def unused_port() -> int:
    """Return a free port that the system gives to nobody who asks for any port."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class ServerProcess:
    """The process of a server, with what `subprocess.Popen` offers."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid
        self.pid = process.pid
        self._process = process

    def poll(self) -> int | None:
        """Return the exit code, negative where a signal ended it; None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.poll()
        assert code is not None, f"the server still runs after {timeout} s"
        return code

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Server:
    """A running server: its process, its base URL without /v1, and headers with a key that it takes."""

    def __init__(self, process: ServerProcess, port: int, key: str = "any") -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.headers = {"x-api-key": key}

    def health(self, model: str = "fake") -> dict[str, Any]:
        return self.until(model)

    def until(self, model: str = "fake", timeout: float = 60, **expected: object) -> dict[str, Any]:
        """Ask /health until the model's fields are as expected."""
        begin = time.monotonic()
        with httpx.Client(base_url=self.url, headers=self.headers, timeout=60) as client:
            while True:
                health: dict[str, Any] = client.get("/health").json()["models"][model]
                if all(health[key] == value for key, value in expected.items()):
                    return health
                waited = time.monotonic() - begin
                assert waited < timeout, f"{health} does not become {expected}"
                # Each question takes time from the load that it asks about; most loads take seconds.
                time.sleep(0.2 if waited > 0.5 and expected == {"state": "ready"} else 0.02)


@contextlib.contextmanager
def serve(
    models: Sequence[ModelEntry] = (FAKE,),
    /,
    *,
    env: Mapping[str, str] | None = None,
    spare: bool = True,
    prepare: Callable[[], None] | None = None,
    **settings: Any,
) -> Iterator[Server]:
    """Run a server on a free port; it must end well on SIGTERM unless the test ended it.

    `text` are the options of models that have none of their own; all of them are configured. Without any, those are
    served that the settings name, and those that are found. `env` is added to the environment. `spare`: whether a spare
    process is started after a load; importing MLX into one that no test uses takes longer than most tests. `prepare` is
    called in the server's process before it starts.
    """
    here = Settings(port=0, **{"responses_path": ":memory:"} | settings)
    given = [replace(one, options=here.text) if one.options == TextOptions() else one for one in models]
    configured = [replace(one, configured=True) for one in given]
    ours, theirs = _processes.Pipe(duplex=False)
    # As connections, file descriptors travel to the new process.
    output = [Connection(os.dup(number), readable=False) for number in (1, 2)]
    environment = {**os.environ, **(env or {})}
    forked = _processes.Process(
        target=_run, args=(here, configured, environment, output, theirs), kwargs={"spare": spare, "prepare": prepare}
    )
    forked.start()
    for end in (theirs, *output):
        end.close()
    process = ServerProcess(forked)
    try:
        with ours:
            port = ours.recv()
        yield Server(process, port, *here.api_keys[:1])
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        forked.close()


def _run(
    settings: Settings,
    models: Sequence[ModelEntry],
    environment: Mapping[str, str],
    output: Sequence["Connection[Any, Any]"],
    answer: "Connection[int, Any]",
    *,
    spare: bool,
    prepare: Callable[[], None] | None,
) -> None:
    """Be the server: with this environment, and with this standard output and error."""
    from orchard.gateway.http import listen, server
    from orchard.gateway.pool import pool as pools
    from orchard.gateway.routes.app import create_app

    os.setpgid(0, 0)  # what a terminal or a supervisor would send signals to
    os.environ.clear()
    os.environ.update(environment)
    for number, connection in enumerate(output, start=1):
        os.dup2(connection.fileno(), number)
        connection.close()
    if prepare:
        prepare()
    if not spare:
        pools._REFILL_SECONDS = 3600.0
    sockets, problem = listen.bind_sockets(settings)
    assert problem is None, problem
    answer.send(sockets[0].getsockname()[1])
    answer.close()
    pool = pools.Pool(Registry(models, settings) if models else Registry.from_settings(settings), settings)
    server.run_server(create_app(pool, settings), pool, settings, sockets)
