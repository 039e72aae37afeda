"""Fields that OpenAI's dialects share: how tokens are drawn, what ends an answer, whose turn it is."""

from typing import Annotated, Any, Protocol, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

from orchard.core.request import Adapter, Priority
from orchard.core.tasks.generate import Sampling
from orchard.dialects.common.json_body import decode, invalid

PRIORITY_HEADER = "X-Priority"
MAX_CHOICES = 16
MAX_STOPS = 16
MAX_STOP_CHARS = 1024
MAX_TTL = 10 * 365 * 24 * 3600
_INT64_MAX = 2**63 - 1
_PRIORITIES: tuple[Priority, ...] = get_args(Priority)

ModelName = Annotated[str, Meta(min_length=1, max_length=1024)]
NonEmpty = Annotated[str, Meta(min_length=1)]
Stop = Annotated[str, Meta(min_length=1, max_length=MAX_STOP_CHARS)]
StopOrNone = Annotated[str, Meta(max_length=MAX_STOP_CHARS, description="An empty one is none.")]
Refused = Annotated[Any, Meta(description="Not supported: a request that sets it is refused.")]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Count = Annotated[int, Meta(ge=1, le=_INT64_MAX)]
Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)
]
Limit = Annotated[int, Meta(ge=-1, le=_INT64_MAX, description="How many tokens at most; -1: no limit.")]
Natural = Annotated[int, Meta(ge=0, le=_INT64_MAX)]
AdapterName = Annotated[NonEmpty, Meta(description="A LoRA adapter of the model's configuration: its name or folder.")]
Ttl = Annotated[float, Meta(gt=0, le=MAX_TTL, description="Seconds without a request until the model is unloaded.")]


class _NamesModel(Protocol):
    model: str | None


class _NamesAdapter(Protocol):
    adapters: str | None
    adapter_path: str | None


B = TypeVar("B", bound=_NamesModel)


class SamplingFields(Struct, kw_only=True):
    """How tokens are drawn, what ends the answer, whose turn it is, and how the model is served."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=_INT64_MAX)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    xtc_probability: Annotated[float, Meta(ge=0, le=1)] | None = None
    xtc_threshold: Annotated[float, Meta(ge=0, le=0.5)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_context_size: Natural | None = None
    presence_context_size: Natural | None = None
    frequency_context_size: Natural | None = None
    logit_bias: dict[Natural, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=_INT64_MAX)] | None = None
    stop: StopOrNone | Annotated[list[StopOrNone], Meta(max_length=MAX_STOPS)] | None = None
    priority: Priority | None = None
    adapters: AdapterName | None = None
    adapter_path: AdapterName | None = None
    ttl: Ttl | None = None


class StreamOptions(Struct):
    """What a stream tells besides the answer."""

    include_usage: bool | None = None


def decode_for(
    model: str | None,
    body: bytes,
    own: msgspec.json.Decoder[B],
    deployed: msgspec.json.Decoder[Any],
    default: str | None = None,
) -> B:
    """Decode a body; a `model` that the request's address names goes before the body's, and `default` after it.

    `own` and `deployed` are the decoders without and with an address that names one. Raises OrchardError
    (invalid_request).
    """
    if model is None:
        return with_model(decode(own, body), default)
    decoded: B = decode(deployed, body)
    decoded.model = model
    return decoded


def with_model(body: B, default: str | None) -> B:
    """Put the default model into a body that names none. Raises OrchardError (invalid_request) without a default."""
    body.model = body.model or default
    if body.model is None:
        raise invalid("model", "`model` is required.")
    return body


def model_of(body: _NamesModel) -> str:
    """Return the model's name, which `decode_for` or `with_model` has put into the body."""
    assert body.model is not None
    return body.model


def adapter(body: _NamesAdapter) -> Adapter | None:
    """Return the adapter that a body asks for, by either field. Raises OrchardError where the two differ."""
    if body.adapters is None and body.adapter_path is not None:
        return Adapter(body.adapter_path, "adapter_path")
    if body.adapter_path not in (None, body.adapters):
        raise invalid("adapter_path", "`adapter_path` and `adapters` name two adapters; give one of them.")
    return Adapter(body.adapters) if body.adapters is not None else None


def sampling(body: SamplingFields) -> Sampling:
    """Say how tokens are drawn."""
    return Sampling(
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=0 if body.top_k == -1 else body.top_k,
        min_p=body.min_p,
        repetition_penalty=body.repetition_penalty,
        presence_penalty=body.presence_penalty,
        frequency_penalty=body.frequency_penalty,
        logit_bias=body.logit_bias or {},
        seed=body.seed,
        xtc_probability=body.xtc_probability,
        xtc_threshold=body.xtc_threshold,
        repetition_context_size=body.repetition_context_size,
        presence_context_size=body.presence_context_size,
        frequency_context_size=body.frequency_context_size,
    )


def stops(body: SamplingFields) -> tuple[str, ...]:
    """Give the texts that end the answer; an empty one, as some clients send for none, is none."""
    given = [body.stop] if isinstance(body.stop, str) else body.stop or []
    return tuple(stop for stop in given if stop)


def limit(name: str, value: int | None, least: int) -> int | None:
    """Give how many tokens there may be; None: no limit is set. Raises OrchardError where it is below `least`."""
    if value is not None and -1 < value < least:
        raise invalid(name, f"`{name}` must be an integer from {least} to {_INT64_MAX}, or -1 for no limit.")
    return None if value == -1 else value


def priority(body: SamplingFields, header: str | None) -> Priority:
    """Give the body's priority, else that of the header. Raises OrchardError where the header's is none."""
    return body.priority or header_priority(header)


def header_priority(header: str | None) -> Priority:
    """Give the priority that a request's header asks for. Raises OrchardError where it is none."""
    for known in _PRIORITIES:
        if header == known:
            return known
    if header is None:
        return "normal"
    names = ", ".join(map(repr, _PRIORITIES))
    raise invalid(PRIORITY_HEADER, f"The header `{PRIORITY_HEADER}` must be one of {names}.")


def asks_for(edits: object, kind: str) -> bool:
    """Whether a list of changes to the context, of which no more is known here, has one of this type."""
    return isinstance(edits, list) and any(isinstance(edit, dict) and edit.get("type") == kind for edit in edits)


def schema(body: type[Struct], ignored: tuple[str, ...] = ()) -> dict[str, Any]:
    """Give the JSON schema of a body, whole in itself (no `$ref`), with the fields that are accepted and ignored."""
    found = msgspec.json.schema(body)
    definitions = found.pop("$defs")
    whole: dict[str, Any] = _inlined(found, definitions)
    whole["properties"].update({name: {"description": "Accepted and ignored."} for name in ignored})
    return whole


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    match node:
        case {"$ref": str(reference)}:
            return _inlined(definitions[reference.rsplit("/", 1)[-1]], definitions)
        case dict():
            return {key: _inlined(value, definitions) for key, value in node.items()}
        case list():
            return [_inlined(value, definitions) for value in node]
    return node
