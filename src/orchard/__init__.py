"""Orchard: one local server for every model that runs on MLX."""

from importlib.metadata import version

__version__ = version("mlx-orchard")
