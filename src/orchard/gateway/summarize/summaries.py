"""Summaries: made piece by piece, cached by the messages that they replace, and shared by concurrent requests."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import Generate, Message
from orchard.gateway.summarize.internal_request import InternalRequest, unless_too_long
from orchard.gateway.summarize.messages import ReadPosition, cut_piece, summary_task

_MOST_KEPT = 512
_MOST_PIECES = 32  # longer conversations are not summarised
_MOST_COUNTS = 8  # the most counts for one piece, each for a shorter one
_CHARS_PER_TOKEN = 3.0  # lower than in prose; the first count corrects it
_LEAST_CHARS = 64
_SPARE = 0.9  # shorten a piece that was too long a bit more than computed, so that the next count is the last one


class MadeSummary(Struct, frozen=True):
    """A summary, and the tokens that were used to make it now."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Room(Struct, frozen=True):
    """In tokens: the most of prompt and answer of one request together, and the most of these for a summary."""

    window: int
    summary: int


class Summaries:
    """The most recently used summaries, and those that are being made."""

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, str] = OrderedDict()
        self._work: dict[bytes, asyncio.Future[MadeSummary]] = {}
        self._waiters: Counter[bytes] = Counter()

    def put(self, key: bytes, text: str) -> None:
        """Keep a summary; if there are too many, drop the least recently used one."""
        self._kept[key] = text
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def longest(self, keys: Sequence[bytes], allowed: Callable[[int], bool]) -> tuple[int, str]:
        """Return the highest allowed number of messages with a summary, and the summary; (0, "") if there is none.

        `keys[n]` is the key of the summary of the first n messages.
        """
        for count in range(len(keys) - 1, 0, -1):
            if keys[count] in self._kept and allowed(count):
                self._kept.move_to_end(keys[count])
                return count, self._kept[keys[count]]
        return 0, ""

    async def make_once(self, key: bytes, make: Callable[[], Awaitable[MadeSummary]]) -> MadeSummary:
        """Return a summary, made by one call of `make` for all concurrent callers; only the first one has used tokens.

        Raise the errors of `make`, which is cancelled once nobody waits any more.
        """
        shared = key in self._work
        if not shared:
            self._work[key] = asyncio.ensure_future(make())
        work = self._work[key]
        self._waiters[key] += 1
        try:
            made = await asyncio.shield(work)
        finally:
            self._waiters[key] -= 1
            if not self._waiters[key]:
                del self._waiters[key], self._work[key]
                work.cancel()
        return MadeSummary(made.text) if shared else made


class Maker:
    """Makes the summary of a conversation piece by piece: each time from the summary so far and the next piece."""

    def __init__(
        self,
        inquiry: InternalRequest,
        summaries: Summaries,
        transcript: Sequence[str],
        keys: Sequence[bytes],
        *,
        guided_by: Sequence[Message] = (),
    ) -> None:
        """`guided_by` are system messages that the model follows when it summarises."""
        self._guided_by = guided_by
        self._inquiry = inquiry
        self._summaries = summaries
        self._transcript = transcript
        self._keys = keys
        self._chars_per_token = _CHARS_PER_TOKEN
        self.spent = (0, 0)
        """The tokens of prompts and of answers that were used."""

    async def make(self, room: Room) -> MadeSummary:
        """Return the summary. Continue from the longest existing part. Raise OrchardError if it fails."""
        done, text = self._summaries.longest(self._keys, lambda _: True)
        place = ReadPosition(done)
        for _ in range(_MOST_PIECES):
            if place.message == len(self._transcript):
                return MadeSummary(text, *self.spent)
            transcript, end = await self._next_piece(place, text, room)
            try:
                answer = await self._inquiry.answer(self._task(transcript, text, room))
            except OrchardError as error:
                if error.kind != "context_length_exceeded":
                    raise
                room = Room(room.window // 2, room.summary)  # the memory is smaller than the window
                continue
            usage = answer.usage
            self.spent = self.spent[0] + usage.prompt_tokens, self.spent[1] + usage.completion_tokens
            place, text = end, answer.choices[0].text.strip()
            if not text:
                raise _summary_error("the model's summary of the earlier messages is empty")
            if not place.char:
                self._summaries.put(self._keys[place.message], text)
        raise _summary_error(f"the earlier messages were not summarised in {_MOST_PIECES} pieces")

    async def _next_piece(self, place: ReadPosition, earlier: str, room: Room) -> tuple[str, ReadPosition]:
        """Return the longest piece that fits, or one not much shorter, and the position at its end."""
        most = room.window - room.summary
        chars = int(most * self._chars_per_token)
        for _ in range(_MOST_COUNTS):
            if chars < _LEAST_CHARS:
                break
            transcript, end = cut_piece(self._transcript, place, chars)
            tokens = await unless_too_long(self._inquiry.count(self._task(transcript, earlier, room)))
            if tokens is not None and tokens <= most:
                if tokens > most // 2:  # a short piece says little about the ratio
                    self._chars_per_token = len(transcript) / tokens
                return transcript, end
            chars = int(min(chars, len(transcript)) * _SPARE * (most / tokens if tokens else 0.25))
        raise _summary_error("the earlier messages can't be summarised in the context window")

    def _task(self, transcript: str, earlier: str, room: Room) -> Generate:
        return summary_task(transcript, earlier, room.summary, self._guided_by)


def _summary_error(message: str) -> OrchardError:
    return OrchardError("context_length_exceeded", message)
