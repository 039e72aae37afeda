"""A session's conversation."""

from collections.abc import Sequence

from orchard.core.errors import OrchardError
from orchard.dialects.common.json_body import invalid_field
from orchard.dialects.openai.realtime.items import RealtimeItem

MAX_ITEMS = 4096
_MOST_PARTS = 16_384  # of all items together: each answer reads them all
ROOT = "root"
"""A client names this as the item before the first one."""


class RealtimeConversation:
    """The items in order, by id."""

    def __init__(self) -> None:
        self.items: list[RealtimeItem] = []

    @property
    def nbytes(self) -> int:
        """Roughly how much memory the items take."""
        return sum(item.nbytes for item in self.items)

    @property
    def call_ids(self) -> set[str]:
        """The ids of all function calls."""
        return {item.call_id for item in self.items if item.type == "function_call"}

    def find(self, id_: str, param: str = "item_id") -> RealtimeItem:
        """Return an item. Raise OrchardError("item_not_found")."""
        for item in self.items:
            if item.id == id_:
                return item
        raise OrchardError("item_not_found", f"there is no item '{id_}' in the conversation", param=param)

    def add(self, item: RealtimeItem, after: str | None = None) -> str | None:
        """Add an item after another, at the beginning (`ROOT`) or at the end; return the id of the one before it.

        Raise OrchardError if there is no such item, another has its id, or there are too many.
        """
        if any(known.id == item.id for known in self.items):
            raise invalid_field("item.id", f"must be new: the conversation has an item '{item.id}'.")
        if len(self.items) >= MAX_ITEMS:
            message = f"the conversation has {MAX_ITEMS} items, which is the limit: delete some"
            raise OrchardError("overloaded", message)
        if sum(len(known.content) for known in self.items) + len(item.content) > _MOST_PARTS:
            message = f"the items of a conversation have {_MOST_PARTS} parts of content at most: delete some items"
            raise OrchardError("overloaded", message)
        place = len(self.items) if after is None else 0
        if after not in (None, ROOT):
            place = self.items.index(self.find(after or "", "previous_item_id")) + 1
        item.measure()
        self.items.insert(place, item)
        return self.items[place - 1].id if place else None

    def delete(self, id_: str) -> None:
        """Delete an item. Raise OrchardError("item_not_found")."""
        self.items.remove(self.find(id_))

    def truncate(self, id_: str, content_index: int, end_ms: int) -> None:
        """Shorten an answer's audio, and its transcript to what was heard. Raise OrchardError."""
        item = self.find(id_)
        if item.role != "assistant" or item.status == "in_progress":
            raise invalid_field("item_id", "must be that of an answer that has ended, or was cancelled.")
        if content_index >= len(item.content) or item.content[content_index].type != "output_audio":
            raise invalid_field("content_index", "must be that of audio in the answer.")
        length = item.heard[-1][1] if item.heard else 0.0
        if end_ms > length:
            raise invalid_field("audio_end_ms", f"must be at most {int(length)}: the audio is not longer.")
        part = item.content[content_index]
        cut = _find_cut(item.heard, part.transcript or "", end_ms)
        part.transcript = (part.transcript or "")[:cut]
        item.heard = [*((at, ms) for at, ms in item.heard if ms < end_ms), (cut, end_ms)]


def _find_cut(heard: Sequence[tuple[int, float]], text: str, end_ms: float) -> int:
    """Return how much of a text is heard: whole clauses, and of the last one as many words as its time allows.

    `heard`: where each clause ends in the text, and in milliseconds of the audio.
    """
    begin, begin_ms = 0, 0.0
    for at, ms in heard:
        if ms > end_ms:
            cut = begin + int((at - begin) * (end_ms - begin_ms) / (ms - begin_ms))
            return max(begin, text.rfind(" ", begin, cut + 1))
        begin, begin_ms = at, ms
    return begin
