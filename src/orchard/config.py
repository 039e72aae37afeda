"""The settings of a server and of its models. `orchard.core.tasks` has the options that say how a model is run.

A setting is one field, here or there; the command line derives the rest from it (`orchard.cli.settings.table`).
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from msgspec import Meta, Struct, defstruct, structs

from orchard.core.request import LoadOptions, Overflow
from orchard.core.setting import (
    ExistingFolder,
    Folder,
    MemorySize,
    Name,
    Names,
    Positive,
    PositiveSize,
    Seconds,
    other_names,
    setting,
    value_kind,
    when_unset,
)
from orchard.core.tasks.text_options import TextOptions
from orchard.kinds import KINDS

S = TypeVar("S", bound=Struct)

MEMORY_DATABASE = ":memory:"
"""The path of a store that lasts until the server stops (`Settings.responses_path`)."""

LogLevel = Literal["debug", "info", "warning", "error", "critical"]
if TYPE_CHECKING:
    ModelType = str
else:
    ModelType = Literal[tuple(name for kind in KINDS.values() for name in kind.types)]
Grace = Annotated[float, Meta(ge=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]
OtherPort = Annotated[int, Meta(ge=1, le=65535)]
Host = Annotated[str, value_kind("host")]
Keys = Annotated[tuple[str, ...], value_kind("keys")]
KeyFile = Annotated[str, value_kind("key file")]
PromptCacheSharing = Annotated[Literal["keys", "all"] | dict[str, tuple[str, ...]], value_kind("cache sharing")]
LogFile = Annotated[str, value_kind("log file")]
Ttl = Annotated[
    Seconds | None,
    setting("memory", "Seconds without a request after which a model is unloaded."),
    other_names("on_demand_idle_timeout"),
    when_unset("60 for a model that is on_demand, else never", example="600"),
]


def with_kinds(settings: type[S]) -> type[S]:
    """Add a field for the load options of each kind of model, named after the first kind that has them."""
    names: dict[type[LoadOptions], str] = {}
    for name, kind in KINDS.items():
        names.setdefault(kind.backend.options, name)
    known = {field.type for field in structs.fields(settings)}
    new = [(name, options, options()) for options, name in names.items() if options not in known]
    about = {"__doc__": settings.__doc__}
    return cast(
        type[S],
        defstruct(
            settings.__name__, new, bases=(settings,), module=__name__, namespace=about, frozen=True, kw_only=True
        ),
    )


@with_kinds
class ModelSettings(Struct, frozen=True, kw_only=True):
    """A model that the configuration or the command line names."""

    model_path: Annotated[
        Name,
        setting(
            "models",
            "'demo', 'demo-vision', 'demo-whisper', a folder with an MLX model, or a Hugging Face id; may be repeated.",
            scope="named",
        ),
        other_names("PRELOAD_MODEL", "MLX_VLM_PRELOAD_MODEL", flag="model"),
        when_unset("demo, unless there is a file", example="mlx-community/Qwen3-4B-4bit"),
    ]
    model_type: Annotated[
        ModelType | None,
        setting("models", "The type of the model.", scope="named"),
        when_unset("detected from its files", example="lm"),
    ] = None
    served_model_name: Annotated[
        Name | None,
        setting("models", "The name that clients use for the model.", scope="named"),
        when_unset("its id, or the name of its folder"),
    ] = None
    aliases: Annotated[Names, setting("models", "More names that clients may use for the model.")] = ()
    revision: Annotated[
        Name | None,
        setting("models", "The branch, tag or commit of a Hugging Face model."),
        when_unset("main", example="main"),
    ] = None
    adapters: Annotated[
        dict[str, str],
        value_kind("existing folders"),
        setting("models", "The names and folders of LoRA adapters that requests may select."),
    ] = {}
    on_demand: Annotated[bool, setting("models", "Load the model at its first request, not at startup.")] = False
    pinned: Annotated[bool, setting("models", "Never unload the model to make room for another.")] = False
    ttl: Ttl = None
    text: TextOptions = TextOptions()


class VoiceModels(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The models of spoken conversations; None: the only one of its kind."""

    chat: str
    transcription: str | None = None
    speech: str | None = None
    turn_detection: str | None = None


@with_kinds
class Settings(Struct, frozen=True, kw_only=True):
    """What the gateway needs to know. Sizes are in bytes, times in seconds."""

    host: Annotated[Host, setting("server", "The address to listen on.")] = "127.0.0.1"
    port: Annotated[Port, setting("server", "The port to listen on; 0 picks a free one.")] = 8000
    also_port: Annotated[
        OtherPort | None,
        setting("server", "A second port to listen on, if it is free, such as Ollama's, 11434."),
        when_unset("none", example="11434"),
    ] = None
    log_level: Annotated[LogLevel, setting("server", "How much to log.")] = "info"
    log_file: Annotated[
        LogFile | None,
        setting("server", "Also log to this file (readable by its owner only; rotated at 10 MB; five old files kept)."),
    ] = None
    console: Annotated[
        bool, setting("server", "Give browsers the console, pages for people, at /; other clients get JSON there.")
    ] = True
    shutdown_grace: Annotated[
        Grace,
        setting(
            "server", "Seconds for running answers to finish when the server stops. A second Ctrl-C ends them at once."
        ),
    ] = 20.0
    api_keys: Annotated[
        Keys,
        setting(
            "access",
            "A key that clients must send; may be repeated. Other users of this machine can see flags, but not "
            "environment variables.",
        ),
        other_names("MLX_VLM_SERVER_API_KEY", flag="api_key"),
    ] = ()
    admin_keys: Annotated[
        Keys,
        setting(
            "access",
            "A key that also sees what every other key has stored and asks, the log and the settings, and may load, "
            "unload and download models; may be repeated.",
        ),
        other_names(flag="admin_key"),
    ] = ()
    prompt_cache_sharing: Annotated[
        PromptCacheSharing,
        setting(
            "access",
            "If the server needs keys, who uses cached prompts: each key only its own, all keys all, or each group of "
            "keys (a mapping of names to lists of keys, only in the file) its own.",
        ),
    ] = "keys"
    keys_may_manage_models: Annotated[
        bool,
        setting(
            "access",
            "Let every key load, unload and download models, and set how long they stay in memory, as admin keys may.",
        ),
    ] = False
    cors_origins: Annotated[
        tuple[str, ...],
        value_kind("origins"),
        setting("access", "An origin whose web pages may use the server; * allows all; may be repeated."),
        other_names("allowed_origins", flag="cors_origin"),
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...],
        value_kind("hosts"),
        setting("access", "Another host name by which clients may reach a server without keys; may be repeated."),
        other_names(flag="allowed_host"),
        when_unset("localhost and the server's own addresses"),
    ] = ()
    models: tuple[ModelSettings, ...] = ()
    """Clients can also request every model of the local Hugging Face cache and of `model_dir`."""
    model_dir: Annotated[
        ExistingFolder | None, setting("models", "A folder whose subfolders are models that requests may name.")
    ] = None
    fallback_model: Annotated[
        Name | None, setting("models", "The model that answers requests for unknown models, instead of a 404.")
    ] = None
    realtime: Annotated[
        dict[str, VoiceModels],
        value_kind("voice models"),
        setting(
            "models",
            "Names for realtime sessions and for chats with audio, each with its models: `chat`, and if there are "
            "several of their kind `transcription`, `speech` and `turn_detection`.",
        ),
        when_unset("none", example="{assistant: {chat: demo, transcription: demo-whisper}}"),
    ] = {}
    allow_download: Annotated[bool, setting("models", "Download the models that requests name, if necessary.")] = False
    allow_delete: Annotated[
        bool,
        setting(
            "models",
            "Let Ollama's clients delete imported models, and models from the Hugging Face cache, "
            "which other programs use, too.",
        ),
    ] = False
    max_loaded_models: Annotated[
        Positive | None,
        setting("memory", "The most models in memory at once, not counting the bundled one."),
        when_unset("one more than the number of configured models without on_demand", example="4"),
    ] = None
    memory_limit: Annotated[
        MemorySize | None,
        setting("memory", "The most memory that all models together may use, such as 24GB."),
        when_unset("what the device recommends"),
    ] = None
    load_under_pressure: Annotated[
        bool, setting("memory", "Load models even while the machine has no memory left, instead of a 503.")
    ] = False
    ttl: Ttl = None
    queue_timeout: Annotated[
        Seconds, setting("memory", "Seconds that a request may wait before it starts, or for memory.")
    ] = 300.0
    watchdog_timeout: Annotated[
        Grace, setting("memory", "Seconds of silence after which a model's process is killed; 0 means never.")
    ] = 120.0
    context_overflow: Annotated[
        Overflow, setting("prompts", "What to do with a conversation that exceeds the context length.")
    ] = "error"
    stable_prompts: Annotated[
        bool,
        setting(
            "prompts",
            "In /v1/messages, drop or move lines of agents' prompts that often change: the prompt cache can't be used "
            "after such a line.",
        ),
    ] = True
    responses_path: Annotated[
        str,
        value_kind("database"),
        setting("responses", "The file for stored responses; ':memory:' keeps them only until the server stops."),
    ] = "~/.orchard/responses.db"
    responses_ttl: Annotated[
        Seconds,
        setting("responses", "Seconds until a conversation that isn't pinned is deleted, from its last addition on."),
    ] = 3600.0
    responses_max_bytes: Annotated[
        PositiveSize,
        setting(
            "responses", "The most space for stored responses; the least recently used that aren't pinned go first."
        ),
    ] = 2**30
    responses_archive_dir: Annotated[
        Folder | None, setting("responses", "A folder where expired conversations are saved as JSON.")
    ] = None
    responses_max_background: Annotated[
        Positive,
        setting(
            "responses",
            "The most background responses that run at once; further ones are rejected, unless their caller has less "
            "than its share.",
        ),
    ] = 64
    max_requests: Annotated[
        Positive,
        setting(
            "limits",
            "The most requests at once, except GET requests; further ones are rejected, unless their caller has less "
            "than its share.",
        ),
    ] = 1024
    max_connections: Annotated[Positive, setting("limits", "The most connections at once.")] = 4096
    max_body_bytes: Annotated[PositiveSize, setting("limits", "The most bytes in a request body.")] = 32 * 2**20
    max_body_bytes_in_flight: Annotated[
        PositiveSize,
        setting(
            "limits", "The most bytes in all request bodies, and in the media they link to, that are arriving at once."
        ),
    ] = 256 * 2**20
    max_upload_bytes: Annotated[
        PositiveSize, setting("limits", "The most bytes in an uploaded file, such as a recording to transcribe.")
    ] = 2**30
    voices_dir: Annotated[
        Folder, setting("media", "The folder for voices that callers make from recordings, and for consents.")
    ] = "~/.orchard/voices"
    require_voice_consent: Annotated[
        bool, setting("media", "Make a voice from a recording only with the id of a recorded consent.")
    ] = True
    allow_private_media: Annotated[
        bool, setting("media", "Fetch images and other media from private and local addresses too.")
    ] = False
    allowed_local_media: Annotated[
        ExistingFolder | None,
        setting("media", "A folder from which requests may read images and other media with file: URLs."),
        when_unset("none"),
    ] = None
    head_timeout: Annotated[Seconds, setting("limits", "Seconds for a request's headers to arrive.")] = 30.0
    body_timeout: Annotated[
        Seconds, setting("limits", "Seconds for a request's body to arrive, and the same again for its media.")
    ] = 60.0
    keep_alive_interval: Annotated[
        Seconds, setting("limits", "Seconds between comments on a stream that has nothing else to send.")
    ] = 15.0
    cache_timeout: Annotated[Seconds, setting("limits", "Seconds to wait for a model's report on its cache.")] = 5.0
    text: TextOptions = TextOptions()
    """How models that `models` does not name are run."""

    def __post_init__(self) -> None:
        """Raise ValueError if a group of `prompt_cache_sharing` has a key that the server doesn't know, or another has.

        The message contains no key.
        """
        if isinstance(self.prompt_cache_sharing, str):
            return
        known = {*self.api_keys, *self.admin_keys}
        for name, keys in self.prompt_cache_sharing.items():
            if not known.issuperset(keys):
                message = f"prompt_cache_sharing: the group '{name}' has a key that is not one of the server's keys, or"
                raise ValueError(f"{message} that another group has")
            known -= set(keys)

    @property
    def asks_for_keys(self) -> bool:
        """Whether requests must have an API key."""
        return bool(self.api_keys or self.admin_keys)


class SettingReport(Struct, frozen=True):
    """A setting as clients are shown it; `source`: "default", "command line", "environment", or "file NAME:LINE"."""

    name: str
    value: Any
    source: str


def options_of(settings: ModelSettings | Settings, options: type[LoadOptions]) -> LoadOptions:
    """Return the settings' options of this type, else the type's defaults."""
    return next((value for value in structs.astuple(settings) if type(value) is options), None) or options()


class Shorthands(Struct):
    """Settings that set other settings (see `orchard.cli.settings.layers`). The fields only describe them."""

    debug: Annotated[bool, setting("server", "Set log_level to debug, even if log_level is set too.", scope="all")] = (
        False
    )
    no_log_file: Annotated[bool, setting("server", "Log to no file, even if log_file is set elsewhere.")] = False
    api_key_file: Annotated[
        KeyFile | None, setting("access", "A file with more keys, one per line. Lines that begin with # are comments.")
    ] = None


class IgnoredSettings(Struct):
    """Settings of other servers, which do nothing here. The fields only describe them; `help` says why.

    A value that is not the default gets a warning.
    """

    trust_remote_code: Annotated[
        bool,
        setting("ignored", "Orchard never runs code that comes with a model."),
        other_names("MLX_TRUST_REMOTE_CODE"),
    ] = False
    enable_auto_tool_choice: Annotated[
        bool, setting("ignored", "The model may call tools unless a request says `tool_choice: none`.")
    ] = True
    disable_batching: Annotated[
        bool,
        setting("ignored", "Seeds work in batches too. To answer one request at a time, set decode_concurrency to 1."),
    ] = False
    disable_auto_resize: Annotated[
        bool, setting("ignored", "Only the model's own processor and a request's fields resize images.")
    ] = False
