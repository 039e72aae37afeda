"""A cache of results with a limited size."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class SizedResult(Protocol):
    """Something whose size is known."""

    @property
    def bytes(self) -> int:
        """Its size in bytes."""


S = TypeVar("S", bound=SizedResult)


class BoundedCache(Generic[S]):
    """A cache of the most recently used results, of at most `most_bytes`. Only one thread may use it."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._results: OrderedDict[Hashable, S] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], S]) -> S:
        """Return the result for a key, from the cache or made now."""
        if (known := self._results.get(key)) is not None:
            self._results.move_to_end(key)
            return known
        made = make()
        if (nested := self._results.pop(key, None)) is not None:  # `make` has used this cache, too
            self._bytes -= nested.bytes
        self._results[key] = made
        self._bytes += made.bytes
        while self._bytes > self._most_bytes:
            self._bytes -= self._results.popitem(last=False)[1].bytes
        return made

    def clear(self) -> None:
        """Forget all results."""
        self._results.clear()
        self._bytes = 0
