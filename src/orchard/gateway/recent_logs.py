"""The last lines of the log, of this process and of its workers, for GET /v1/logs.

They have no tracebacks and nothing of the level `debug`, because those may show text of requests.
"""

import itertools
import logging
import re
import time
from collections import deque
from threading import Lock

from msgspec import Struct

_MOST_LINES = 2000
_MOST_CHARS = 1000
_WORKER_LINE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?P<level>[A-Z]+) +(?P<logger>worker(?:\[.*?\])?) (?P<text>.*)"
)


_LEVELS = logging.getLevelNamesMapping()


class LogLine(Struct, frozen=True):
    """A line of the log; `time` is in seconds since the epoch. Later lines have larger ids, also after a restart."""

    id: int
    time: float
    level: str
    logger: str
    text: str


class RecentLogs(logging.Handler):
    """Keeps the last lines. It is thread-safe."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[LogLine] = deque(maxlen=_MOST_LINES)
        self._ids = itertools.count(time.time_ns() // 1000)
        self._changing = Lock()

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line of this process."""
        try:
            self._add(record.created, record.levelname, record.name, record.getMessage())
        except Exception:
            self.handleError(record)

    def add_worker_line(self, line: str) -> None:
        """Add a line that a worker has logged. Others, such as those of tracebacks and of libraries, are left out."""
        if (found := _WORKER_LINE.fullmatch(line)) and _LEVELS.get(found["level"], 0) >= self.level:
            self._add(time.time(), found["level"], found["logger"], found["text"])

    def _add(self, now: float, level: str, logger: str, text: str) -> None:
        with self._changing:
            self._lines.append(LogLine(next(self._ids), now, level.lower(), logger, text[:_MOST_CHARS]))

    def page(self, after: int | None, limit: int, level: str) -> tuple[list[LogLine], bool]:
        """Return the first lines after that of id `after`, or the last ones, and whether newer ones follow.

        Only those that are at least of this level.
        """
        with self._changing:
            lines = list(self._lines)
        wanted = [line for line in lines if _LEVELS.get(line.level.upper(), 0) >= _LEVELS[level.upper()]]
        if after is None:
            return wanted[-limit:], False
        newer = [line for line in wanted if line.id > after]
        return newer[:limit], len(newer) > limit


RECENT = RecentLogs()
