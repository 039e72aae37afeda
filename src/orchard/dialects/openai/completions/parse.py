"""From a decoded Completions body to `core.Request`s, one a prompt."""

from orchard.core.request import Request
from orchard.core.tasks.generate import Generate
from orchard.dialects.common.fields import adapter, limit, model_of, priority, sampling, stops
from orchard.dialects.common.json_body import FreeForm, invalid
from orchard.dialects.openai.completions import schema as wire
from orchard.dialects.openai.grammar import grammar

DEFAULT_MAX_TOKENS = 16
"""OpenAI's own. A text that is merely continued may have no end but that of the context window."""


def translate(body: wire.Body, request_id: str, header: str | None = None) -> tuple[Request, ...]:
    """Make the requests that a body asks for; `header` is the priority that its header gives.

    Raises OrchardError (invalid_request) where they can't be served.
    """
    if body.stream_options and not body.stream:
        raise invalid("stream_options", "`stream_options` is only allowed when `stream` is true.")
    if body.echo and body.logprobs is not None and body.suffix:
        raise invalid("suffix", "`suffix` is not supported along with `echo` and `logprobs`: leave one of them out.")
    if body.prompt is None and body.messages is not None:
        raise invalid(
            "messages", "`messages` can't be continued: send them to /v1/chat/completions, or a `prompt` here."
        )
    prompts = _prompts(body.prompt)
    made, turn, form = _made(body), priority(body, header), grammar(body, None, FreeForm())
    # The best answers are found by their log-probabilities.
    top_logprobs = 0 if body.logprobs is None and made > (body.n or 1) else body.logprobs
    ids = [request_id] if len(prompts) == 1 else [f"{request_id}-{place}" for place in range(len(prompts))]
    return tuple(
        Request(
            name,
            model_of(body),
            Generate(
                prompt=prompt,
                # An empty one is what an editor sends at the end of a file.
                suffix=body.suffix or None,
                echo=bool(body.echo),
                grammar=form,
                sampling=sampling(body),
                max_tokens=DEFAULT_MAX_TOKENS if body.max_tokens is None else limit("max_tokens", body.max_tokens, 0),
                stop=stops(body),
                n=made,
                top_logprobs=top_logprobs,
            ),
            turn,
            adapter(body),
            body.ttl,
        )
        for name, prompt in zip(ids, prompts, strict=True)
    )


def _made(body: wire.Body) -> int:
    """How many answers are made for each prompt."""
    wanted = body.n or 1
    made = body.best_of or wanted
    if made < wanted:
        raise invalid("best_of", "`best_of` must be at least `n`.")
    if made > wanted and body.stream:
        raise invalid("best_of", "`best_of` can't be streamed: the best is only known when all answers are complete.")
    return made


def _prompts(prompt: wire.Prompt | None) -> list[str | tuple[int, ...]]:
    """Give the prompts: one text, one list of tokens, or several of either."""
    if prompt is None or isinstance(prompt, str):
        return [prompt or ""]
    tokens = [item for item in prompt if isinstance(item, int)]
    if len(tokens) == len(prompt):
        return [tuple(tokens)]
    if len(prompt) > wire.MAX_PROMPTS:
        raise invalid("prompt", f"`prompt` holds {len(prompt)} prompts; at most {wire.MAX_PROMPTS} are allowed.")
    texts = [item for item in prompt if isinstance(item, str)]
    lists = [tuple(item) for item in prompt if isinstance(item, list)]
    for prompts in (texts, lists):
        if len(prompts) == len(prompt):
            return list(prompts)
    raise invalid("prompt", "`prompt` must be a string, an array of strings, of token ids, or of arrays of token ids.")
