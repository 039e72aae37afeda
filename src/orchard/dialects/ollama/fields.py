"""What the bodies of Ollama's APIs share: their fields, and how they are read."""

import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from orchard.core.request import Request, Task
from orchard.core.tasks.generate import Grammar, Sampling
from orchard.dialects.common.fields import MAX_STOP_CHARS, MAX_TTL, ModelFields, NonEmpty
from orchard.dialects.common.json_body import FreeForm, invalid_field, refuse_fields
from orchard.dialects.ollama.names import plain_name

MAX_STOPS = 64
MAX_TOP_LOGPROBS = 20
MAX_IMAGES = 4096
# The penalty covers this many of the last tokens, unless a request says otherwise.
_REPEAT_LAST_N = 64

Duration = Annotated[
    float | str, Meta(description="Seconds, or a number with a unit such as '5m'; 0: none; below 0: for ever.")
]
Think = Annotated[
    bool | Literal["none", "minimal", "low", "medium", "high", "max"],
    Meta(description="Whether the model thinks before it answers, and how hard."),
]
Format = Annotated[
    Literal["", "json"] | dict[str, Any], Meta(description="'json', or a JSON schema that the answer must match.")
]
Images = Annotated[list[NonEmpty], Meta(max_length=MAX_IMAGES, description="Images in base64.")]
Stop = Annotated[str, Meta(max_length=MAX_STOP_CHARS, description="An empty one is none.")]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Whole = Annotated[float, Meta(ge=-(2.0**31), le=2.0**31 - 1)]
"""An integer, which some clients write with a fraction of zero, such as 8192.0."""

IGNORED_OPTIONS = (
    "embedding_only",
    "f16_kv",
    "logits_all",
    "low_vram",
    "main_gpu",
    "mirostat_eta",
    "mirostat_tau",
    "num_batch",
    "num_gpu",
    "num_keep",
    "num_thread",
    "numa",
    "penalize_newline",
    "use_mlock",
    "use_mmap",
    "vocab_only",
)
"""Options that have no effect here; the documentation lists them, with the reasons."""

_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"([+-]?)((?:{_AMOUNT.pattern})+|0)", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{0,15})?", re.ASCII)


class Options(Struct):
    """How tokens are sampled, and what limits the answer. Unknown options are ignored, as Ollama ignores them."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Fraction | None = None
    top_k: Whole | None = None
    min_p: Fraction | None = None
    typical_p: float | None = None
    tfs_z: float | None = None
    mirostat: int | None = None
    repeat_penalty: Annotated[float, Meta(ge=0, le=10)] | None = None
    repeat_last_n: Annotated[float, Meta(ge=-1, le=2.0**31 - 1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    seed: int | Annotated[float, Meta(ge=-(2.0**53), le=2.0**53)] | None = None
    stop: Stop | Annotated[list[Stop], Meta(max_length=MAX_STOPS)] | None = None
    num_predict: Whole | None = None
    num_ctx: Annotated[float, Meta(ge=1, le=2.0**31 - 1)] | None = None


class OllamaFields(ModelFields, kw_only=True):
    """The requested model, and how long it stays in memory."""

    keep_alive: Duration | None = None
    options: Options | None = None


class AnswerFields(OllamaFields, kw_only=True):
    """What the bodies for chats and for prompts share."""

    stream: bool | None = None
    format: Format | None = None
    think: Think | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    truncate: Annotated[
        bool | None, Meta(description="False: a conversation that is too long fails, and loses no messages.")
    ] = None


def keep_alive_seconds(given: float | str | None) -> float | None:
    """Return for how long a model stays in memory after a request; None: as the server's settings say.

    Raise OrchardError if it is not a duration.
    """
    if given is None or given == "":
        return None
    seconds = _parse_duration(given) if isinstance(given, str) else given
    if seconds is None:
        raise invalid_field("keep_alive", "must be a number of seconds, or a duration such as '5m' or '1h30m'.")
    return MAX_TTL if seconds < 0 else min(seconds, MAX_TTL)


def _parse_duration(text: str) -> float | None:
    if _NUMBER.fullmatch(text):  # Ollama wants a unit, but not all clients know that
        return float(text)
    if not (found := _DURATION.fullmatch(text)):
        return None
    seconds = sum(float(amount) * _UNIT_SECONDS[unit] for amount, unit in _AMOUNT.findall(text))
    return -seconds if found[1] == "-" else seconds


def whole_option(options: Options, name: str) -> int | None:
    """Return an option that is an integer. Raise OrchardError if it has a fraction."""
    value: float | None = getattr(options, name)
    if value is not None and value != int(value):
        raise invalid_field(f"options.{name}", "must be an integer.")
    return None if value is None else int(value)


def answer_sampling(options: Options) -> Sampling:
    """Return how tokens are sampled. Raise OrchardError if an option asks for a way that is not supported."""
    for name, neutral in {"typical_p": (0, 1), "tfs_z": (0, 1), "mirostat": (0,)}.items():
        if getattr(options, name) not in (None, *neutral):
            raise invalid_field(
                f"options.{name}", f"must be {neutral[-1]} or left out: this kind of sampling is not supported."
            )
    penalty, covered = options.repeat_penalty or None, whole_option(options, "repeat_last_n")
    top_k, seed = whole_option(options, "top_k"), whole_option(options, "seed")
    if seed is not None and not -(2**63) <= seed < 2**63:
        raise invalid_field("options.seed", "must be an integer of at most 64 bits.")
    if penalty is not None and covered is None:
        covered = _REPEAT_LAST_N
    return Sampling(
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=None if top_k is None else max(0, top_k),
        min_p=options.min_p,
        repetition_penalty=1.0 if covered == 0 or options.repeat_penalty == 0 else penalty,
        repetition_context_size=None if covered is None else max(0, covered),
        presence_penalty=options.presence_penalty,
        frequency_penalty=options.frequency_penalty,
        seed=None if seed == -1 else seed,
    )


def stop_texts(options: Options) -> tuple[str, ...]:
    """Return the texts that end the answer, without empty ones."""
    given = [options.stop] if isinstance(options.stop, str) else options.stop or []
    return tuple(stop for stop in given if stop)


def token_limit(options: Options) -> int | None:
    """Return the most tokens of the answer; None: no limit, which 0 and less stand for."""
    most = whole_option(options, "num_predict")
    return most if most is not None and most > 0 else None


def answer_grammar(given: str | dict[str, Any] | None, free_form: FreeForm) -> Grammar | None:
    """Return what the answer must match, if anything. Raise OrchardError if a schema is not valid."""
    if not given:
        return None if given is None or given == "" else Grammar("json_object", None, "format")
    if isinstance(given, str):
        return Grammar("json_object", None, "format")
    free_form.check(given, "format")
    return Grammar("json_schema", given, "format", strict=False)


def likeliest_tokens(body: AnswerFields) -> int | None:
    """Return how many of the likeliest tokens have log-probabilities in the answer; None: the answer has none."""
    if body.top_logprobs and not body.logprobs:
        raise invalid_field("top_logprobs", "is only allowed when `logprobs` is true.")
    return (body.top_logprobs or 0) if body.logprobs else None


def thinking_variables(think: Think | None) -> dict[str, Any]:
    """Return the variables of the chat template that `think` sets."""
    if think is None:
        return {}
    if isinstance(think, bool):
        return {"enable_thinking": think}
    return {"enable_thinking": think != "none", "reasoning_effort": think}


def make_ollama_request(body: OllamaFields, request_id: str, task: Task, *, drops: bool = False) -> Request:
    """Return the request of a decoded body; `drops`: the oldest messages of a conversation may be dropped."""
    return Request(
        request_id,
        plain_name(body.model_name),
        task,
        ttl=keep_alive_seconds(body.keep_alive),
        overflow="drop" if drops else "error",
    )


def refuse_unsupported(body: Struct, reasons: dict[str, str]) -> None:
    """Raise OrchardError if a field is set that is not supported, except to an empty value."""
    refuse_fields(body, {name: why for name, why in reasons.items() if getattr(body, name)})
