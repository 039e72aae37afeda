"""Reports on what the prefix cache had of the last requests' prompts."""

import json
import logging
from typing import Any

from msgspec.structs import replace

from orchard.backends.text.output import Vocabulary
from orchard.core.cache_report import CacheReport
from orchard.engine.batching.job import JobStart
from orchard.engine.prefix_cache.values import is_medium

log = logging.getLogger("orchard.worker")

MOST_REPORTS = 256


class CacheReports:
    """The reports on the last `MOST_REPORTS` requests, oldest first."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._reports: dict[str, CacheReport] = {}

    def add(self, begun: JobStart, prompt_tokens: int) -> None:
        """Add the report on a job that the engine has begun."""
        counts = f"{begun.cached_tokens} of {prompt_tokens} tokens were cached"
        report = CacheReport(begun.job, prompt_tokens, begun.cached_tokens, counts)
        if miss := begun.miss:
            length = miss.place - miss.begin
            parts = miss.given[:length], miss.cached[length:], miss.given[length:]
            before, cached, given = map(self._decode, parts)
            medium = f"goes on with {'another' if miss.medium else 'a'} medium"
            cached_continuation = medium if any(map(is_medium, miss.cached[length:][:1])) else _continuation(cached)
            own_continuation = f"goes on with medium {miss.medium}" if miss.medium else _continuation(given)
            parting = f"the closest cached text {cached_continuation}, this prompt {own_continuation}"
            differs = f"token {miss.place} of {prompt_tokens}: {parting}"
            if not miss.cached:
                differs = "no cached text begins like this prompt"
            summary = f"{counts}; {differs}"
            details: dict[str, Any] = {"parted_at": miss.place, "medium": miss.medium}
            report = replace(report, summary=summary, before=before, cached=cached, given=given, **details)
        self._reports[begun.job] = report
        if len(self._reports) > MOST_REPORTS:
            del self._reports[next(iter(self._reports))]
        log.debug("%s: %s", begun.job, report.summary)

    def find(self, request_id: str | None) -> list[CacheReport]:
        """Return the report on one request, if there is one; all reports for None."""
        if request_id is None:
            return list(self._reports.values())
        return [self._reports[request_id]] if request_id in self._reports else []

    def _decode(self, tokens: list[int]) -> str:
        """Return the text of tokens, without media."""
        return self._vocabulary.decode([token for token in tokens if not is_medium(token)])


def _continuation(text: str) -> str:
    return f"goes on {json.dumps(text, ensure_ascii=False)}" if text else "ends there"
