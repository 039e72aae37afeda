from collections.abc import Iterator

import pytest

from tests.support.serving import Server, serve


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server with the fake model for all tests of a module that leave it as it was."""
    with serve() as running:
        yield running
