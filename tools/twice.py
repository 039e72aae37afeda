"""Use batches twice, where processors make them more slowly than a GPU learns from them."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def twice(made: Iterable[T], between: int) -> Iterator[T]:
    """Yield each batch, and each a second time, once `between` others have been made since."""
    kept: deque[T] = deque()
    for batch in made:
        yield batch
        kept.append(batch)
        if len(kept) > between:
            yield kept.popleft()
