"""Model output formats: how reasoning, text and tool calls are told apart in what a model writes.

`choose` finds a model's family: rows of `registry`, made of the syntaxes in `families`.
"""

from orchard.formats.format import Format, Piece
from orchard.formats.registry import Family, choose

__all__ = ["Family", "Format", "Piece", "choose"]
