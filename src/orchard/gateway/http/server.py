"""The gateway process from its listening socket to its graceful end."""

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.http import heads, logs
from orchard.gateway.http.budget import Budget
from orchard.gateway.http.connection import Connection
from orchard.gateway.http.websocket import Socket
from orchard.gateway.model_status import ModelStatus
from orchard.gateway.pool.pool import Pool

log = logging.getLogger("orchard.gateway")

_BACKLOG = 2048
# Longer than clients keep idle connections (httpx: 5 s), so that none is closed just as it is used again.
_KEEP_ALIVE_SECONDS = 75
# The time in which running requests send their last events once their grace is over.
_LAST_WORDS_SECONDS = 2


def bind(host: str, port: int) -> socket.socket:
    """Open the listening socket; port 0 takes a free one. Raise OrchardError("invalid_request") with the reason."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:  # UnicodeError: a host that no name can be
        reason = str(getattr(error, "strerror", None) or error).partition(" (while ")[0]  # Python repeats the address
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            reason = f"{reason}; choose another port with --port, or 0 for one that is free"
        raise OrchardError("invalid_request", f"can't listen on {host}:{port}: {reason}") from None


def run(
    app: ASGIApp,
    pool: Pool,
    settings: Settings,
    sock: socket.socket,
    *,
    on_ready: Callable[[], None] | None = None,
    on_tick: Callable[[Mapping[str, ModelStatus]], None] | None = None,
) -> None:
    """Serve an application over a pool until SIGTERM or SIGINT.

    Running requests then get `settings.shutdown_grace` seconds to finish.

    `on_ready` is called once the server listens, `on_tick` ten times a second from then on, with each model's status.
    """
    logs.configure(settings.log_level, settings.log_file)
    messages = Budget(settings.max_body_bytes_in_flight, "messages on WebSockets")
    request_heads = Budget(heads.SHARED_BYTES, "request heads", heads.OWN_BYTES)
    pasts = Budget(settings.max_body_bytes_in_flight, "responses that are not stored")
    config = uvicorn.Config(
        _quietly_cancelled(app),
        http=partial(Connection, settings=settings, head_budget=request_heads),  # type: ignore[arg-type]  # called, never subclassed
        ws=partial(Socket, message_budget=messages, past_budget=pasts),  # type: ignore[arg-type]
        ws_max_size=settings.max_body_bytes,
        ws_per_message_deflate=False,
        backlog=_BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    server = _Server(config, pool, settings.shutdown_grace, on_ready, on_tick)
    # Before uvicorn does, so that no signal is lost meanwhile.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    server.run(sockets=[sock])


def _quietly_cancelled(app: ASGIApp) -> ASGIApp:
    """Return an application whose requests end without a traceback if they are cancelled, because the server ends."""

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
        """Stop after the running requests; a second Ctrl-C ends them."""
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
        """End what is left: connections whose clients don't read, and requests that wait for something else."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in self.server_state.tasks:
            task.cancel()
