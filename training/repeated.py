"""Use batches several times, because processors make them more slowly than a GPU trains on them."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def repeated(made: Iterable[T], times: int, between: int) -> Iterator[T]:
    """Yield each batch so many times; between two of these come `between` new batches, and older ones again."""
    waiting: list[deque[T]] = [deque() for _ in range(times - 1)]
    for batch in made:
        yield batch
        for queue in waiting:
            queue.append(batch)
            if len(queue) <= between:
                break
            batch = queue.popleft()  # noqa: PLW2901 - it is this one's turn, and it goes on to the next queue
            yield batch
