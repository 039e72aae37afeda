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
from orchard.cluster.hostfile import DistributedBackend, Hostfile
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions

Parallel = Literal["tensor", "pipeline"]
"""How a model is split: each rank has a part of every layer, or some of the layers."""

_HEAD_COUNT = re.compile(r"(.*_)?(n|num)_(.*_)?heads")


def choose_backend(options: TextOptions, hostfile: Hostfile) -> DistributedBackend:
    """Return what connects the ranks. Raise OrchardError("model_failed") if it can't be had here."""
    on_gpu = mx.default_device() == mx.gpu
    is_one_host = hostfile.local_ranks == len(hostfile.hosts)
    backend = options.backend or hostfile.backend or None
    if not backend:
        backend = "nccl" if is_one_host and mx.cuda.is_available() else "jaccl" if hostfile.has_rdma else "ring"
    gpus = mx.device_count(mx.gpu) if on_gpu else 0
    problem = ""
    if backend == "nccl" and not is_one_host:
        problem = "it listens on every address of a host, so it is only for the GPUs of one host"
    elif backend == "jaccl" and not hostfile.has_rdma:
        problem = "it needs a hostfile (--hosts) whose `rdma` names a device for each other host, and null for itself"
    elif not mx.distributed.is_available(backend):
        problem = "MLX has none on this machine: NCCL needs mlx[cuda] on Linux, JACCL a Mac with macOS 26.2 or newer"
    elif on_gpu and gpus < hostfile.local_ranks:
        problem = f"this machine has {gpus} GPU{'' if gpus == 1 else 's'} for {hostfile.local_ranks} ranks"
    elif backend == "nccl" and not on_gpu:
        problem = "this machine's models compute on the CPU"
    if problem:
        raise OrchardError("model_failed", f"ranks can't be connected by {backend} (--backend): {problem}")
    return backend


def choose_parallel(folder: Path, options: TextOptions, backend: DistributedBackend) -> Parallel:
    """Return how a folder's model is split among as many ranks as the options say. No weights are read.

    Over the ring, each exchange costs a moment, and a pipeline needs one for each rank, not two for each layer. With
    the other backends, an exchange costs little, and all ranks compute at the same time.
    Raise OrchardError("model_failed") if the model can't be split in the way that the options name, or in any.
    """
    config = read_config(folder, "mlx-lm")
    with explain_load_errors(folder, "mlx-lm"):
        network, _ = mlx_lm.utils._get_classes(config)
    text: Mapping[str, Any] = config.get("text_config") or config
    ways: dict[Parallel, Callable[[], None]] = {
        "pipeline": lambda: _check_pipeline(network, text, options.ranks),
        "tensor": lambda: _check_tensors(network, text, options.ranks),
    }
    order: list[Parallel] = ["pipeline", "tensor"] if backend == "ring" else ["tensor", "pipeline"]
    problems: list[str] = []
    for parallel in [options.parallel] if options.parallel else order:
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
