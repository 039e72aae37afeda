"""All checks: importing their files adds them to `CHECKS`, in the order in which they run."""

from orchard.cli.verify import right, safe, fast  # isort: skip
from orchard.cli.verify.fast import SPEED_TOKENS
from orchard.cli.verify.proof import CHECKS
from orchard.cli.verify.right import CALLERS

__all__ = ["CALLERS", "CHECKS", "SPEED_TOKENS", "fast", "right", "safe"]
