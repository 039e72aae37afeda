"""`orchard logs`: the last lines of a server's log."""

import time
from datetime import datetime

from orchard.cli.server.client import LogRecord, ServerClient
from orchard.cli.settings.values import printable_text

_LOOK_SECONDS = 1.0
_MOST_LINES = 1000  # that a server gives at once


def print_logs(url: str | None, api_key: str | None, *, lines: int, level: str, follow: bool) -> None:
    """Print the last lines that have at least a level; with `follow`, also those that come later, until Ctrl-C."""
    with ServerClient(url, api_key) as server:
        page = server.logs(level, lines)
        last = _print_lines(page.data)
        while follow:
            if not page.has_more:
                time.sleep(_LOOK_SECONDS)
            page = server.logs(level, _MOST_LINES, last)
            last = _print_lines(page.data) or last


def _print_lines(lines: list[LogRecord]) -> int | None:
    """Print lines of the log, and return the id of the last one; None if there is none."""
    for line in lines:
        at = datetime.fromtimestamp(line.time).astimezone()
        text = f"{at:%Y-%m-%d %H:%M:%S} {line.level.upper():<8} {line.logger} {line.text}"
        print(printable_text(text), flush=True)
    return lines[-1].id if lines else None
