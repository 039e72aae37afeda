"""Which models can be split among ranks."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
import mlx_lm.utils
from mlx_lm.models.pipeline import PipelineMixin

from orchard.backends.model_folder import explain_load_errors, read_config
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions

Parallel = Literal["tensor", "pipeline"]
"""How a model is split: each rank has a part of every layer, or some of the layers."""

_HEAD_COUNT = re.compile(r"(.*_)?(n|num)_(.*_)?heads")


def choose_parallel(folder: Path, options: TextOptions) -> Parallel:
    """Return how a folder's model is split among as many ranks as the options say. No weights are read.

    Over the ring, each exchange costs a moment, and a pipeline needs one for each rank, not two for each layer.
    Raise OrchardError("model_failed") if the model can't be split in the way that the options name, or in any.
    """
    if mx.default_device() == mx.gpu:
        raise OrchardError("model_failed", "ranks (--ranks) compute on the CPU, and this machine's models use its GPU")
    config = read_config(folder, "mlx-lm")
    with explain_load_errors(folder, "mlx-lm"):
        network, _ = mlx_lm.utils._get_classes(config)
    text: Mapping[str, Any] = config.get("text_config") or config
    ways: dict[Parallel, Callable[[], None]] = {
        "pipeline": lambda: _check_pipeline(network, text, options.ranks),
        "tensor": lambda: _check_tensors(network, text, options.ranks),
    }
    problems: list[str] = []
    for parallel in [options.parallel] if options.parallel else ways:
        try:
            ways[parallel]()
            return parallel
        except ValueError as error:
            problems.append(str(error))
    raise OrchardError("model_failed", f"it can't be split among {options.ranks} ranks: {'; '.join(problems)}")


def _check_pipeline(network: type, config: Mapping[str, Any], ranks: int) -> None:
    modules = [sys.modules[base.__module__] for base in network.__mro__]  # one model may derive from another
    classes = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    if not any(issubclass(one, PipelineMixin) and one is not PipelineMixin for one in classes):
        raise ValueError(f"mlx-lm has no pipeline for the kind {config.get('model_type')!r}")
    if (layers := config.get("num_hidden_layers", ranks)) < ranks:
        raise ValueError(f"it has only {layers} layers")


def _check_tensors(network: type, config: Mapping[str, Any], ranks: int) -> None:
    """mlx-lm divides without a check, and would then compute with too few heads."""
    if not hasattr(network, "shard"):
        raise ValueError(f"mlx-lm can't split the layers of the kind {config.get('model_type')!r}")
    counts = {name: count for name, count in config.items() if _HEAD_COUNT.fullmatch(name) and isinstance(count, int)}
    if uneven := [f"{name} is {count}" for name, count in counts.items() if count % ranks]:
        raise ValueError(f"its heads can't be divided, in its config.json {', '.join(uneven)}")
