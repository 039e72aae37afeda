"""What the bodies of OpenAI's text APIs share: their fields, and how they are read."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from orchard.core.media import MediaOptions, MediaPart
from orchard.core.request import Priority
from orchard.core.tasks.generate import Grammar, Sampling
from orchard.dialects.common.fields import (
    INT64_MAX,
    MAX_STOP_CHARS,
    Natural,
    NonEmpty,
    Refused,
    ServingFields,
    Speculation,
)
from orchard.dialects.common.json_body import FreeForm, invalid_field, require
from orchard.dialects.common.media import Detail, Frames, FramesPerSecond, Pixels, ResizeShape, media_part, with_detail

MAX_CHOICES = 16
MAX_STOPS = 16
MAX_GRAMMAR_CHARS = 256 * 1024
MAX_TEXTS = 8192

StopOrNone = Annotated[str, Meta(max_length=MAX_STOP_CHARS, description="An empty one is none.")]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Limit = Annotated[int, Meta(ge=-1, le=INT64_MAX, description="How many tokens at most; -1: no limit.")]
Choices = Annotated[int, Meta(ge=1, le=MAX_CHOICES)]
Text = Annotated[str, Meta(min_length=1, max_length=MAX_GRAMMAR_CHARS)]
Texts = Annotated[list[NonEmpty], Meta(min_length=1, max_length=MAX_TEXTS)]
Schema = dict[str, Any] | Text
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class StructuredOutputs(Struct):
    """The format of the answer, in vLLM's form; only one of the fields may be set."""

    json: Schema | None = None
    regex: Text | None = None
    choice: Texts | None = None
    grammar: Text | None = None
    json_object: bool | None = None
    structural_tag: Refused = None


class GenerationFields(ServingFields, kw_only=True):
    """How tokens are sampled, what ends the answer, its format (in vLLM's fields), and how the model is served."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=INT64_MAX)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    xtc_probability: Annotated[float, Meta(ge=0, le=1)] | None = None
    xtc_threshold: Annotated[float, Meta(ge=0, le=0.5)] | None = None
    repetition_penalty: Annotated[float, Meta(ge=0, le=10)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_context_size: Natural | None = None
    presence_context_size: Natural | None = None
    frequency_context_size: Natural | None = None
    logit_bias: dict[Natural, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=INT64_MAX)] | None = None
    stop: StopOrNone | Annotated[list[StopOrNone], Meta(max_length=MAX_STOPS)] | None = None
    priority: Priority | None = None
    speculation: Speculation | None = None
    guided_json: Schema | None = None
    guided_regex: Text | None = None
    guided_choice: Texts | None = None
    guided_grammar: Text | None = None
    structured_outputs: StructuredOutputs | None = None


class ConversationFields(GenerationFields, kw_only=True):
    """The fields of `GenerationFields`, and those for the chat template, thinking and media."""

    enable_thinking: bool | None = None
    thinking_budget: Natural | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    resize_shape: ResizeShape | None = None
    min_pixels: Pixels | None = None
    max_pixels: Pixels | None = None
    fps: FramesPerSecond | None = None
    max_frames: Frames | None = None


class StreamOptions(Struct):
    """What a stream has besides the answer."""

    include_usage: bool | None = None


class ImageUrl(Struct):
    """Where an image is: a data:, http or https URL."""

    url: NonEmpty
    detail: Detail | None = None


class VideoUrl(Struct):
    """Where a video is: a data:, http or https URL."""

    url: NonEmpty


def url_and_param(given: str | ImageUrl | VideoUrl | None, param: str) -> tuple[str, str]:
    """Return a URL, and the path of its field. Raise OrchardError if there is none."""
    if isinstance(given, ImageUrl | VideoUrl):
        return given.url, f"{param}.url"
    return require(given, param), param


def image_part(given: str | ImageUrl | None, detail: Detail | None, param: str, options: MediaOptions) -> MediaPart:
    """Return an image. Its own `detail` overrides that of its part. Raise OrchardError if a field is wrong."""
    own = given.detail if isinstance(given, ImageUrl) else None
    return media_part("image", *url_and_param(given, param), with_detail(options, own or detail, param))


class InputAudio(Struct):
    """Audio: base64, and its format."""

    data: NonEmpty
    format: str | None = None


def include_usage(stream: bool | None, options: StreamOptions | None) -> bool:
    """Return whether a stream ends with the usage. Raise OrchardError if there are options without a stream."""
    if options and not stream:
        raise invalid_field("stream_options", "is only allowed when `stream` is true.")
    return bool(options and options.include_usage)


def answer_sampling(body: GenerationFields) -> Sampling:
    """Return how tokens are sampled; the fields of the body have the same names."""
    given = {name: getattr(body, name) for name in Sampling.__struct_fields__}
    if body.repetition_penalty == 0:  # mlx_lm.server's way to turn it off
        given["repetition_penalty"] = 1.0
    return Sampling(**given | {"top_k": 0 if body.top_k == -1 else body.top_k, "logit_bias": body.logit_bias or {}})


def stop_texts(body: GenerationFields) -> tuple[str, ...]:
    """Return the texts that end the answer, without empty ones, which some clients send for none."""
    given = [body.stop] if isinstance(body.stop, str) else body.stop or []
    return tuple(stop for stop in given if stop)


def token_limit(name: str, value: int | None, least: int) -> int | None:
    """Return the most tokens of an answer; None: no limit. Raise OrchardError if it is below `least`."""
    if value is not None and -1 < value < least:
        raise invalid_field(name, f"must be an integer from {least} to {INT64_MAX}, or -1 for no limit.")
    return None if value == -1 else value


def answer_grammar(body: GenerationFields, own: Grammar | None, free_form: FreeForm) -> Grammar | None:
    """Return the grammar of the answer; `own` is that of the dialect's own field.

    Raise OrchardError if several fields set a grammar, or one has no valid schema.
    """
    guided = StructuredOutputs(body.guided_json, body.guided_regex, body.guided_choice, body.guided_grammar)
    given = [own] if own else []
    given += _structured_grammars(guided, "guided_", free_form)
    if body.structured_outputs:
        given += _structured_grammars(body.structured_outputs, "structured_outputs.", free_form)
    if len(given) > 1:
        raise invalid_field(
            given[1].param, f"and `{given[0].param}` both set the form of the answer; give only one of them."
        )
    return given[0] if given else None


def json_schema_grammar(value: Any, param: str, field: str, free_form: FreeForm, *, strict: bool = True) -> Grammar:
    """Return the grammar of a JSON schema; None: any JSON object.

    `field` is the path of the schema, `param` the field to blame if it can't be enforced, `strict` as in `Grammar`.
    """
    if value is None:
        return Grammar("json_object", None, param)
    free_form.check(value, field)
    return Grammar("json_schema", value, param, strict)


def _structured_grammars(wanted: StructuredOutputs, prefix: str, free_form: FreeForm) -> list[Grammar]:
    given = []
    if wanted.json is not None:
        field = prefix + "json"
        value = _parse_schema(wanted.json, field) if isinstance(wanted.json, str) else wanted.json
        given.append(json_schema_grammar(value, field, field, free_form))
    if wanted.regex is not None:
        given.append(Grammar("regex", wanted.regex, prefix + "regex"))
    if wanted.choice is not None:
        free_form.check(wanted.choice, prefix + "choice")
        given.append(Grammar("choice", wanted.choice, prefix + "choice"))
    if wanted.grammar is not None:
        given.append(Grammar("lark", wanted.grammar, prefix + "grammar"))
    if wanted.json_object:
        given.append(Grammar("json_object", None, prefix + "json_object"))
    if wanted.structural_tag is not None:
        raise invalid_field(
            prefix + "structural_tag", "is not supported: give json, regex, choice, grammar or json_object."
        )
    return given


def _parse_schema(text: str, param: str) -> Any:
    try:
        return msgspec.json.decode(text, type=dict[str, Any] | bool)
    except (msgspec.DecodeError, RecursionError):
        raise invalid_field(param, "must be a JSON schema, or one as JSON text.") from None


def template_args(
    body: ConversationFields,
    free_form: FreeForm,
    *,
    effort: Effort | None,
    thinking: bool | None,
    budget: int | None,
) -> dict[str, Any]:
    """Return the variables for the chat template.

    `effort`, `thinking` and `budget` are the request's values, from whichever field. Effort and budget turn thinking on
    or off if `thinking` does not. Raise OrchardError if `chat_template_kwargs` contradicts them.
    """
    args = body.chat_template_kwargs or {}
    free_form.check(args, "chat_template_kwargs")
    for name, value in {"enable_thinking": thinking, "reasoning_effort": effort, "thinking_budget": budget}.items():
        if value is not None and args.setdefault(name, value) != value:
            raise invalid_field(name, "and `chat_template_kwargs` contradict each other.")
    if effort is not None:
        args.setdefault("enable_thinking", effort != "none")
    if budget is not None:
        args.setdefault("enable_thinking", budget > 0)
    return args
