"""Loads weights that mlx-lm can run, but can't load unchanged.

Some folders' config.json doesn't say how the weights are quantised, or is wrong about it. Some weights have names from
other programs. This corrects only what follows from the weights' names and types.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.utils
from mlx.utils import tree_flatten

from orchard import folder_files

log = logging.getLogger("orchard.worker")

Weights = dict[str, mx.array]

# Methods whose packed weights mlx-lm repacks.
_REPACKED_METHODS = {"awq", "gptq"}
_REPACKED_BITS = 4
_REPACKED_PARTS = 16  # repacking takes some twenty times the memory of what is repacked at once
_PREFIX = "language_model."
# Computed from the configuration; some programs save it.
_COMPUTED_SUFFIX = ".rotary_emb.inv_freq"


class UnusableWeightsError(ValueError):
    """The weights can't be loaded. The message is the end of a sentence."""


def load_checkpoint(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return mlx-lm's network of a folder, with weights that are not read yet, and its configuration.

    Raise what mlx-lm raises, or UnusableWeightsError.
    """
    config = mlx_lm.utils.load_config(folder)
    corrections = _corrections(config, _dtypes(folder))
    network, config = mlx_lm.utils.load_model(
        folder, lazy=True, model_config=corrections, get_model_classes=_get_model_classes
    )
    vars(network).pop("sanitize", None)
    return network, config


def _dtypes(folder: Path) -> dict[str, str]:
    """Return the names of all weights, and their types as safetensors files have them."""
    return {
        name: str(tensor.get("dtype"))
        for file in folder.glob("model*.safetensors")
        for name, tensor in folder_files.read_header(file).items()
        if isinstance(tensor, dict)
    }


def _corrections(config: Mapping[str, Any], dtypes: Mapping[str, str]) -> dict[str, Any]:
    """Return what config.json must say about the quantisation of these weights. Raise UnusableWeightsError."""
    told = config.get("quantization_config") or (config.get("text_config") or {}).get("quantization_config") or {}
    method = told.get("quant_method")
    repacked = any(name.endswith(".qweight") for name in dtypes)
    if repacked and method not in _REPACKED_METHODS:
        raise UnusableWeightsError("its weights are packed as AWQ and GPTQ do it, and its config.json doesn't say how")
    if repacked and told.get("bits", _REPACKED_BITS) != _REPACKED_BITS:
        reason = f"its weights are packed by {str(method).upper()} with {told['bits']} bits"
        raise UnusableWeightsError(f"{reason}, and only {_REPACKED_BITS} bits can be loaded")
    if repacked or config.get("quantization") or (method is not None and method not in _REPACKED_METHODS):
        return {}
    if any(name.endswith(".scales") and dtypes.get(f"{name[:-7]}.weight") == "U32" for name in dtypes):
        # mlx-lm finds each layer's bits and group size by the shapes; the values here are never used.
        return {"quantization": {"bits": told.get("bits", 4), "group_size": told.get("group_size", 64)}}
    if told:
        log.warning("its config.json says that its weights are quantised, and they are not")
        return {"quantization_config": None}
    return {}


def _get_model_classes(config: dict[str, Any]) -> tuple[Callable[[Any], Any], Any]:
    """Return a function that makes mlx-lm's network, whose `sanitize` renames weights first, and its arguments."""
    kind, arguments = mlx_lm.utils._get_classes(config)

    def make_network(arguments: Any) -> Any:
        network = kind(arguments)
        own = getattr(network, "sanitize", lambda weights: weights)
        names = {name for name, _ in tree_flatten(network.parameters())}
        network.sanitize = lambda weights: own(_rename_weights(weights, names))
        return network

    return make_network, arguments


def _rename_weights(weights: Weights, names: set[str]) -> Weights:
    """Return weights with the names of a network's parameters, without those that the network computes."""
    if all(name.startswith(_PREFIX) for name in weights) and not any(name.startswith(_PREFIX) for name in names):
        weights = {name.removeprefix(_PREFIX): weight for name, weight in weights.items()}
    return {name: weight for name, weight in weights.items() if name in names or not name.endswith(_COMPUTED_SUFFIX)}


_repack = mlx_lm.utils._transform_awq_weights


def _repack_in_parts(weights: Weights, config: dict[str, Any]) -> tuple[Weights, dict[str, Any]]:
    """Repack weights as mlx-lm does, but only some of a layer's outputs at a time, which takes less memory."""
    found, quantization = _repack(weights, config)
    for name in [name.removesuffix(".qweight") for name in weights if name.endswith(".qweight")]:
        count = len(found[f"{name}.weight"])
        step = -(-count // _REPACKED_PARTS // 8) * 8  # a packed number has 8 outputs
        parts: list[Weights] = []
        for first in range(0, count, step):
            part = {
                one: weights[one][:, first // each : (first + step) // each]
                for one, each in ((f"{name}.qweight", 8), (f"{name}.qzeros", 8), (f"{name}.scales", 1))
                if one in weights
            }
            if parts:
                part[f"{name}.qweight"] = mx.depends(part[f"{name}.qweight"], parts[-1][f"{name}.weight"])
            parts.append(_repack(part, config)[0])
        found |= {one: mx.concatenate([part[one] for part in parts]) for one in parts[0]}
    return found, quantization


mlx_lm.utils._transform_awq_weights = _repack_in_parts
