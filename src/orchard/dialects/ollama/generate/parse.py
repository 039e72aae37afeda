"""Parse a prompt: turn a body into a `core.request.Request`, and reject what can't be served, with the reason."""

import time

from orchard.core.tasks import generate
from orchard.dialects.common.json_body import FreeForm, invalid_field
from orchard.dialects.ollama.chat.parse import read_images
from orchard.dialects.ollama.fields import (
    Options,
    answer_grammar,
    answer_sampling,
    likeliest_tokens,
    make_ollama_request,
    refuse_unsupported,
    stop_texts,
    thinking_variables,
    token_limit,
    whole_option,
)
from orchard.dialects.ollama.generate import schema as wire
from orchard.dialects.ollama.generate.context import read_context
from orchard.dialects.ollama.generate.encode import GenerateCall

_NO_IMAGES = "/v1/images/generations makes images"
_UNSUPPORTED = {
    "template": "a model is asked with its own chat template; with `raw`, `prompt` is what a template would make",
    "width": _NO_IMAGES,
    "height": _NO_IMAGES,
    "steps": _NO_IMAGES,
}


def parse(body: bytes, request_id: str, *, default: str | None = None) -> GenerateCall:
    """Read the body of a request; `default` is the model of a body that names none.

    Raise OrchardError (invalid_request), whose `param` names the field to blame.
    """
    decoded = wire.BODY.decode(body, default=default)
    refuse_unsupported(decoded, _UNSUPPORTED)
    options = decoded.options or Options()
    variables = thinking_variables(decoded.think)
    is_raw = bool(decoded.raw or decoded.suffix)
    if is_raw:
        _check_raw(decoded)
    task = generate.Generate(
        messages=() if is_raw else _messages(decoded),
        prompt=(decoded.prompt or "") if is_raw else None,
        suffix=decoded.suffix or None,
        grammar=answer_grammar(decoded.format, FreeForm()),
        sampling=answer_sampling(options),
        max_tokens=token_limit(options),
        stop=stop_texts(options),
        top_logprobs=likeliest_tokens(decoded),
        template_args={} if is_raw else variables,
        hide_reasoning=variables.get("enable_thinking") is False,
        window=whole_option(options, "num_ctx"),
    )
    drops = decoded.truncate is not False and not is_raw
    return GenerateCall(
        request=make_ollama_request(decoded, request_id, task, drops=drops),
        model=decoded.model_name,
        begun_at=time.monotonic(),
        stream=decoded.stream is not False,
        thinks=variables.get("enable_thinking"),
        only_loads=not (decoded.prompt or decoded.suffix or decoded.images),
    )


def _check_raw(body: wire.Body) -> None:
    """Raise OrchardError if a prompt that is continued unchanged has fields that only a chat template can show."""
    name = "raw" if body.raw else "suffix"
    for other in ("system", "context", "images"):
        if getattr(body, other):
            raise invalid_field(other, f"and `{name}` can't be used together: the prompt is continued unchanged.")
    if isinstance(body.think, str) or body.think:
        raise invalid_field("think", f"and `{name}` can't be used together: the prompt is continued unchanged.")


def _messages(body: wire.Body) -> tuple[generate.Message, ...]:
    past = read_context(body.context or ())
    if body.system:
        system = generate.Message("system", (generate.TextPart(body.system),))
        past = (system, *(message for message in past if message.role != "system"))
    parts: tuple[generate.Part, ...] = tuple(read_images(body.images or [], ""))
    if body.prompt:
        parts += (generate.TextPart(body.prompt),)
    return (*past, generate.Message("user", parts))
