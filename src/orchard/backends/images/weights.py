"""Reads with MLX the weights that mflux reads through PyTorch: the environment for images has no PyTorch."""

import pkgutil
from pathlib import Path

import mlx.core as mx

_LOADER = "mflux.models.common.weights.loading.weight_loader:WeightLoader"

Weights = dict[str, mx.array]


def read_without_torch() -> None:
    """Replace mflux's readers that import PyTorch, because MLX can read their files."""
    loader = pkgutil.resolve_name(_LOADER)

    def convert(path: Path, weight_files: list[str] | None = None) -> Weights:
        return _to_float16(loader._load_mlx_native(path, weight_files))

    def bfloat16(path: Path) -> Weights:
        return _to_float16(loader._load_multi_json(path))

    loader._load_torch_convert = staticmethod(convert)
    loader._load_torch_bfloat16 = staticmethod(bfloat16)


def _to_float16(weights: Weights) -> Weights:
    """Return weights as PyTorch does for mflux: bfloat16 becomes float16, because NumPy has no bfloat16."""
    return {name: array.astype(mx.float16) if array.dtype == mx.bfloat16 else array for name, array in weights.items()}
