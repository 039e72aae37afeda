"""Reports on how the prompt cache served the last requests."""

import json
import logging

from msgspec.structs import replace

from orchard.core.cache_report import CacheReport
from orchard.engine.batching.job import Begun
from orchard.worker.output import Vocabulary

log = logging.getLogger("orchard.worker")

KEPT = 256


class CacheReports:
    """The reports on the last `KEPT` requests, oldest first."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._reports: dict[str, CacheReport] = {}

    def add(self, begun: Begun, prompt_tokens: int) -> None:
        """Add the report on a job that the engine has begun."""
        known = f"{begun.cached_tokens} of {prompt_tokens} tokens were cached"
        report = CacheReport(begun.job, prompt_tokens, begun.cached_tokens, known)
        if miss := begun.miss:
            length = miss.place - miss.begin
            before = self._vocabulary.decode(miss.given[:length])
            cached, given = (self._vocabulary.decode(tokens[length:]) for tokens in (miss.cached, miss.given))
            place = f"token {miss.place} of {prompt_tokens}"
            differs = f"{place}: the closest cached text {_goes_on(cached)}, this prompt {_goes_on(given)}"
            if not miss.place and not cached:
                differs = "no cached text begins like this prompt"
            summary = f"{known}; {differs}"
            report = replace(report, summary=summary, parted_at=miss.place, before=before, cached=cached, given=given)
        self._reports[begun.job] = report
        if len(self._reports) > KEPT:
            del self._reports[next(iter(self._reports))]
        log.debug("%s: %s", begun.job, report.summary)

    def find(self, request_id: str | None) -> list[CacheReport]:
        """Return the report on one request, if there is one; None: all."""
        if request_id is None:
            return list(self._reports.values())
        return [self._reports[request_id]] if request_id in self._reports else []


def _goes_on(text: str) -> str:
    return f"goes on {json.dumps(text, ensure_ascii=False)}" if text else "ends there"
