"""The settings of a server. `orchard.cli.settings.layers` fills them, from a file, the environment and flags."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from orchard.core.request import Overflow
from orchard.core.tasks.text_options import TextOptions

LogLevel = Literal["debug", "info", "warning", "error", "critical"]
ModelType = Literal["lm", "multimodal", "embeddings", "whisper", "image-generation", "image-edit"]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Grace = Annotated[float, Meta(ge=0)]


class ModelSettings(Struct, frozen=True, kw_only=True):
    """A model that the configuration, or the command line, names."""

    model_path: str
    """`demo`, a folder, or the id of a model in the Hugging Face cache."""
    model_type: ModelType | None = None
    """None: as its files say."""
    served_model_name: str | None = None
    """Its name on the wire; None: the last part of a folder's path, or the id."""
    aliases: tuple[str, ...] = ()
    revision: str | None = None
    """Of a model in the Hugging Face cache: a branch, a tag or a commit."""
    adapters: dict[str, str] = {}
    """LoRA adapters that requests may ask for: a name and a folder each."""
    on_demand: bool = False
    """It is loaded for the first request, and not with the server."""
    ttl: Seconds | None = None
    """Seconds without a request after which it is unloaded; None: the server's."""
    pinned: bool = False
    """It is never unloaded to make room for another."""
    text: TextOptions = TextOptions()


class Settings(Struct, frozen=True, kw_only=True):
    """What the gateway needs to know. Sizes are in bytes, times in seconds."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    log_level: LogLevel = "info"
    max_body_bytes: Positive = 32 * 1024 * 1024
    """A larger request body is refused with 413."""
    max_connections: Positive = 4096
    """Connections at once; one more is refused with 429."""
    head_timeout: Seconds = 30.0
    """A connection on which no whole head of a request has arrived by then is closed."""
    max_requests: Positive = 1024
    """Requests other than GET in the server at once; one more is refused with 429."""
    max_body_bytes_in_flight: Positive = 256 * 1024 * 1024
    """All request bodies that are arriving; one that would exceed this is refused with 429."""
    body_timeout: Seconds = 60.0
    """A request body must have arrived by then."""
    shutdown_grace: Grace = 20.0
    """How long running requests may go on after SIGTERM."""
    keep_alive_interval: Seconds = 15.0
    """A stream with nothing to say sends a comment this often."""
    cache_timeout: Seconds = 5.0
    """A worker that has not said by then what it has cached gets a 503 in its stead."""
    stable_prompts: bool = True
    """Lines of coding agents' system prompts that change with each request are dropped or moved."""
    api_keys: tuple[str, ...] = ()
    """Who brings none of them, nor an admin key, is refused with 401; none of either: nobody is asked."""
    admin_keys: tuple[str, ...] = ()
    """Keys that see what every key has made."""
    cors_origins: tuple[str, ...] = ()
    """Web pages of these origins may use the server from a browser; `*`: those of all."""
    allowed_hosts: tuple[str, ...] = ()
    """Names, besides its own, that requests may be sent to where no keys are asked for."""
    responses_path: str = "~/.orchard/responses.db"
    """The file that stored responses and conversations lie in; `:memory:`: they are forgotten with the server."""
    responses_ttl: Seconds = 3600.0
    """They are forgotten so long after the last was added to them."""
    responses_max_bytes: Positive = 1024 * 1024 * 1024
    """What that file may hold; what was used least recently goes first."""
    responses_archive_dir: str | None = None
    """Where what is forgotten is written as JSON."""
    responses_max_background: Positive = 64
    """Responses that may run in the background at once; one more is refused with 429."""
    models: tuple[ModelSettings, ...] = ()
    """Besides these, every model of the local Hugging Face cache and of `model_dir` can be asked for."""
    model_dir: str | None = None
    """A folder whose sub-folders are models."""
    fallback_model: str | None = None
    """The model that answers where one is asked for that is not here; None: a 404."""
    allow_download: bool = False
    """A request may ask for a model that has to be downloaded."""
    max_loaded_models: Positive | None = None
    """Models in memory at once, the bundled one not counted; None: those loaded with the server, and one on demand."""
    memory_limit: Positive | None = None
    """What all models may take together; None: what the device recommends."""
    ttl: Seconds | None = None
    """Seconds without a request after which a model is unloaded; None: only to make room."""
    queue_timeout: Seconds = 300.0
    """A request that has not begun by then, because its model loads or has no room, gets a 503."""
    watchdog_timeout: Grace = 120.0
    """A worker that has been at one piece of work for longer is killed; 0: none is."""
    context_overflow: Overflow = "error"
    """What becomes of a conversation that exceeds the context window, where a request does not say."""
    log_file: str | None = None
    """Where the log goes besides the terminal; it is rotated."""
    text: TextOptions = TextOptions()
    """How models are run that `models` does not name."""

    @property
    def asks_for_keys(self) -> bool:
        """Whether a request must bring a key."""
        return bool(self.api_keys or self.admin_keys)
