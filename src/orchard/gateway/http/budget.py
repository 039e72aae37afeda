"""Limits on memory that many callers share, each with a reserved part."""

from orchard.core.errors import OrchardError


class Budget:
    """At most `most` bytes for all shares together, and `own` more for each one. `what` names them in errors."""

    def __init__(self, most: int, what: str, own: int = 0) -> None:
        self.most = self.left = most
        self.what = what
        self.own = own


class Share:
    """The bytes that one caller holds."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._taken = 0

    def take(self, size: int, param: str | None = None) -> None:
        """Change the number of bytes that this share holds to `size`; `param` is the field to blame.

        Raise OrchardError: overloaded, or payload_too_large if `size` exceeds the limit even without other shares.
        """
        wanted = max(0, size - self._budget.own)
        if wanted > self._budget.most:
            message = f"{size} bytes of {self._budget.what} exceed the limit of {self._budget.most} bytes for all"
            raise OrchardError("payload_too_large", message, param=param)
        more = wanted - self._taken
        if more > self._budget.left:
            message = f"too many bytes of {self._budget.what} are held already"
            raise OrchardError("overloaded", message, param=param, retry_after=1)
        self._budget.left -= more
        self._taken += more
