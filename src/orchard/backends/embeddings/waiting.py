"""Queues the texts of all requests, and chooses texts of similar length for the next pass."""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from orchard.core.fair_queue import FairQueue
from orchard.core.request import Request

# How much the lengths of texts that share a pass may differ: in tokens, and as a ratio.
_LONGER, _SHORTER = 16, 8
_RATIO = 0.8


class TextPlace(NamedTuple):
    """The text with this number in a request."""

    request_id: str
    number: int


class _WaitingTexts:
    """The waiting texts of a request; `order`: their numbers, the longest last."""

    def __init__(self, request: Request, lengths: dict[int, int]) -> None:
        self.request = request
        self.lengths = lengths
        self.order = sorted(lengths, key=lengths.__getitem__)

    def longest(self) -> int:
        while self.order[-1] not in self.lengths:
            self.order.pop()
        return self.order[-1]


class TextQueue:
    """The texts of requests, by length. Requests take turns in choosing the next pass's length, see `FairQueue`."""

    def __init__(self) -> None:
        self._active: dict[str, _WaitingTexts] = {}
        self._paused: dict[str, _WaitingTexts] = {}
        self._turns: FairQueue[_WaitingTexts] = FairQueue()
        self._places: dict[int, deque[tuple[_WaitingTexts, TextPlace]]] = {}
        self._lengths: list[int] = []  # the keys of `_places`, sorted

    def __bool__(self) -> bool:
        """Return whether a text waits and is not paused."""
        return bool(self._active)

    def add(self, request: Request, lengths: Sequence[int]) -> None:
        """Add a request's texts, at least one; `lengths`: their numbers of tokens."""
        self._enter(_WaitingTexts(request, dict(enumerate(lengths))))

    def drop(self, request_id: str) -> None:
        """Forget the waiting texts of a request. Unknown ids are ignored."""
        self._leave(request_id)
        self._paused.pop(request_id, None)
        self._tidy()

    def pause(self, request_id: str) -> None:
        """Take no more texts of a request until it is resumed. Unknown ids are ignored."""
        if asked := self._leave(request_id):
            self._paused[request_id] = asked

    def resume(self, request_id: str) -> None:
        """Take a request's texts again. Unknown ids are ignored."""
        if asked := self._paused.pop(request_id, None):
            self._enter(_WaitingTexts(asked.request, asked.lengths))

    def take(self, fits: Callable[[int, int], bool]) -> list[TextPlace]:
        """Take texts of similar length for a pass; the first is the longest text of the request whose turn it is.

        At least one text must wait. `fits(rows, length)` returns whether a pass may have `rows` texts, padded to
        `length`; a single text is always taken.
        """
        asked = next(iter(self._turns))
        request_id = asked.request.id
        self._turns.charge(request_id, 1)
        first = asked.longest()
        length = asked.lengths[first]
        taken = [self._take_text(asked, TextPlace(request_id, first))]
        # Longer texts may only join if they leave room for the first text.
        longest = self._longest_near(length)
        if not fits(2, longest):
            longest = length
        at = bisect_right(self._lengths, longest)
        while at and self._lengths[at - 1] >= longest * _RATIO - _SHORTER:
            at -= 1
            places = self._places[self._lengths[at]]
            while places and fits(len(taken) + 1, longest):
                owner, place = places.popleft()
                if self._waits(owner, place):
                    taken.append(self._take_text(owner, place))
            if places:
                break
            del self._places[self._lengths.pop(at)]
        self._tidy()
        return taken

    def _enter(self, asked: _WaitingTexts) -> None:
        request = asked.request
        self._active[request.id] = asked
        self._turns.add(request.id, asked, request.priority, request.sender)
        for number in asked.order:
            length = asked.lengths[number]
            if length not in self._places:
                self._places[length] = deque()
                insort(self._lengths, length)
            self._places[length].append((asked, TextPlace(request.id, number)))

    def _leave(self, request_id: str) -> _WaitingTexts | None:
        self._turns.remove(request_id)
        return self._active.pop(request_id, None)

    def _longest_near(self, length: int) -> int:
        """Return the length of the longest waiting text that isn't much longer than `length`, or `length`."""
        at = bisect_right(self._lengths, max(length / _RATIO, length + _LONGER))
        while at and self._lengths[at - 1] > length:
            at -= 1
            places = self._places[self._lengths[at]]
            while places and not self._waits(*places[0]):
                places.popleft()
            if places:
                return self._lengths[at]
            del self._places[self._lengths.pop(at)]
        return length

    def _waits(self, owner: _WaitingTexts, place: TextPlace) -> bool:
        return self._active.get(place.request_id) is owner and place.number in owner.lengths

    def _take_text(self, owner: _WaitingTexts, place: TextPlace) -> TextPlace:
        del owner.lengths[place.number]
        if not owner.lengths:
            self._leave(place.request_id)
        return place

    def _tidy(self) -> None:
        """Forget the places of dropped texts, once no text waits."""
        if not self._active:
            self._places.clear()
            self._lengths.clear()
