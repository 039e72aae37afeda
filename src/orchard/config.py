"""The settings of a server. The command line fills them: defaults < environment (ORCHARD_*) < flags."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from orchard.core.options import TextOptions

LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(Struct, frozen=True, kw_only=True):
    """What the gateway needs to know. Sizes are in bytes, times in seconds."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    log_level: LogLevel = "info"
    max_body_bytes: int = 32 * 1024 * 1024
    """A larger request body is refused with 413."""
    max_connections: int = 4096
    """Connections at once; one more is refused with 429."""
    head_timeout: float = 30.0
    """A connection on which no whole head of a request has arrived by then is closed."""
    max_requests: int = 1024
    """Requests other than GET in the server at once; one more is refused with 429."""
    max_body_bytes_in_flight: int = 256 * 1024 * 1024
    """All request bodies that are arriving; one that would exceed this is refused with 429."""
    body_timeout: float = 60.0
    """A request body must have arrived by then."""
    shutdown_grace: float = 20.0
    """How long running requests may go on after SIGTERM."""
    keep_alive_interval: float = 15.0
    """A stream with nothing to say sends a comment this often."""
    cache_timeout: float = 5.0
    """A worker that has not said by then what it has cached gets a 503 in its stead."""
    stable_prompts: bool = True
    """Lines of coding agents' system prompts that change with each request are dropped or moved."""
    api_keys: tuple[str, ...] = ()
    """Who brings none of them is refused with 401; none: nobody is asked."""
    cors_origins: tuple[str, ...] = ()
    """Web pages of these origins may use the server from a browser; `*`: those of all."""
    responses_path: str = "~/.orchard/responses.db"
    """The file that stored responses and conversations lie in; `:memory:`: they are forgotten with the server."""
    responses_ttl: float = 3600.0
    """They are forgotten so long after the last was added to them."""
    responses_max_bytes: int = 1024 * 1024 * 1024
    """What that file may hold; what was used least recently goes first."""
    responses_archive_dir: str | None = None
    """Where what is forgotten is written as JSON."""
    responses_max_background: int = 64
    """Responses that may run in the background at once; one more is refused with 429."""
    text: TextOptions = TextOptions()
    """How the workers of text models run them."""
