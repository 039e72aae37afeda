"""Where MLX keeps the kernels that it compiles for CUDA."""

import os
import re
from contextlib import suppress
from importlib.metadata import version

import mlx.core as mx

from orchard.core.cache_folder import cache_folder

_VARIABLE = "MLX_PTX_CACHE_DIR"


def keep_kernels() -> None:
    """Let MLX keep CUDA kernels in Orchard's cache folder, unless the user has set another; MLX's is a temporary one.

    MLX reads the variable when it compiles or loads its first kernel. The names of its files say neither its version
    nor the device, so the folder's name does.
    """
    if mx.cuda.is_available() and _VARIABLE not in os.environ:
        device = re.sub(r"\W+", "-", str(mx.device_info().get("device_name", "gpu")))
        with suppress(RuntimeError):  # there is no home
            os.environ[_VARIABLE] = str(cache_folder() / "kernels" / f"mlx-{version('mlx')}-{device}")
