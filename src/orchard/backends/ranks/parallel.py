"""Which models can be split among ranks."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mlx_lm.utils

from orchard.backends.model_folder import explain_load_errors, read_config
from orchard.core.errors import OrchardError

_HEAD_COUNT = re.compile(r"(.*_)?(n|num)_(.*_)?heads")


def check_tensor_parallel(folder: Path, ranks: int) -> None:
    """Raise OrchardError("model_failed") if mlx-lm can't split a folder's model into as many parts.

    mlx-lm divides without a check, and would then compute with too few heads. No weights are read.
    """
    config = read_config(folder, "mlx-lm")
    with explain_load_errors(folder, "mlx-lm"):
        network, _ = mlx_lm.utils._get_classes(config)
    kind = config.get("model_type")
    if not hasattr(network, "shard"):
        raise OrchardError("model_failed", f"a model of the kind {kind!r} can't be split among ranks (--ranks)")
    uneven = {name: count for name, count in _head_counts(config) if count % ranks}
    if uneven:
        counts = ", ".join(f"{name} is {count}" for name, count in uneven.items())
        message = f"its heads can't be divided by {ranks} ranks (--ranks): in its config.json {counts}"
        raise OrchardError("model_failed", message)


def _head_counts(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the names and values of all numbers of heads in a model's configuration."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _head_counts(value)
        elif isinstance(value, int) and _HEAD_COUNT.fullmatch(name):
            yield name, value
