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
    text: TextOptions = TextOptions()
    """How the workers of text models run them."""
