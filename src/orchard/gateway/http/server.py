"""The gateway process, from its listening socket to its graceful shutdown."""

import asyncio
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FrameType

import uvicorn
from msgspec.structs import replace
from starlette.types import ASGIApp, Receive, Scope, Send

from orchard.config import Settings
from orchard.gateway.http import heads, logs
from orchard.gateway.http.budget import Budget
from orchard.gateway.http.connection import Connection
from orchard.gateway.http.listen import BACKLOG
from orchard.gateway.http.websocket import Socket
from orchard.gateway.model_status import ModelStatus
from orchard.gateway.pool.pool import Pool

log = logging.getLogger("orchard.gateway")

# Longer than clients keep idle connections (httpx: 5 s), so that none is closed while a client reuses it.
_KEEP_ALIVE_SECONDS = 75
# The most files that the gateway has open without any connection: a few for each model, the store, and the log.
_OWN_FILES = 24
# How long requests may still send their last events after the grace period.
_LAST_WORDS_SECONDS = 2


def run_server(
    app: ASGIApp,
    pool: Pool,
    settings: Settings,
    sockets: Sequence[socket.socket],
    *,
    on_ready: Callable[[], None] | None = None,
    on_tick: Callable[[Mapping[str, ModelStatus]], None] | None = None,
) -> None:
    """Serve an application until SIGTERM or SIGINT; running requests then have `settings.shutdown_grace` seconds.

    Call `on_ready` once the server listens, and from then on `on_tick` ten times a second with the models' statuses.
    """
    logs.configure_logging(settings.log_level, settings.log_file)
    messages = Budget(settings.max_body_bytes_in_flight, "messages on WebSockets")
    request_heads = Budget(heads.SHARED_BYTES, "request heads", heads.OWN_BYTES)
    pasts = Budget(settings.max_body_bytes_in_flight, "responses that are not stored")
    limited = replace(settings, max_connections=min(settings.max_connections, _connection_limit()))
    config = uvicorn.Config(
        _silence_cancellation(app),
        http=partial(Connection, settings=limited, head_budget=request_heads),  # type: ignore[arg-type]  # called, never subclassed
        ws=partial(Socket, message_budget=messages, past_budget=pasts),  # type: ignore[arg-type]
        ws_max_size=settings.max_body_bytes,
        ws_per_message_deflate=False,
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    server = _Server(config, pool, settings.shutdown_grace, on_ready, on_tick)
    # Before uvicorn installs its handlers, so that no signal is lost.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    server.run(sockets=list(sockets))


def _connection_limit() -> int:
    """Return how many connections leave enough of the files that this process may open for everything else."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else max(1, (files - _OWN_FILES) * 3 // 4)


def _silence_cancellation(app: ASGIApp) -> ASGIApp:
    """Return an application that logs no traceback for requests that are cancelled at shutdown."""

    async def run_app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            if scope["type"] == "lifespan":
                raise

    return run_app


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        pool: Pool,
        grace: float,
        on_ready: Callable[[], None] | None,
        on_tick: Callable[[Mapping[str, ModelStatus]], None] | None,
    ) -> None:
        super().__init__(config)
        self._pool = pool
        self._grace = grace
        self._on_ready = on_ready
        self._on_tick = on_tick
        self._interrupted = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop once the running requests are finished; a second Ctrl-C ends them."""
        again = self.should_exit and sig == signal.SIGINT
        self._interrupted = self._interrupted or sig == signal.SIGINT
        self.should_exit = True
        if again and self._loop and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self._on_ready and not self.should_exit:
            self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        if self._on_tick:
            self._on_tick(self._pool.statuses())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        idle = sum(isinstance(one, Socket) and not one.is_busy for one in self.server_state.connections)
        if count := len(self.server_state.tasks) - idle:
            until = "Ctrl-C again stops now" if self._interrupted else f"for {self._grace:g} s at most"
            log.warning("waiting for %d request%s; %s", count, "" if count == 1 else "s", until)
        self._pool.drain(self._grace)
        asyncio.get_running_loop().call_later(self._grace + _LAST_WORDS_SECONDS, self._hang_up)
        await super().shutdown(sockets)
        log.info("the server has stopped")

    def _stop(self) -> None:
        self._pool.stop()
        asyncio.get_running_loop().call_later(_LAST_WORDS_SECONDS, self._hang_up)

    def _hang_up(self) -> None:
        """End the remaining connections, whose clients don't read, and the remaining requests."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in self.server_state.tasks:
            task.cancel()
