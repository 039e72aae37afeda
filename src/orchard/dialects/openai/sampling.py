"""Fields that OpenAI's dialects share: how tokens are sampled, what ends an answer, and its priority."""

from typing import Annotated

from msgspec import Meta, Struct

from orchard.core.request import Priority
from orchard.core.tasks.generate import Sampling
from orchard.dialects.common.fields import INT64_MAX, MAX_STOP_CHARS, Natural, ServingFields
from orchard.dialects.common.json_body import invalid

MAX_CHOICES = 16
MAX_STOPS = 16

StopOrNone = Annotated[str, Meta(max_length=MAX_STOP_CHARS, description="An empty one is none.")]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Limit = Annotated[int, Meta(ge=-1, le=INT64_MAX, description="How many tokens at most; -1: no limit.")]
Choices = Annotated[int, Meta(ge=1, le=MAX_CHOICES)]


class SamplingFields(ServingFields, kw_only=True):
    """How tokens are sampled, what ends the answer, its priority, and how the model is served."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=INT64_MAX)] | None = None
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
    seed: Annotated[int, Meta(ge=-(2**63), le=INT64_MAX)] | None = None
    stop: StopOrNone | Annotated[list[StopOrNone], Meta(max_length=MAX_STOPS)] | None = None
    priority: Priority | None = None


class StreamOptions(Struct):
    """What a stream tells besides the answer."""

    include_usage: bool | None = None


def include_usage(stream: bool | None, options: StreamOptions | None) -> bool:
    """Return whether a stream ends with the usage. Raise OrchardError where there are options for no stream."""
    if options and not stream:
        raise invalid("stream_options", "is only allowed when `stream` is true.")
    return bool(options and options.include_usage)


def sampling(body: SamplingFields) -> Sampling:
    """Return how tokens are sampled, by fields of the same names."""
    given = {name: getattr(body, name) for name in Sampling.__struct_fields__}
    return Sampling(**given | {"top_k": 0 if body.top_k == -1 else body.top_k, "logit_bias": body.logit_bias or {}})


def stops(body: SamplingFields) -> tuple[str, ...]:
    """Return the texts that end the answer; some clients send an empty one where they mean none."""
    given = [body.stop] if isinstance(body.stop, str) else body.stop or []
    return tuple(stop for stop in given if stop)


def limit(name: str, value: int | None, least: int) -> int | None:
    """Return how many tokens there may be; None: no limit. Raise OrchardError where it is below `least`."""
    if value is not None and -1 < value < least:
        raise invalid(name, f"must be an integer from {least} to {INT64_MAX}, or -1 for no limit.")
    return None if value == -1 else value
