from collections.abc import Iterator

import pytest

from tests.support.serving import Server, serve


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with serve() as running:
        yield running
