"""The servers that benchmarks.serving compares: each is a separate process with its cache in a folder of the run."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

RIVALS = ("mlx-lm", "mlx-lm-128", "mlx-vlm", "mlx-vlm-apc")
"""mlx-lm-128 decodes up to 128 requests together instead of 32; mlx-vlm-apc has its prefix cache on, disk tier too."""

_START_SECONDS = 300.0
_STOP_SECONDS = 60.0


class Contender(NamedTuple):
    """How to start a server; `model` is the name it knows the model by (None: the first that it lists).

    `embeds`: the model is one of embeddings.
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    model: str | None
    embeds: bool = False

    @classmethod
    def orchard(cls, model: str, folder: Path, options: Sequence[str]) -> "Contender":
        """Orchard as this Python has it, with its cache on disk."""
        command = [sys.executable, "-m", "orchard", "serve", model, "--log-level", "warning", *options]
        return cls("orchard", command, {"ORCHARD_PROMPT_CACHE_DIR": str(folder / "orchard")}, None)

    @classmethod
    def rival(cls, name: str, python: str, path: str, folder: Path) -> "Contender":
        """Give one of RIVALS, run by a Python that has it installed."""
        server = ["mlx_lm", "server"] if name.startswith("mlx-lm") else ["mlx_vlm.server"]
        command = [python, "-m", *server, "--host", "127.0.0.1", "--model", path, "--log-level", "WARNING"]
        if name == "mlx-lm-128":
            command += ["--decode-concurrency", "128"]
        environment = {"APC_ENABLED": "0"}
        if name == "mlx-vlm-apc":
            environment = {"APC_ENABLED": "1", "APC_DISK_PATH": str(folder / "apc")}
        return cls(name, command, environment, path)


class Running:
    """A contender's process. Raises RuntimeError with the end of its log where it doesn't come up."""

    def __init__(self, contender: Contender, log: Path) -> None:
        self.contender = contender
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.start_seconds = 0.0

    def start(self) -> None:
        """Start it, unless it runs, and wait for its first token."""
        if self._process:
            return
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", **self.contender.environment}
        begin = time.perf_counter()
        with self.log.open("ab") as log:
            command = [*self.contender.command, "--port", str(port)]
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        while not self._answers():
            if self._process.poll() is not None or time.perf_counter() - begin > _START_SECONDS:
                self.stop()
                raise RuntimeError(f"{self.contender.name} does not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.1)
        self.start_seconds = time.perf_counter() - begin

    def stop(self) -> None:
        """End it as a user would, and with force where that does not help."""
        if not self._process:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _answers(self) -> bool:
        try:
            model = self.contender.model or httpx.get(f"{self.url}/v1/models").json()["data"][0]["id"]
            body: dict[str, Any] = {"model": model, "input": "Hello"}
            path = "/v1/embeddings"
            if not self.contender.embeds:
                body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]}
                path = "/v1/chat/completions"
            return httpx.post(self.url + path, json=body, timeout=_START_SECONDS).is_success
        except httpx.HTTPError:
            return False


def free_port() -> int:
    """Return a port of this machine that nothing uses now."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port
