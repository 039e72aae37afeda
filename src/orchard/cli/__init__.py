"""The command `orchard`: the gateway is started from here; MLX is never imported here."""

from orchard.cli.app import main

__all__ = ["main"]
