"""What the runners of all ranks share."""

from collections.abc import Callable
from typing import TypeVar

from orchard.engine.ranks.shared_store import SharedStore
from orchard.engine.runner import Runner

T = TypeVar("T")


class SharedRunner(Runner):
    """A runner of one rank. If memory runs out on a rank, it alone would begin again: so the whole group ends."""

    store: SharedStore

    def _survive(self, act: Callable[[], T]) -> T | None:
        return act()
