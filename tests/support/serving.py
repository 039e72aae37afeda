"""A real gateway in a process of its own, for tests and benchmarks."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import msgspec
from msgspec.structs import replace

from orchard.config import Settings
from orchard.core.tasks import LoadOptions
from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.models.registry import ModelEntry

FAKE = ModelEntry("fake", "fake", 1000, "fake")

_PROGRAM = """
import sys, msgspec
from orchard.config import Settings
from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.http import server
from orchard.gateway.models.registry import ModelEntry, Registry
settings, given = msgspec.json.decode(sys.argv[1], type=tuple[Settings, list[tuple[ModelEntry, TextOptions]]])
models = [msgspec.structs.replace(entry, options=options) for entry, options in given]
sock = server.bind(settings.host, settings.port)
print(sock.getsockname()[1], flush=True)
server.run(settings, Registry(models, settings) if models else Registry.from_settings(settings), sock)
"""


class Server:
    """A running server: its process, its base URL without /v1, and a key that it takes."""

    def __init__(self, process: "subprocess.Popen[str]", port: int, key: str = "any") -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._headers = {"x-api-key": key}

    def health(self, model: str = "fake") -> dict[str, Any]:
        answer = httpx.get(f"{self.url}/health", headers=self._headers, timeout=10)
        health: dict[str, Any] = answer.json()["models"][model]
        return health

    def until(self, model: str = "fake", timeout: float = 30, **expected: object) -> dict[str, Any]:
        """Ask /health until the model's fields are as expected."""
        deadline = time.monotonic() + timeout
        while True:
            health = self.health(model)
            if all(health[key] == value for key, value in expected.items()):
                return health
            assert time.monotonic() < deadline, f"{health} does not become {expected}"
            time.sleep(0.02)


@contextlib.contextmanager
def serve(
    models: Sequence[ModelEntry] = (FAKE,), /, *, env: Mapping[str, str] | None = None, **settings: Any
) -> Iterator[Server]:
    """Run a server on a free port; it must end well on SIGTERM unless the test ended it.

    `text` are the options of models that have none of their own; all of them are configured. Without any, those are
    served that the settings name, and those that are found. `env` is added to the environment.
    """
    here = Settings(port=0, **{"responses_path": ":memory:"} | settings)
    options = [here.text if one.options == TextOptions() else one.options for one in models]
    entries = [replace(one, configured=True, options=LoadOptions()) for one in models]
    config = msgspec.json.encode((here, list(zip(entries, options, strict=True)))).decode()
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, config],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
        process_group=0,  # what a terminal or a supervisor would send signals to
    )
    assert process.stdout
    try:
        yield Server(process, int(process.stdout.readline()), *here.api_keys[:1])
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
