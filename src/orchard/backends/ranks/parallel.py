"""Which models can be split among ranks."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.utils

from orchard.backends.model_folder import explain_load_errors, read_config
from orchard.core.errors import OrchardError

_HEAD_COUNT = re.compile(r"(.*_)?(n|num)_(.*_)?heads")


def check_tensor_parallel(folder: Path, ranks: int) -> None:
    """Raise OrchardError("model_failed") if a folder's model can't be split into as many parts on this machine.

    mlx-lm divides without a check, and would then compute with too few heads. No weights are read.
    """
    if mx.default_device() == mx.gpu:
        raise OrchardError("model_failed", "ranks (--ranks) compute on the CPU, and this machine's models use its GPU")
    config = read_config(folder, "mlx-lm")
    with explain_load_errors(folder, "mlx-lm"):
        network, _ = mlx_lm.utils._get_classes(config)
    kind = config.get("model_type")
    if not hasattr(network, "shard"):
        raise OrchardError("model_failed", f"a model of the kind {kind!r} can't be split among ranks (--ranks)")
    text: Mapping[str, Any] = config.get("text_config") or config
    counts = {name: count for name, count in text.items() if _HEAD_COUNT.fullmatch(name) and isinstance(count, int)}
    if uneven := [f"{name} is {count}" for name, count in counts.items() if count % ranks]:
        message = f"its heads can't be divided by {ranks} ranks (--ranks): in its config.json {', '.join(uneven)}"
        raise OrchardError("model_failed", message)
