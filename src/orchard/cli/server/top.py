"""`orchard top`: what a server does now, once a second."""

import sys
import time
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchard.cli.server.client import ListedRequest, MemorySizes, ServerClient, ServerStats
from orchard.cli.server.models import duration, model_rows
from orchard.cli.settings.values import printable_text

_LOOK_SECONDS = 1.0
_BAR_COLUMNS = 20
_PREFIXES = ("/openai/deployments/{deployment}", "/openai", "/anthropic", "/v1", "/v2", "/")


def show_server(url: str | None, api_key: str | None) -> None:
    """Show a server's models and requests until Ctrl-C; only once if stdout is no terminal."""
    console = Console(highlight=False)
    with ServerClient(url, api_key) as server:

        def look() -> RenderableType:
            return picture(server.url, server.stats(), server.requests())

        if not sys.stdout.isatty():
            console.print(look())
            return
        with Live(look(), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(_LOOK_SECONDS)
                live.update(look(), refresh=True)


def picture(url: str, stats: ServerStats, requests: Sequence[ListedRequest]) -> RenderableType:
    """Return what is shown of a server."""
    head = f"Orchard {stats.version} at {url}, up {duration(stats.uptime_seconds)}"
    counts = f"{stats.tokens_per_second:.1f} tokens/s, {stats.running} running, {stats.waiting} waiting"
    return Group(
        Text(printable_text(head), style="bold", overflow="ellipsis", no_wrap=True),
        Text(counts, no_wrap=True),
        _memory_line(stats.memory),
        Text(),
        _models_table(stats),
        Text(),
        _requests_table(requests),
    )


def _memory_line(memory: MemorySizes) -> RenderableType:
    """Return what the models take of what they may take."""
    used, limit = memory.mlx_bytes or 0, memory.limit_bytes
    if limit is None:
        return Text("memory: no model has been loaded yet")
    line = Table.grid(padding=(0, 1))
    # Their libraries may hold more for a moment.
    bar = ProgressBar(limit, min(used, limit), width=_BAR_COLUMNS)
    line.add_row(Text(f"memory {decimal(used)} of {decimal(limit)}"), bar)
    return line


def _models_table(stats: ServerStats) -> Table:
    table = _table("MODEL", "SIZE", "TOKENS/S", "FIRST", "CACHED", "UNTIL")
    for row in model_rows(stats):
        model = stats.models[row.name]
        first, share = model.first_token_ms.median, model.cached_share
        table.add_row(
            Text(row.name),
            Text(decimal(row.size_bytes)),
            Text(f"{model.tokens_per_second:.1f}"),
            Text("" if first is None else f"{first:.0f} ms"),
            Text("" if share is None else f"{share:.0%}"),
            Text(row.until),
        )
        for name, size, state in row.ranks:
            table.add_row(Text(name), Text(decimal(size)), "", "", "", Text(state))
    return table


def _requests_table(requests: Sequence[ListedRequest]) -> Table:
    table = _table("REQUEST", "MODEL", "STATE", "PROMPT", "CACHED", "TOKENS", "/S", "AGE")
    for request in requests:
        prompt, speed = request.prompt_tokens, request.tokens_per_second
        share = f"{(request.read_tokens or 0) / prompt:.0%} of " if prompt and request.state == "prefill" else ""
        table.add_row(
            Text(printable_text(_short_path(request.dialect))),
            Text(printable_text(request.model.rpartition("/")[2])),
            Text(printable_text(request.state)),
            Text(f"{share}{prompt or ''}"),
            Text(f"{(request.cached_tokens or 0) / prompt:.0%}" if prompt else ""),
            Text(str(request.generated_tokens or "")),
            Text("" if speed is None else f"{speed:.1f}"),
            Text(f"{max(0, time.time() - request.created_at):.0f} s"),
        )
    return table


def _short_path(path: str) -> str:
    """Return what tells the API of a route from others: "chat" for /v1/chat/completions."""
    for prefix in _PREFIXES:
        path = path.removeprefix(prefix)
    return path.removesuffix("/completions")


def _table(*headings: str) -> Table:
    """Return a table in which the names of models get the room that the other columns leave."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0), expand=True)
    for heading in headings:
        table.add_column(heading, no_wrap=True, overflow="ellipsis", ratio=1 if heading == "MODEL" else None)
    return table
