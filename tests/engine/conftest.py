from collections.abc import Iterator

import pytest

from tests.support.engine_driver import Engines
from tests.support.models import model, model_folder

__all__ = ["model", "model_folder"]


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    engines = Engines(tmp_path_factory.getbasetemp())
    yield engines
    engines.close()
