"""How models are split among ranks, and which can't be; no weights are read to find out."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchard.backends.ranks.parallel import choose_parallel
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions

HEADS = {"num_hidden_layers": 3, "num_attention_heads": 12, "num_key_value_heads": 6, "head_dim": 8}
QWEN3 = {"model_type": "qwen3", **HEADS}
MOE = {"model_type": "qwen3_moe", **HEADS}
HYBRID = {"num_attention_heads": 4, "num_key_value_heads": 2, "linear_num_value_heads": 6, "linear_num_key_heads": 3}


def test_a_pipeline_comes_first_over_the_ring(tmp_path: Path) -> None:
    for config, expected in ((QWEN3, "tensor"), (MOE, "pipeline"), ({"model_type": "qwen3_5_moe"}, "pipeline")):
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert choose_parallel(tmp_path, TextOptions(ranks=3), "ring") == expected
    (tmp_path / "config.json").write_text(json.dumps({**MOE, "num_hidden_layers": 1}))
    assert choose_parallel(tmp_path, TextOptions(ranks=2), "ring") == "tensor"
    (tmp_path / "config.json").write_text(json.dumps(MOE))
    assert choose_parallel(tmp_path, TextOptions(ranks=3, parallel="tensor"), "ring") == "tensor"


@pytest.mark.parametrize(
    ("config", "options", "reason"),
    [
        (QWEN3, {"ranks": 4}, "has no pipeline for the kind 'qwen3'; its heads .* num_key_value_heads is 6$"),
        (QWEN3, {"ranks": 5}, "num_attention_heads is 12, num_key_value_heads is 6$"),
        (QWEN3, {"ranks": 2, "parallel": "pipeline"}, "has no pipeline for the kind 'qwen3'$"),
        (MOE, {"ranks": 4}, "it has only 3 layers; its heads can't be divided"),
        # The heads of its vision model are not split.
        (
            {"model_type": "qwen3_5", "text_config": HYBRID, "vision_config": {"num_heads": 3}},
            {"ranks": 2, "parallel": "tensor"},
            "in its config.json linear_num_key_heads is 3$",
        ),
        ({"model_type": "gemma3_text"}, {"ranks": 2}, "can't split the layers of the kind 'gemma3_text'$"),
        ({"model_type": "nothing"}, {"ranks": 2}, "does not know its architecture"),
    ],
)
def test_a_model_that_cannot_be_split_says_why(
    tmp_path: Path, config: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(OrchardError, match=reason):
        choose_parallel(tmp_path, TextOptions(**options), "ring")
