"""Real clients against a running server with the demo model: `make test-clients`.

These tests have an environment of their own, without Orchard: the clients' dependencies are not ours.
"""

import os
import re
from collections.abc import Iterator

import httpx
import pytest

from tests.clients.running import running
from tests.clients.starting import started

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
    command = [os.environ.get("ORCHARD", "orchard"), "serve", "demo"]
    try:
        with started(command, tmp_path_factory.mktemp("server"), _is_ready) as address:
            yield address
    except ChildProcessError as error:
        pytest.exit(str(error), returncode=1)


def _is_ready(url: str) -> bool:
    return bool(httpx.get(f"{url}/health").json()["models"]["demo"]["state"] == "ready")
