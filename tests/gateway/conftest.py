from collections.abc import Iterator

import pytest

from tests.support.serving import Server, serve


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server with the fake model for all tests that leave it as it was."""
    with serve() as running:
        yield running
