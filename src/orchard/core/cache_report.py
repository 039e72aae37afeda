"""A worker's report on its prompt cache."""

from msgspec import Struct, field
from msgspec.structs import replace


class CacheReport(Struct, frozen=True):
    """How much of one request's prompt was cached, and where it first differs from the most similar cached text.

    `parted_at` is the number, from 0, of the first token that differs; None: no token does, or nothing was compared.
    `medium` is the number, from 1, of the prompt's medium at that place; None: there is text at that place.
    `before` is the text before that place; `cached` and `given` are the text after it in the cache and in the prompt.
    `summary` is a sentence with all of this.
    """

    request_id: str
    prompt_tokens: int
    cached_tokens: int
    summary: str
    parted_at: int | None = None
    medium: int | None = None
    before: str = ""
    cached: str = ""
    given: str = ""

    def without_cached_text(self) -> "CacheReport":
        """Return the report for a caller who may read only the prompt: the cached text may be another user's."""
        return replace(self, cached="", summary=self.summary.partition(";")[0])


class CacheState(Struct, frozen=True):
    """The engine's counters (entries, bytes, budget, hits, ...), and its last reports, oldest first."""

    counters: dict[str, int] = field(default_factory=dict)
    reports: list[CacheReport] = field(default_factory=list)
