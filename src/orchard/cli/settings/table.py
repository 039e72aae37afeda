"""Every setting of `orchard serve`, once: the file, the environment, the flags and the documentation follow from it."""

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from msgspec import Struct

from orchard.cli.settings import values
from orchard.cli.settings.values import Kind, kind_of, shown_size
from orchard.config import ModelSettings, Settings
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions

Scope = Literal["server", "all", "named", "entry"]
"""Where it may stand: under `server`; there, for all models, and in an entry of `models`; in an entry, or as a flag for
the model that the command line names; in an entry only."""

Home = type[Settings] | type[ModelSettings] | type[TextOptions] | type[SamplingDefaults]


class Setting(Struct, frozen=True):
    """One setting. `synonyms` are names that other servers have for it; every name is known everywhere.

    `flag`: the name that --help shows. `environment`: variables besides ORCHARD_NAME. `home`, `field`: what it fills;
    None: nothing. `note`: says of a value what may surprise whoever wrote it. `default`: in words. `zero_is_none`: 0
    stands for None.
    """

    name: str
    help: str
    group: str
    scope: Scope
    kind: Kind
    home: Home | None
    field: str
    synonyms: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    flag: str = ""
    default: str = ""
    note: Callable[[Any], str | None] | None = None
    zero_is_none: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All its names, that of the flag first."""
        return tuple(dict.fromkeys((self.flag or self.name, self.name, *self.synonyms)))

    @property
    def default_words(self) -> str:
        """What holds where nobody says anything; nothing for what has no effect."""
        if self.default or self.home is None:
            return self.default
        value = getattr(_DEFAULTS[self.home], self.field)
        if self.kind.metavar == "SIZE":
            return shown_size(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        return f"{value:g}" if isinstance(value, float) else str(value)


# Those of a model have words of their own.
_DEFAULTS: dict[Home, Any] = {Settings: Settings(), TextOptions: TextOptions()}
_SERVER, _ACCESS, _LIMITS, _RESPONSES = "Server", "Keys and web pages", "Limits", "Stored responses"
_MODELS, _POOL = "Models", "Models in memory"
_PROMPTS, _SAMPLING = "Prompts and answers", "Where a request does not say"
_BATCH, _CACHE = "Many requests at once", "Keys, values and cached prompts"
ACCEPTED = "Accepted, to no effect"


def _server(name: str, group: str, help: str, *, kind: Kind | None = None, field: str = "", **more: Any) -> Setting:
    field = field or name
    return Setting(name, help, group, "server", kind or kind_of(Settings, field), Settings, field, **more)


def _model(
    name: str, scope: Scope, help: str, *, kind: Kind | None = None, group: str = _MODELS, **more: Any
) -> Setting:
    return Setting(name, help, group, scope, kind or kind_of(ModelSettings, name), ModelSettings, name, **more)


def _text(name: str, group: str, help: str, *, kind: Kind | None = None, field: str = "", **more: Any) -> Setting:
    field = field or name
    return Setting(name, help, group, "all", kind or kind_of(TextOptions, field), TextOptions, field, **more)


def _draw(name: str, help: str, *, field: str = "", synonyms: tuple[str, ...] = ()) -> Setting:
    field, synonyms = field or name, (f"default_{name}", *synonyms)
    kind, default = kind_of(SamplingDefaults, field), "the model's"
    return Setting(name, help, _SAMPLING, "all", kind, SamplingDefaults, field, synonyms=synonyms, default=default)


def _switch(name: str, scope: Scope, help: str) -> Setting:
    """Make a setting that sets another one (`layers`)."""
    return Setting(name, help, _SERVER, scope, values.SWITCH, None, "", default="false")


def _accepted(
    name: str, scope: Scope, help: str, kind: Kind, note: Callable[[Any], str | None], **more: Any
) -> Setting:
    return Setting(name, help, ACCEPTED, scope, kind, None, "", note=note, **more)


def _does_nothing(why: str) -> Callable[[Any], str | None]:
    return lambda value: None if value is False else f"does nothing{why}"


def _type_note(model_type: str) -> str | None:
    return None if model_type in ("lm", "multimodal") else f"models of the type {model_type} are not served yet"


_SPECULATION = _does_nothing(" yet: there is no speculative decoding")
_PICTURES = _does_nothing(" yet: no pictures are made")

TABLE: tuple[Setting, ...] = (
    _model(
        "model_path",
        "named",
        "'demo', a folder with a model in MLX format, or a Hugging Face id; may be repeated.",
        kind=values.NAME,
        flag="model",
        environment=("PRELOAD_MODEL", "MLX_VLM_PRELOAD_MODEL"),
        default="demo, without a file",
    ),
    _model("model_type", "named", "What it is.", default="as its files say", note=_type_note),
    _model("served_model_name", "named", "Its name for clients.", kind=values.NAME, default="its id, or its folder's"),
    Setting(
        "adapter_path",
        "A folder with LoRA weights for it, in mlx-lm's format.",
        _MODELS,
        "named",
        values.FOLDER_HERE,
        TextOptions,
        "adapter_path",
        environment=("PRELOAD_ADAPTER", "MLX_VLM_PRELOAD_ADAPTER"),
        default="none",
    ),
    _model("aliases", "entry", "Further names for clients.", kind=values.NAMES, default="none"),
    _model("revision", "entry", "A branch, tag or commit of a Hugging Face id.", kind=values.NAME, default="main"),
    _model("adapters", "entry", "LoRA adapters that requests may ask for.", kind=values.FOLDERS, default="none"),
    _model("on_demand", "entry", "It is loaded for its first request, and not with the server.", default="false"),
    _model("pinned", "entry", "It is never unloaded to make room for another.", default="false"),
    _server("model_dir", _MODELS, "A folder whose sub-folders are models.", kind=values.FOLDER_HERE, default="none"),
    _server(
        "fallback_model",
        _MODELS,
        "Answers where a model is asked for that is not here.",
        kind=values.NAME,
        default="none: a 404",
    ),
    _server("allow_download", _MODELS, "A request may ask for a model that has to be downloaded."),
    _server(
        "max_loaded_models",
        _POOL,
        "Models in memory at once.",
        default="the configured ones that are not on_demand, and one more",
    ),
    _server(
        "memory_limit",
        _POOL,
        "What all models may take together, as in 24GB.",
        kind=values.size(1),
        default="what the device recommends",
    ),
    _model(
        "ttl",
        "all",
        "Seconds without a request after which a model is unloaded.",
        group=_POOL,
        synonyms=("on_demand_idle_timeout",),
        default="none; 60 where on_demand",
    ),
    _server("queue_timeout", _POOL, "Seconds after which a request that has not begun gets a 503."),
    _server("watchdog_timeout", _POOL, "Seconds of silence after which a model's process is killed; 0: never."),
    _server("host", _SERVER, "The address to listen on.", kind=values.HOST),
    _server("port", _SERVER, "The port; 0 takes a free one."),
    _server("log_level", _SERVER, "How much is logged."),
    _switch("debug", "all", "Logs as log_level debug does, whatever the log_level beside it."),
    _server(
        "log_file",
        _SERVER,
        "A file that is logged to as well, readable by its owner only; at 10 MB it is put aside, and five are kept.",
        kind=values.LOG_FILE,
        default="none",
    ),
    _switch("no_log_file", "server", "Logs to no file, whatever came before."),
    _server(
        "shutdown_grace", _SERVER, "Seconds that running answers get at the end; a second Ctrl-C ends them at once."
    ),
    _server(
        "api_keys",
        _ACCESS,
        "A key that callers must send; may be repeated. Others on this machine can see flags, but no variables.",
        kind=values.KEYS,
        flag="api_key",
        default="none is asked for",
        environment=("MLX_VLM_SERVER_API_KEY",),
    ),
    _server(
        "api_key_file",
        _ACCESS,
        "A file with further keys, one on each line; # begins a comment.",
        kind=values.KEY_FILE,
        field="api_keys",
        default="none",
    ),
    _server(
        "admin_keys",
        _ACCESS,
        "A key that also sees what every other key has stored; may be repeated.",
        kind=values.KEYS,
        flag="admin_key",
        default="none",
    ),
    _server(
        "cors_origins",
        _ACCESS,
        "Web pages of this origin, as in https://example.com, may use the server; * lets all; may be repeated.",
        kind=values.ORIGINS,
        flag="cors_origin",
        synonyms=("allowed_origins",),
        default="none",
    ),
    _server(
        "allowed_hosts",
        _ACCESS,
        "A further name that clients may reach the server by where no keys are asked for; may be repeated.",
        kind=values.ALLOWED_HOSTS,
        flag="allowed_host",
        default="localhost and the server's own addresses",
    ),
    _text(
        "context_length",
        _PROMPTS,
        "Tokens that prompt and answer may have together.",
        default="what the model was made for",
    ),
    _server("context_overflow", _PROMPTS, "What becomes of a conversation that is longer than that."),
    _text(
        "chat_template_file",
        _PROMPTS,
        "A chat template in place of the model's own.",
        kind=values.FILE_HERE,
        default="the model's",
    ),
    _text(
        "tool_call_parser",
        _PROMPTS,
        "How the model writes tool calls, as in qwen3_coder or mistral.",
        kind=values.parser("tool_call_parser"),
        default="by the chat template",
    ),
    _text(
        "reasoning_parser",
        _PROMPTS,
        "How the model writes its reasoning, as in qwen3 or none.",
        kind=values.parser("reasoning_parser"),
        default="by the chat template",
    ),
    _text(
        "message_converter",
        _PROMPTS,
        "How the chat template takes earlier tool calls, as in glm4_moe or mistral.",
        kind=values.CONVERTER,
        default="by trying",
    ),
    _server(
        "stable_prompts",
        _PROMPTS,
        "Drop or move the lines of coding agents' system prompts that change with each request (/v1/messages).",
    ),
    _text(
        "max_tokens",
        _SAMPLING,
        "Tokens of an answer.",
        field="default_max_tokens",
        synonyms=("default_max_tokens",),
        default="what the context leaves",
        environment=("MLX_VLM_MAX_TOKENS",),
    ),
    _text(
        "enable_thinking",
        _SAMPLING,
        "Whether the model thinks.",
        synonyms=("default_enable_thinking",),
        default="as its chat template has it",
        environment=("MLX_VLM_ENABLE_THINKING",),
    ),
    _text(
        "thinking_budget",
        _SAMPLING,
        "Tokens of reasoning after which the answer must begin.",
        synonyms=("default_thinking_budget",),
        default="no limit",
        environment=("MLX_VLM_THINKING_BUDGET",),
    ),
    _draw("temperature", "0 takes the likeliest token.", synonyms=("temp",)),
    _draw("top_p", "The likeliest tokens that have this share together."),
    _draw("top_k", "So many of the likeliest tokens; 0: all."),
    _draw("min_p", "Tokens of at least this share of the likeliest one's probability."),
    _draw("repetition_penalty", "Above 1: what was said is less likely."),
    _draw("repetition_context_size", "The last tokens that this penalty looks at; 0: all.", field="repetition_context"),
    _draw("presence_penalty", "For what the answer has said."),
    _draw("presence_context_size", "The last tokens that this penalty looks at; 0: all.", field="presence_context"),
    _draw("frequency_penalty", "For each time that the answer has said it."),
    _draw("frequency_context_size", "The last tokens that this penalty looks at; 0: all.", field="frequency_context"),
    _draw("xtc_probability", "How often the likeliest tokens are dropped but for the least likely of them."),
    _draw("xtc_threshold", "The probability from which on a token is one of these."),
    _draw("seed", "Makes answers repeat themselves."),
    _text(
        "decode_concurrency",
        _BATCH,
        "Answers at once of one model; further ones wait.",
        field="max_rows",
        synonyms=("batch_completion_size", "max_num_seqs"),
        environment=("MLX_VLM_MAX_NUM_SEQS",),
    ),
    _text("queue_size", _BATCH, "Requests that may wait for one model; one more is refused.", field="max_waiting"),
    _text(
        "prompt_concurrency",
        _BATCH,
        "Prompts that are read at once.",
        field="prompts_at_once",
        synonyms=("batch_prefill_size",),
        default="by the device",
    ),
    _text(
        "prefill_step_size",
        _BATCH,
        "Prompt tokens read at once while answers are written.",
        field="prefill_chunk",
        synonyms=("batch_prefill_step_size",),
        environment=("PREFILL_STEP_SIZE",),
        default="by the device",
    ),
    _text(
        "max_kv_size",
        _CACHE,
        "Tokens that an answer can look back on; older ones are forgotten, all but the first four; 0: none are. "
        "Not beside kv_bits.",
        kind=values.or_zero(kind_of(TextOptions, "max_kv_size")),
        zero_is_none=True,
        environment=("MAX_KV_SIZE",),
        default="all",
    ),
    _text(
        "kv_bits",
        _CACHE,
        "Bits in which keys and values are kept; 0: as without it. Not beside max_kv_size. A model that can't read "
        "quantised ones is served without; the log says why.",
        kind=values.or_zero(kind_of(TextOptions, "kv_bits")),
        zero_is_none=True,
        environment=("KV_BITS",),
        default="as the model computes them",
    ),
    _text("kv_group_size", _CACHE, "Keys and values that are quantised together.", environment=("KV_GROUP_SIZE",)),
    _text(
        "quantized_kv_start", _CACHE, "Shorter sequences keep theirs unquantised.", environment=("QUANTIZED_KV_START",)
    ),
    _text(
        "prompt_cache_bytes",
        _CACHE,
        "What a model's cached prompts may take of the memory; 0: none are cached.",
        kind=values.size(),
        synonyms=("prompt_cache_max_bytes", "max_bytes"),
        default="a quarter of what the weights leave",
    ),
    _text("prompt_cache_size", _CACHE, "Cached prompts at most.", field="prompt_cache_entries", default="what fits"),
    _text(
        "prompt_cache_dir",
        _CACHE,
        "A folder where cached prompts outlive the server.",
        kind=values.FOLDER,
        default="none",
    ),
    _text("prompt_cache_dir_bytes", _CACHE, "What each model's part of that folder may take.", kind=values.size()),
    _server(
        "responses_path",
        _RESPONSES,
        "The file that stored responses lie in; ':memory:': they are forgotten with the server.",
        kind=values.DATABASE,
    ),
    _server(
        "responses_ttl", _RESPONSES, "Seconds for which a conversation is stored after the last that was added to it."
    ),
    _server(
        "responses_max_bytes",
        _RESPONSES,
        "What they may take; those that were used least recently make room.",
        kind=values.size(1),
    ),
    _server(
        "responses_archive_dir",
        _RESPONSES,
        "A folder where conversations go as JSON when their time is over.",
        kind=values.FOLDER,
        default="none",
    ),
    _server("responses_max_background", _RESPONSES, "Responses in the background at once; one more is refused."),
    _server("max_requests", _LIMITS, "Requests at once; one more is refused."),
    _server("max_connections", _LIMITS, "Connections at once; one more is refused."),
    _server("max_body_bytes", _LIMITS, "A larger request is refused.", kind=values.size(1)),
    _server(
        "max_body_bytes_in_flight",
        _LIMITS,
        "What all requests that are arriving may have together.",
        kind=values.size(1),
    ),
    _server("head_timeout", _LIMITS, "Seconds in which the head of a request must arrive."),
    _server("body_timeout", _LIMITS, "Seconds in which its body must."),
    _server("keep_alive_interval", _LIMITS, "Seconds after which a stream with nothing to say sends a comment."),
    _server("cache_timeout", _LIMITS, "Seconds that a model has to say what it has cached."),
    _accepted(
        "trust_remote_code",
        "all",
        "Code that comes with a model is never run.",
        values.SWITCH,
        lambda on: "does nothing: Orchard never runs code that comes with a model" if on else None,
        environment=("MLX_TRUST_REMOTE_CODE",),
    ),
    _accepted(
        "enable_auto_tool_choice",
        "all",
        "It is always on.",
        values.SWITCH,
        lambda on: None if on else "does nothing: a request with tools gets calls unless it says `tool_choice: none`",
    ),
    _accepted(
        "disable_batching",
        "all",
        "decode_concurrency 1 does that.",
        values.SWITCH,
        _does_nothing(": a seed holds among many requests too; decode_concurrency 1 answers one after the other"),
    ),
    _accepted(
        "draft_model_path",
        "all",
        "There is no speculative decoding yet.",
        values.NAME,
        _SPECULATION,
        synonyms=("draft_model",),
    ),
    _accepted("num_draft_tokens", "all", "Likewise.", values.COUNT, _SPECULATION),
    _accepted("config_name", "named", "No pictures are made yet.", values.NAME, _PICTURES),
    _accepted("quantize", "named", "Likewise.", values.COUNT, _PICTURES),
    _accepted("lora_paths", "named", "Likewise; adapter_path is for text.", values.NAMES, _PICTURES),
    _accepted("lora_scales", "named", "Likewise.", values.NUMBERS, _PICTURES),
    _accepted(
        "disable_auto_resize",
        "all",
        "No pictures are read yet.",
        values.SWITCH,
        _does_nothing(" yet: no pictures are read"),
    ),
)


@cache
def by_name() -> dict[str, Setting]:
    """Every setting by each of its names."""
    return {name: setting for setting in TABLE for name in setting.names}


@cache
def by_variable() -> dict[str, Setting]:
    """The setting that an environment variable stands for; what only an entry of `models` has is left out."""
    settings = [setting for setting in TABLE if setting.scope != "entry"]
    own = {f"ORCHARD_{name.upper()}": setting for setting in settings for name in setting.names}
    return own | {variable: setting for setting in settings for variable in setting.environment}
