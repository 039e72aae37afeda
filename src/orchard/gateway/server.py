"""The gateway process from its listening socket to its graceful end."""

import signal
import socket
from collections.abc import Callable, Mapping
from functools import partial

import uvicorn

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway import logs
from orchard.gateway.app import create_app
from orchard.gateway.connection import Connection
from orchard.gateway.heads import Shared
from orchard.gateway.metrics import ModelNow
from orchard.gateway.pool import Pool
from orchard.gateway.registry import Registry

_BACKLOG = 2048
# Longer than clients keep idle connections (httpx: 5 s), so that none is closed just as it is used again.
_KEEP_ALIVE_SECONDS = 75
# What running requests get to send their last words once their grace is over.
_LAST_WORDS_SECONDS = 2


def bind(host: str, port: int) -> socket.socket:
    """Open the listening socket; port 0 takes a free one. Raises OrchardError("invalid_request") with the reason."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:  # UnicodeError: a host that no name can be
        reason = getattr(error, "strerror", None) or error
        raise OrchardError("invalid_request", f"can't listen on {host}:{port}: {reason}") from None


def run(
    settings: Settings,
    registry: Registry,
    sock: socket.socket,
    on_ready: Callable[[], None] | None = None,
    on_tick: Callable[[Mapping[str, ModelNow]], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; running requests then get `settings.shutdown_grace` seconds to finish.

    `on_ready` is called once the server listens, `on_tick` ten times a second from then on, with how each model stands.
    """
    logs.configure(settings.log_level, settings.log_file)
    pool = Pool(registry, settings)
    config = uvicorn.Config(
        create_app(pool, settings),
        http=partial(Connection, settings=settings, shared=Shared()),  # type: ignore[arg-type]  # called, never subclassed
        backlog=_BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(settings.shutdown_grace) + _LAST_WORDS_SECONDS,
    )
    # uvicorn raises the signals it caught once more when it is done; a graceful end is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    _Server(config, pool, settings.shutdown_grace, on_ready, on_tick).run(sockets=[sock])


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        pool: Pool,
        grace: float,
        on_ready: Callable[[], None] | None,
        on_tick: Callable[[Mapping[str, ModelNow]], None] | None,
    ) -> None:
        super().__init__(config)
        self._pool = pool
        self._grace = grace
        self._on_ready = on_ready
        self._on_tick = on_tick

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._on_ready:
            self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        if self._on_tick:
            self._on_tick(self._pool.now())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._pool.drain(self._grace)
        await super().shutdown(sockets)
