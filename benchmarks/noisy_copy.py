"""Makes a draft model from a model: a copy of its weights with noise, so that a share of its guesses is right."""

import shutil
from pathlib import Path

import mlx.core as mx

_NOISE = 0.05  # standard deviations of each array


def noisy_copy(path: str, folder: Path, noise: float = _NOISE) -> str:
    """Copy a model's folder with noise in its weights, the same each time; return the new folder.

    Of quantised weights, the scales and biases get it.
    """
    shutil.copytree(path, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    for number, file in enumerate(sorted(Path(path).glob("*.safetensors"))):
        mx.random.seed(number)
        weights = mx.load(str(file))
        assert isinstance(weights, dict)
        mx.save_safetensors(
            str(folder / file.name), {name: _noisy(weight, noise) for name, weight in sorted(weights.items())}
        )
    return str(folder)


def _noisy(weight: mx.array, noise: float) -> mx.array:
    if not mx.issubdtype(weight.dtype, mx.floating) or weight.size == 1:
        return weight
    spread = noise * mx.std(weight.astype(mx.float32))
    return (weight + spread * mx.random.normal(weight.shape)).astype(weight.dtype)
