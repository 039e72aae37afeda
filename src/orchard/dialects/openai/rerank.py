"""Reranking, in the form that Cohere's and Jina's APIs share; errors have OpenAI's form.

https://docs.cohere.com/reference/rerank, https://jina.ai/reranker
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from orchard.core.events import Collected
from orchard.core.request import Priority, Request
from orchard.core.tasks.rerank import Relevance, Rerank
from orchard.dialects.common.fields import (
    BodyType,
    NonEmpty,
    Refused,
    ServingFields,
    header_priority,
    make_request,
)
from orchard.dialects.common.json_body import invalid, refuse_set, required
from orchard.dialects.common.output import hex_id

MAX_DOCUMENTS = 2048
_REFUSED = {
    "max_tokens_per_doc": "documents are cut only where the model's own limit is, with `truncate`",
    "max_chunks_per_doc": "documents are not cut into pieces",
    "rank_fields": "send the text of each document",
}

_json = msgspec.json.Encoder().encode


class RerankBody(ServingFields, kw_only=True):
    """A request to rerank."""

    query: NonEmpty | None = None
    documents: Annotated[list[str | dict[str, Any]], Meta(min_length=1, max_length=MAX_DOCUMENTS)] | None = None
    top_n: Annotated[int, Meta(ge=1, le=2**20)] | None = None
    return_documents: bool | None = None
    instruction: Annotated[
        NonEmpty | None, Meta(description="What the search is for, to models that take an instruction.")
    ] = None
    truncate: Annotated[
        bool | None, Meta(description="Cut documents that are longer than the model can read, instead of failing.")
    ] = None
    priority: Priority | None = None
    max_tokens_per_doc: Refused | None = None
    max_chunks_per_doc: Refused | None = None
    rank_fields: Refused | None = None


BODY = BodyType(RerankBody, ("user",), "reranker")


class RerankCall(Struct, frozen=True):
    """A parsed body. `shown` are the documents to return; None: return none."""

    request: Request
    top_n: int
    shown: list[dict[str, Any]] | None

    def complete(self, result: Collected) -> bytes:
        """Return the body of the response: the most relevant documents first, those with equal scores in order."""
        scores = {output.choice: output.read(Relevance).score for output in result.outputs}
        best = sorted(sorted(scores), key=scores.__getitem__, reverse=True)[: self.top_n]
        results: list[dict[str, Any]] = [{"index": index, "relevance_score": scores[index]} for index in best]
        if self.shown is not None:
            for one in results:
                one["document"] = self.shown[one["index"]]
        tokens = result.usage.prompt_tokens
        return _json(
            {
                "id": f"rerank-{hex_id(self.request.id)}",
                "object": "list",
                "model": self.request.model,
                "results": results,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )


def parse(
    body: bytes, request_id: str, priority: str | None = None, *, model: str | None = None, default: str | None = None
) -> RerankCall:
    """Read the body of a request; `priority` is from its header.

    The model is `model`, which the URL names, else the body's, else `default`. Raise OrchardError (invalid_request),
    whose `param` names the field to blame.
    """
    decoded = BODY.decode(body, model, default)
    refuse_set(decoded, _REFUSED)
    documents = required(decoded.documents, "documents")
    texts = tuple(_text(document, f"documents[{index}]") for index, document in enumerate(documents))
    query = required(decoded.query, "query")
    task = Rerank(query, texts, decoded.instruction, bool(decoded.truncate))
    turn = decoded.priority or header_priority(priority)
    request = make_request(decoded, request_id, task, turn)
    shown = [{"text": one} if isinstance(one, str) else one for one in documents] if decoded.return_documents else None
    return RerankCall(request, decoded.top_n or len(texts), shown)


def _text(document: str | dict[str, Any], param: str) -> str:
    if isinstance(document, dict):
        if not isinstance(found := document.get("text"), str):
            raise invalid(param, "must be a string, or an object with a string `text`.")
        document = found
    if not document:
        raise invalid(param, "must not be empty.")
    return document
