from collections.abc import AsyncIterator, Iterator

import pytest
from openai import AsyncOpenAI, OpenAI

from orchard.gateway.models.registry import resolve
from tests.support.serving import Server, serve


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server with the bundled demo model for all end-to-end tests that leave it as it was."""
    with serve([resolve("demo")], spare=False) as running:
        running.until("demo", state="ready")
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
async def async_client(server: Server) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client
