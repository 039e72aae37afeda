"""Texts that later requests of the same caller need again: what answers said, and what was heard in recordings."""

import itertools
import time
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from orchard.dialects.openai.chat.audio import SECONDS
from orchard.gateway.caller import Caller

MOST_BYTES = 64 * 2**20
_BYTES_EACH = 512
_CHAR_BYTES = 4


class _KeptText(Struct, frozen=True):
    text: str
    until: float

    @property
    def nbytes(self) -> int:
        return _BYTES_EACH + _CHAR_BYTES * len(self.text)


class KeptTexts:
    """The texts of one server by their names, for each key apart.

    If all take more than MOST_BYTES, the key with the most of them loses its oldest ones.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._texts: dict[str | None, dict[str, _KeptText]] = {}  # by keys' users, the oldest first
        self._bytes: Counter[str | None] = Counter()

    def keep(self, caller: Caller, name: str, text: str) -> None:
        """Keep a text of a caller for `SECONDS`, or until there is no more room for it."""
        self._drop_expired()
        user, kept = caller.user, _KeptText(text, self._clock() + SECONDS)
        self._drop(user, name)
        self._texts.setdefault(user, {})[name] = kept
        self._bytes[user] += kept.nbytes
        while self._bytes.total() > MOST_BYTES:
            largest = max(self._bytes, key=self._bytes.__getitem__)
            self._drop(largest, next(iter(self._texts[largest])))

    def find(self, caller: Caller, name: str) -> str | None:
        """Return a text that the same caller keeps; None if there is none, or no longer."""
        self._drop_expired()
        texts = self._texts.get(caller.user)
        return texts[name].text if texts and name in texts else None

    def _drop_expired(self) -> None:
        now = self._clock()
        for user, texts in list(self._texts.items()):
            for name in [name for name, _ in itertools.takewhile(lambda one: one[1].until < now, texts.items())]:
                self._drop(user, name)

    def _drop(self, user: str | None, name: str) -> None:
        texts = self._texts.get(user)
        if texts and (kept := texts.pop(name, None)):
            self._bytes[user] -= kept.nbytes
            if not texts:
                del self._texts[user], self._bytes[user]
