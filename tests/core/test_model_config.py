from typing import Any

import pytest

from orchard.core.model_config import context_window


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({"max_position_embeddings": 40960}, 40960),
        ({"text_config": {"max_position_embeddings": 8192}}, 8192),
        ({"n_positions": 1024}, 1024),
        ({"max_position_embeddings": None}, None),
        ({"text_config": [1]}, None),
        ({}, None),
    ],
)
def test_context_window(config: dict[str, Any], window: int | None) -> None:
    assert context_window(config) == window
