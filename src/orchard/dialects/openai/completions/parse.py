"""Parse Completions: turn a body into `core.request.Request`s, one for each prompt."""

from orchard.core.tasks.generate import Generate
from orchard.dialects.common.fields import header_priority, make_request
from orchard.dialects.common.json_body import FreeForm, invalid_field
from orchard.dialects.common.output import hex_id
from orchard.dialects.openai.completions import schema as wire
from orchard.dialects.openai.completions.encode import CompletionCall
from orchard.dialects.openai.fields import answer_grammar, answer_sampling, include_usage, stop_texts, token_limit

DEFAULT_MAX_TOKENS = 16
"""OpenAI's default. A raw text may go on until the context window is full."""


def parse(
    body: bytes, request_id: str, priority: str | None = None, *, model: str | None = None, default: str | None = None
) -> CompletionCall:
    """Read the body of a request; `priority` is from its header.

    The model is `model`, which the URL names, else the body's, else `default`. Raise OrchardError (invalid_request),
    whose `param` names the field to blame.
    """
    decoded = wire.BODY.decode(body, model, default)
    tasks, turn = _completion_tasks(decoded), decoded.priority or header_priority(priority)
    ids = [request_id] if len(tasks) == 1 else [f"{request_id}-{place}" for place in range(len(tasks))]
    return CompletionCall(
        id=f"cmpl-{hex_id(request_id)}",
        requests=tuple(make_request(decoded, id_, task, turn) for id_, task in zip(ids, tasks, strict=True)),
        wanted=decoded.n or 1,
        top_logprobs=decoded.logprobs,
        stream=bool(decoded.stream),
        include_usage=include_usage(decoded.stream, decoded.stream_options),
    )


def _completion_tasks(body: wire.Body) -> list[Generate]:
    if body.echo and body.logprobs is not None and body.suffix:
        raise invalid_field("suffix", "is not supported along with `echo` and `logprobs`: leave one of them out.")
    if body.prompt is None and body.messages is not None:
        raise invalid_field("messages", "can't be continued: send them to /v1/chat/completions, or a `prompt` here.")
    wanted = body.n or 1
    made = body.best_of or wanted
    if made < wanted:
        raise invalid_field("best_of", "must be at least `n`.")
    if made > wanted and body.stream:
        raise invalid_field("best_of", "can't be streamed: the best is only known when all answers are complete.")
    form = answer_grammar(body, None, FreeForm())
    return [
        Generate(
            prompt=prompt,
            # Editors send an empty suffix at the end of a file.
            suffix=body.suffix or None,
            echo=bool(body.echo),
            grammar=form,
            sampling=answer_sampling(body),
            max_tokens=DEFAULT_MAX_TOKENS if body.max_tokens is None else token_limit("max_tokens", body.max_tokens, 0),
            stop=stop_texts(body),
            n=made,
            speculates=body.speculation is not False,
            # The log-probabilities determine the best answers.
            top_logprobs=0 if body.logprobs is None and made > wanted else body.logprobs,
        )
        for prompt in _prompts(body.prompt)
    ]


def _prompts(prompt: wire.Prompt | None) -> list[str | tuple[int, ...]]:
    """Return the prompts: one text, one list of tokens, or several of either."""
    if prompt is None or isinstance(prompt, str):
        return [prompt or ""]
    tokens = [item for item in prompt if isinstance(item, int)]
    if len(tokens) == len(prompt):
        return [tuple(tokens)]
    if len(prompt) > wire.MAX_PROMPTS:
        raise invalid_field("prompt", f"holds {len(prompt)} prompts; at most {wire.MAX_PROMPTS} are allowed.")
    texts = [item for item in prompt if isinstance(item, str)]
    lists = [tuple(item) for item in prompt if isinstance(item, list)]
    for prompts in (texts, lists):
        if len(prompts) == len(prompt):
            return list(prompts)
    raise invalid_field("prompt", "must be a string, an array of strings, of token ids, or of arrays of token ids.")
