"""Real clients against a running server with the demo model: `make test-clients`.

These tests have an environment of their own, without Orchard: the clients' dependencies are not ours.
"""

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import IO

import httpx
import pytest

from tests.clients.running import running

# Clients read keys, addresses and switches from the environment: none of the user's must reach a test.
for name in list(os.environ):
    if re.match(
        "CLAUDE|CLINE|(ANTHROPIC|AZURE|CONTINUE|LANGCHAIN|LANGSMITH|LITELLM|OPENAI|OPENCLAW|ORCHARD|QWEN)_", name
    ):
        del os.environ[name]
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else LiteLLM asks the internet for prices


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL, without /v1, of a server with the demo model.

    CLIENTS_URL names one that runs already; otherwise the command in ORCHARD starts one.
    """
    if given := os.environ.get("CLIENTS_URL"):
        try:
            yield running(given)
        except ValueError as error:
            pytest.exit(str(error), returncode=1)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [os.environ.get("ORCHARD", "orchard"), "serve", "demo", "--port", str(port)]
    with (
        (tmp_path_factory.mktemp("server") / "log").open("w+") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            yield _ready(f"http://127.0.0.1:{port}", process, log)
        finally:
            process.terminate()


def _ready(url: str, process: "subprocess.Popen[bytes]", log: IO[str]) -> str:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/health").json()["models"]["demo"]["state"] == "ready":
                return url
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    log.seek(0)
    pytest.exit(f"the server doesn't come up:\n{log.read()}", returncode=1)
