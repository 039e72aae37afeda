"""Memory that many callers share, each with a part that nobody can take from it."""

from orchard.core.errors import OrchardError


class Budget:
    """So many bytes for all, and `own` bytes more for each share. `what` is held, for the message."""

    def __init__(self, left: int, what: str, *, own: int = 0) -> None:
        self.left = left
        self.what = what
        self.own = own


class Share:
    """What one caller holds of it."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._taken = 0

    def take(self, size: int) -> None:
        """Hold `size` bytes from now on, whatever was held before. Raises OrchardError("overloaded")."""
        more = max(0, size - self._budget.own) - self._taken
        if more > self._budget.left:
            message = f"too many bytes of {self._budget.what} are held already"
            raise OrchardError("overloaded", message, retry_after=1)
        self._budget.left -= more
        self._taken += more
