"""Memory that many callers share, each with a part that nobody can take from it."""

from msgspec import Struct

from orchard.core.errors import OrchardError


class Budget(Struct):
    """The bytes that are `left` for all, and `own` bytes more for each share. `what` is held, for the message."""

    left: int
    what: str
    own: int = 0


class Share:
    """The bytes that one caller holds."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._taken = 0

    def take(self, size: int) -> None:
        """Hold `size` bytes from now on, instead of those held before. Raise OrchardError("overloaded")."""
        more = max(0, size - self._budget.own) - self._taken
        if more > self._budget.left:
            message = f"too many bytes of {self._budget.what} are held already"
            raise OrchardError("overloaded", message, retry_after=1)
        self._budget.left -= more
        self._taken += more
