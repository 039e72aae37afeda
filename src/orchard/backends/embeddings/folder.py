"""Reads the files of sentence-transformers, which say how to make vectors from a network's output.

Their formats: https://sbert.net/docs/package_reference/sentence_transformer/models.html
"""

from pathlib import Path
from typing import Any

import mlx.core as mx
from msgspec import Struct

from orchard import folder_files
from orchard.core.errors import OrchardError

# Model types with causal attention, in which only the last token attends to the whole text.
_CAUSAL_TYPES = {"qwen3"}
# Model types that were also trained for fewer dimensions, although their files don't say so.
_MATRYOSHKA_TYPES = {"qwen3", "gemma3_text"}
_NO_LIMIT = 10**9  # transformers writes 10^30 if a tokenizer has no limit

_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_ACTIVATIONS = {"Identity", "Tanh", "ReLU", "GELU", "Sigmoid"}


class DenseLayer(Struct, frozen=True):
    """A dense layer between pooling and normalising; `folder` may have its weights."""

    folder: Path
    activation: str


class VectorRecipe(Struct, frozen=True, kw_only=True):
    """How a model's vectors are made.

    `pooling`: the kinds of pooling, whose results are concatenated. `prompts`: texts to put before inputs, by name.
    `prompt`: the default's name. `max_tokens`: the limit per text (None: the network's and the tokenizer's). `lower`:
    make texts lower case. `matryoshka`: vectors may be cut to their first numbers. `sizes`: how many (empty: any).
    """

    pooling: tuple[str, ...]
    dense: tuple[DenseLayer, ...] = ()
    normalize: bool = True
    prompts: dict[str, str] = {}
    prompt: str | None = None
    max_tokens: int | None = None
    lower: bool = False
    matryoshka: bool = False
    sizes: tuple[int, ...] = ()


def read_recipe(folder: Path, config: dict[str, Any], matryoshka: bool | None = None) -> VectorRecipe:
    """Read from a model's folder how its vectors are made; `config` is its config.json.

    `matryoshka`: the value of the setting; None: not set.

    Without files of sentence-transformers, a vector is the normalised mean of all tokens or, with causal attention, the
    last token. Raise OrchardError("model_failed") if the vectors are made in a way that is not supported.
    """
    try:
        return _parse_recipe(folder, config, matryoshka)
    except (ValueError, TypeError, AttributeError, KeyError, OSError) as error:
        reason = f"its sentence-transformers files can't be used: {error}"
        raise OrchardError("model_failed", f"the model in {folder} can't be loaded: {reason}") from error


def _parse_recipe(folder: Path, config: dict[str, Any], matryoshka: bool | None) -> VectorRecipe:
    kind = str(config.get("model_type"))
    told, about = (
        _read_json_file(folder / "config_sentence_transformers.json"),
        _read_json_file(folder / "sentence_bert_config.json"),
    )
    sizes = config.get("matryoshka_dimensions") or told.get("matryoshka_dimensions") or ()
    trained = bool(sizes or config.get("is_matryoshka") or kind in _MATRYOSHKA_TYPES)
    prompts = {str(name): str(text) for name, text in (told.get("prompts") or {}).items() if text is not None}
    default = told.get("default_prompt_name")
    if default is not None and default not in prompts:
        raise ValueError(f"the default prompt {default!r} is none of its prompts")
    pooling: tuple[str, ...] = ("lasttoken" if kind in _CAUSAL_TYPES else "mean",)
    dense: list[DenseLayer] = []
    modules = _read_json_file(folder / "modules.json", [])
    for module in modules:
        path, name = str(module.get("path", "")), str(module["type"]).rpartition(".")[2]
        if path and not folder_files.is_name(path):
            raise ValueError(f"its modules.json names a folder that is not in its own ({path[:100]})")
        where = folder / path
        match name:
            case "Transformer" | "Normalize":
                pass
            case "Pooling":
                pooling = _pooling(_read_json_file(where / "config.json"), bool(prompts))
            case "Dense":
                dense.append(DenseLayer(where, _activation(_read_json_file(where / "config.json"))))
            case _:
                raise ValueError(f"modules of the type {module['type']} are not served")
    names = [str(module["type"]).rpartition(".")[2] for module in modules]
    most = about.get("max_seq_length")
    return VectorRecipe(
        pooling=pooling,
        dense=tuple(dense),
        normalize="Normalize" in names or not modules,
        prompts=prompts,
        prompt=default,
        max_tokens=int(most) if most else None,
        lower=bool(about.get("do_lower_case")),
        matryoshka=trained if matryoshka is None else matryoshka,
        sizes=tuple(sorted({int(size) for size in sizes})),
    )


def _pooling(config: dict[str, Any], has_prompts: bool) -> tuple[str, ...]:
    if has_prompts and not config.get("include_prompt", True):
        raise ValueError("models that leave the prompt out of the vector are not served")
    if mode := config.get("pooling_mode"):
        found = tuple(mode) if isinstance(mode, list) else (str(mode),)
    else:
        found = tuple(name for key, name in _POOLINGS.items() if config.get(key)) or ("mean",)
    if unknown := set(found) - set(_POOLINGS.values()):
        raise ValueError(f"its pooling {', '.join(sorted(unknown))} is not known")
    return found


def _activation(config: dict[str, Any]) -> str:
    name = str(config.get("activation_function", "Tanh")).rpartition(".")[2]
    if name not in _ACTIVATIONS:
        raise ValueError(f"the activation function {name} of a dense layer is not known")
    return name


def _read_json_file(file: Path, missing: Any = None) -> Any:
    """Read a JSON file; if there is none, return `missing` or an empty object."""
    if not file.is_file():
        return {} if missing is None else missing
    try:
        return folder_files.read_json(file)
    except ValueError as error:
        raise ValueError(f"{file.name} is not JSON ({error})") from None


def load_dense_weights(layer: DenseLayer) -> dict[str, mx.array]:
    """Return a dense layer's `weight` (outputs, inputs) and, if it has one, its `bias`. Raise OrchardError."""
    file = layer.folder / "model.safetensors"
    try:
        found = mx.load(str(file))
        assert isinstance(found, dict)
        weights = {name.removeprefix("linear."): array for name, array in found.items()}
        return {"weight": weights["weight"]} | ({"bias": weights["bias"]} if "bias" in weights else {})
    except (OSError, RuntimeError, KeyError) as error:
        reason = f"the weights of its {layer.folder.name} are missing or broken ({error})"
        raise OrchardError("model_failed", f"the model in {layer.folder.parent} can't be loaded: {reason}") from error


def least_limit(*limits: int | None) -> int:
    """Return the smallest limit on tokens; None and implausibly large numbers are no limits."""
    return min((limit for limit in limits if limit and 0 < limit < _NO_LIMIT), default=_NO_LIMIT)
