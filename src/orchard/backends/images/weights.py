"""Reads with MLX the weights that mflux reads through PyTorch: the environment for images has no PyTorch."""

import pkgutil
from pathlib import Path

import mlx.core as mx

_LOADER = "mflux.models.common.weights.loading.weight_loader:WeightLoader"

Weights = dict[str, mx.array]


def read_without_torch() -> None:
    """Replace those of mflux's readers that import PyTorch for files that MLX can read."""
    loader = pkgutil.resolve_name(_LOADER)

    def convert(path: Path, weight_files: list[str] | None = None) -> Weights:
        return _to_float16(loader._load_mlx_native(path, weight_files))

    def bfloat16(path: Path) -> Weights:
        return _to_float16(loader._load_multi_json(path))

    loader._load_torch_convert = staticmethod(convert)
    loader._load_torch_bfloat16 = staticmethod(bfloat16)


def _to_float16(weights: Weights) -> Weights:
    """Return weights as PyTorch hands them over: NumPy knows no bfloat16, so that mflux takes float16 for it."""
    return {name: array.astype(mx.float16) if array.dtype == mx.bfloat16 else array for name, array in weights.items()}
