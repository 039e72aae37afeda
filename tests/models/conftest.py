"""The models and voices that `make test-models` has fetched, and the records of other engines."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orchard.config import ModelSettings
from tests.models import sources
from tests.support import engine_driver
from tests.support.embedding_models import MINILM
from tests.support.serving import Server, serve

# These models take longer to start than tiny ones.
engine_driver._PATIENCE = 300.0
Record = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="session")
def record() -> Record:
    """Return what `record.py` has written of a model."""

    def read(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((sources.RECORDS / f"{name}.json").read_text())
        return found

    return read


@pytest.fixture(scope="session")
def voices() -> None:
    if not sources.VOICES.exists():
        pytest.skip("Debian's packages of voices could not be fetched: they need apt-get")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server of all models of texts; each is loaded when it is first asked for."""
    names = {"smollm2": sources.ROOT / "smollm2", "gemma3": sources.ROOT / "gemma3", "minilm": MINILM}
    models = [
        ModelSettings(model_path=str(folder), served_model_name=name, on_demand=True) for name, folder in names.items()
    ]
    with serve((), models=models, spare=False) as running:
        yield running
