"""Ollama's embeddings: https://docs.ollama.com/api/embed, and the older form of them for one text, /api/embeddings."""

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from orchard.core.events import Collected
from orchard.core.tasks.embed import Embed, Embedding
from orchard.dialects.common.fields import BodyType
from orchard.dialects.common.json_body import invalid_field, type_words
from orchard.dialects.common.output import vector_floats
from orchard.dialects.ollama.fields import OllamaFields, make_ollama_request
from orchard.dialects.ollama.output import AnswerCall

MAX_INPUTS = 2048
Input = Annotated[
    str | Annotated[list[str], Meta(max_length=MAX_INPUTS)], type_words(f"a string, or up to {MAX_INPUTS} strings")
]

_json = msgspec.json.Encoder().encode


class EmbedBody(OllamaFields, kw_only=True):
    """Texts to embed."""

    input: Input | None = None
    truncate: Annotated[bool | None, Meta(description="False: a text that is too long fails.")] = None
    dimensions: Annotated[int, Meta(ge=1, le=2**20)] | None = None


class OldEmbedBody(OllamaFields, kw_only=True):
    """One text to embed."""

    prompt: str | None = None


EMBED_BODY = BodyType(EmbedBody, model_kind="embedding model")
OLD_EMBED_BODY = BodyType(OldEmbedBody, model_kind="embedding model")


class EmbedCall(AnswerCall, frozen=True, kw_only=True):
    """A parsed body; `is_old`: of /api/embeddings."""

    is_old: bool = False

    def complete(self, result: Collected) -> bytes:
        """Return the body of the response."""
        made = sorted(result.outputs, key=lambda output: output.choice)
        vectors = [vector_floats(output.read(Embedding).vector) for output in made]
        if self.is_old:
            return _json({"embedding": vectors[0]})
        used = self.statistics(result.end)
        told = {name: used[name] for name in ("total_duration", "load_duration", "prompt_eval_count")}
        return _json({"model": self.model, "embeddings": vectors, **told})

    def report_load(self, reason: str) -> bytes:
        """Return the answer to a request without a text, which only loads or unloads the model."""
        return _json({"embedding": []} if self.is_old else {"model": self.model, "embeddings": []})


def parse(body: bytes, request_id: str, *, default: str | None = None) -> EmbedCall:
    """Read the body of a request; `default` is the model of a body that names none.

    Raise OrchardError (invalid_request), whose `param` names the field to blame.
    """
    decoded = EMBED_BODY.decode(body, default=default)
    given = decoded.input if isinstance(decoded.input, list) else [decoded.input] if decoded.input else []
    if not all(given):
        raise invalid_field(f"input[{given.index('')}]", "must not be empty.")
    task = Embed(tuple(given), dimensions=decoded.dimensions, truncate=decoded.truncate is not False)
    return _embed_call(decoded, request_id, task, is_old=False)


def parse_old(body: bytes, request_id: str, *, default: str | None = None) -> EmbedCall:
    """Read the body of a request to /api/embeddings. Raise OrchardError as `parse` does."""
    decoded = OLD_EMBED_BODY.decode(body, default=default)
    task = Embed((decoded.prompt,) if decoded.prompt else (), truncate=True)
    return _embed_call(decoded, request_id, task, is_old=True)


def _embed_call(body: OllamaFields, request_id: str, task: Embed, *, is_old: bool) -> EmbedCall:
    return EmbedCall(
        request=make_ollama_request(body, request_id, task),
        model=body.model_name,
        begun_at=time.monotonic(),
        only_loads=not task.inputs,
        is_old=is_old,
    )
