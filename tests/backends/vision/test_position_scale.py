"""Rows of Mistral's models whose queries are scaled otherwise share passes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.vision_table.families import MORE

from orchard.backends.vision.model import load_vision_model
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching import attention
from orchard.engine.batching.batch import BatchMode
from orchard.engine.calibration import find_batch_mode
from tests.support.units import finish
from tests.support.vision_models import make_vision_model


def test_each_row_is_scaled_by_its_own_positions(tmp_path: Path) -> None:
    """The length that the model was trained for is shorter here than what calibration reads."""
    family = MORE["mistral3"]
    text: dict[str, Any] = family.config["text_config"]
    scaling = {"rope_theta": 1e4, "rope_type": "default", "llama_4_scaling_beta": 0.5}
    text = text | {
        "model_type": "ministral3",
        "rope_parameters": scaling | {"original_max_position_embeddings": 8},
        "layer_types": ["full_attention"] * text["num_hidden_layers"],
    }
    make_vision_model(tmp_path, replace(family, config=family.config | {"text_config": text}))
    for _ in range(2):  # a worker may load one model after the other
        model = load_vision_model(str(tmp_path))
        attention.install_attention()
        assert finish(find_batch_mode(model, TextOptions())) is BatchMode.SHARED
