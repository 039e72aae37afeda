"""Orchard: one local server for every model that runs on MLX."""

__version__ = "0.1.0"
