"""All checks: importing their files adds them to `CHECKS`, in the order in which they run.

The leak's requests take longer than the speeds, so they come last.
"""

# isort: off
from orchard.cli.verify import right, other_kinds, safe, fast, memory

# isort: on
from orchard.cli.verify.fast import SPEED_TOKENS
from orchard.cli.verify.proof import CHECKS
from orchard.cli.verify.right import CALLERS

__all__ = ["CALLERS", "CHECKS", "SPEED_TOKENS", "fast", "memory", "other_kinds", "right", "safe"]
