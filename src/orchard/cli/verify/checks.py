"""All checks: importing their files adds them to `CHECKS`, in the order in which they run."""

# isort: off
from orchard.cli.verify import right, other_kinds, safe, fast

# isort: on
from orchard.cli.verify.fast import SPEED_TOKENS
from orchard.cli.verify.proof import CHECKS
from orchard.cli.verify.right import CALLERS

__all__ = ["CALLERS", "CHECKS", "SPEED_TOKENS", "fast", "other_kinds", "right", "safe"]
