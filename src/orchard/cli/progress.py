"""The last line of the terminal while `orchard serve` loads models, or fetches them."""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from orchard.gateway.model_status import ModelStatus

_BAR_COLUMNS = 24


class ProgressLine:
    """One line that shows what each requested model waits for, with bars for loads; each call draws it again.

    The cursor stays at its beginning, so that text of other processes replaces it. Our own log lines erase it first.
    """

    def __init__(self, console: Callable[[], "Console"]) -> None:
        """`console` is called when there is something to show, because rich takes long to import."""
        self._console = console
        self._shown: Console | None = None
        self._drawn = False

    @classmethod
    def of_terminal(cls) -> "ProgressLine | None":
        """Return one for stderr, where the log goes; None if that can't show it."""
        dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
        return cls(_stderr) if sys.stderr.isatty() and not dumb else None

    def show(self, models: Mapping[str, "ModelStatus"]) -> None:
        """Draw the line, or erase it if nothing is under way any more."""
        under_way = {name: now for name, now in models.items() if now.note}
        with suppress(OSError):  # the terminal may be gone; the server stays
            if under_way:
                self._draw(under_way)
            else:
                self._erase()

    def _draw(self, models: Mapping[str, "ModelStatus"]) -> None:
        from rich.control import Control
        from rich.progress_bar import ProgressBar
        from rich.segment import ControlType, Segments
        from rich.table import Table

        if self._shown is None:
            self._shown = self._console()
            for handler in logging.getLogger().handlers:
                handler.addFilter(self._before_log)
        console = self._shown
        cells: list[RenderableType] = []
        for name, now in models.items():
            cells.append(f"{name}: {now.note}")
            if now.progress is not None:
                cells.append(ProgressBar(1.0, now.progress, width=max(1, _BAR_COLUMNS // len(models))))
        line = Table.grid(padding=(0, 1))
        for _ in cells:
            line.add_column(no_wrap=True, overflow="ellipsis")
        line.add_row(*cells)
        # A line of the terminal's whole width would take the cursor to the next.
        options = console.options.update(width=console.width - 1)
        with console:  # one write
            self._erase()
            console.print(Segments(console.render_lines(line, options, pad=False)[0]), end="")
            console.control(Control(ControlType.CARRIAGE_RETURN))
        self._drawn = True

    def _erase(self) -> None:
        if self._shown and self._drawn:
            from rich.control import Control
            from rich.segment import ControlType

            self._drawn = False
            self._shown.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))

    def _before_log(self, _: logging.LogRecord) -> bool:
        with suppress(OSError):
            self._erase()
        return True


def _stderr() -> "Console":
    from rich.console import Console

    return Console(stderr=True)
