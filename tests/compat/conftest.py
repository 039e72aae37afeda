import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.compat.bridge import FIXTURES, expected, server


def _copied(folder: Path) -> str:
    """A copy of the database, and of the key beside it."""
    for name in ("responses.db", "responses.db.key"):
        shutil.copyfile(FIXTURES / name, folder / name)
    return str(folder / "responses.db")


def _client(path: str, **settings: Any) -> Iterator[httpx.Client]:
    with server(responses_path=path, **settings) as running, httpx.Client(base_url=running.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="package")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Calls a server of the stored responses that asks for keys."""
    given = expected("responses.json")
    path = _copied(tmp_path_factory.mktemp("keyed"))
    yield from _client(path, api_keys=given["keys"], admin_keys=given["admin_keys"])


@pytest.fixture(scope="package")
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Calls a server of the stored responses that asks for none."""
    yield from _client(_copied(tmp_path_factory.mktemp("open")))
