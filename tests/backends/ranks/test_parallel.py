"""Which models can be split among ranks; no weights are read to find out."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchard.backends.ranks.parallel import check_tensor_parallel
from orchard.core.errors import OrchardError

QWEN = {"model_type": "qwen3", "num_attention_heads": 12, "num_key_value_heads": 6, "head_dim": 8}
HYBRID = {"num_attention_heads": 4, "num_key_value_heads": 2, "linear_num_value_heads": 6, "linear_num_key_heads": 3}


@pytest.mark.parametrize(
    ("config", "ranks", "reason"),
    [
        (QWEN, 2, None),
        (QWEN, 3, None),
        (QWEN, 4, "by 4 ranks .* num_key_value_heads is 6$"),
        (QWEN, 5, "by 5 ranks .* num_attention_heads is 12, num_key_value_heads is 6$"),
        ({"model_type": "qwen3_5", "text_config": HYBRID}, 2, "linear_num_key_heads is 3$"),
        # Only its language model is split.
        ({"model_type": "qwen3_5", "text_config": HYBRID, "vision_config": {"num_heads": 3}}, 1, None),
        (
            {"model_type": "gemma3_text", "num_attention_heads": 4},
            2,
            "the kind 'gemma3_text' can't be split",
        ),
        ({"model_type": "nothing"}, 2, "does not know its architecture"),
    ],
)
def test_a_model_that_cannot_be_split_says_why(
    tmp_path: Path, config: dict[str, Any], ranks: int, reason: str | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    if reason is None:
        check_tensor_parallel(tmp_path, ranks)
    else:
        with pytest.raises(OrchardError, match=reason):
            check_tensor_parallel(tmp_path, ranks)
