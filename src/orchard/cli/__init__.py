"""The command `orchard`. It starts the gateway and never imports MLX."""

from orchard.cli.app import main

__all__ = ["main"]
