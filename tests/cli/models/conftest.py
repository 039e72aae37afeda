"""A Hub for the commands that ask it."""

from collections.abc import Iterator

import pytest

from tests.support.hub import Hub, run_hub
from tests.support.model_folders import make_model


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with run_hub() as hub:
        hub.repos["org/tiny"] = make_model(tmp_path_factory.mktemp("repo"))
        hub.repos["org/tiny-GGUF"] = tmp_path_factory.mktemp("gguf")
        for name in ("config.json", "tiny.Q8_0.gguf"):
            (hub.repos["org/tiny-GGUF"] / name).write_text("{}")
        hub.repos["org/data"] = tmp_path_factory.mktemp("data")
        (hub.repos["org/data"] / "data.json").write_text("{}")
        yield hub
