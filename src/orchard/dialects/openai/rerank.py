"""Reranking, in the form that Cohere's and Jina's APIs share, and in those of other servers; errors have OpenAI's form.

Fields of the same meaning have different names, and these tell which answer is expected:

- `texts`: text-embeddings-inference (TEI), https://huggingface.github.io/text-embeddings-inference
- `text_1`, `text_2`, `queries`: vLLM's scores, https://docs.vllm.ai/en/latest/models/pooling_models/scoring
- `top_k`, `truncation`: Voyage AI, https://docs.voyageai.com/reference/reranker-api
- none of these: https://docs.cohere.com/reference/rerank, https://jina.ai/reranker
"""

import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from orchard.core.events import Collected
from orchard.core.request import Priority, Request
from orchard.core.tasks.rerank import MAX_PIECES, Relevance, Rerank
from orchard.dialects.common.fields import (
    INT64_MAX,
    BodyType,
    NonEmpty,
    Refused,
    ServingFields,
    header_priority,
    make_request,
)
from orchard.dialects.common.json_body import invalid_field, refuse_fields, require
from orchard.dialects.common.output import hex_id

MAX_DOCUMENTS = 2048
_MAX_TOKENS = 4096
"""The tokens that are read of a document unless the request says otherwise, as in Cohere's API."""
_DOCUMENTS_PER_UNIT = 100
"""Cohere bills a query with up to this many documents as one search."""
_REFUSED = {
    "rank_fields": "send the text of each document",
    "max_tokens_per_query": "a query is only cut with `truncate`",
}
_SYNONYMS = (
    ("query", "text_1", "queries"),
    ("documents", "texts", "text_2"),
    ("top_n", "top_k"),
    ("return_documents", "return_text"),
    ("truncate", "truncation"),
)

_json = msgspec.json.Encoder().encode

Form = Literal["cohere", "tei", "voyage", "vllm"]
Count = Annotated[int, Meta(ge=1, le=2**20)]
Queries = NonEmpty | Annotated[list[NonEmpty], Meta(min_length=1, max_length=MAX_DOCUMENTS)]
Documents = Annotated[list[str | dict[str, Any]], Meta(min_length=1, max_length=MAX_DOCUMENTS)]


class SetField(NamedTuple):
    """A field of a body: the name that it came with, and its value."""

    name: str
    value: Any


def _synonym(name: str) -> Meta:
    return Meta(description=f"`{name}` by another name.")


class RerankBody(ServingFields, kw_only=True):
    """A request to rerank."""

    query: NonEmpty | None = None
    documents: Documents | None = None
    top_n: Count | None = None
    return_documents: bool | None = None
    instruction: Annotated[
        NonEmpty | None, Meta(description="What the search is for, to models that take an instruction.")
    ] = None
    truncate: Annotated[
        bool | None,
        Meta(
            description="What to do with texts that are longer than the model can read: cut documents (absent), cut "
            "the query as well (true), or fail (false)."
        ),
    ] = None
    max_tokens_per_doc: Annotated[
        Annotated[int, Meta(ge=1, le=INT64_MAX)] | None,
        Meta(description=f"The tokens that are read of a document; {_MAX_TOKENS} by default."),
    ] = None
    max_chunks_per_doc: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_PIECES)] | None,
        Meta(description="The pieces that are read of a document; the best score counts."),
    ] = None
    priority: Priority | None = None
    rank_fields: Refused | None = None
    texts: Annotated[Documents | None, Meta(description="`documents`; the answer is TEI's.")] = None
    return_text: Annotated[bool | None, _synonym("return_documents")] = None
    raw_scores: Annotated[bool | None, Meta(description="Only false: scores are from 0 to 1.")] = None
    truncation_direction: Annotated[
        Literal["right", "Right"] | None, Meta(description="The end of a text is cut off.")
    ] = None
    top_k: Annotated[Count | None, Meta(description="`top_n`; the answer is Voyage's.")] = None
    truncation: Annotated[bool | None, Meta(description="`truncate`; the answer is Voyage's.")] = None
    text_1: Annotated[
        Queries | None, Meta(description="`query`, or one for each document; the answer is vLLM's of /score.")
    ] = None
    text_2: Annotated[NonEmpty | Documents | None, _synonym("documents")] = None
    queries: Annotated[Queries | None, _synonym("text_1")] = None
    truncate_prompt_tokens: Annotated[Literal[-1] | None, Meta(description="-1: cut texts, as without it.")] = None
    truncation_side: Annotated[Literal["right"] | None, Meta(description="The end of a text is cut off.")] = None
    use_activation: Annotated[bool | None, Meta(description="Only true: scores are from 0 to 1.")] = None
    max_tokens_per_query: Refused | None = None


BODY = BodyType(RerankBody, ("user",), "reranker")


class RerankCall(Struct, frozen=True):
    """A parsed body. `returned_documents`: the documents that the answer repeats; None: it repeats none.

    `form`: whose answer is expected; `version`: that of Cohere's API.
    """

    request: Request
    top_n: int
    returned_documents: list[dict[str, Any]] | None
    form: Form = "cohere"
    version: str = "1"

    def complete(self, result: Collected) -> bytes:
        """Return the body of the response: the most relevant documents first, those with equal scores in order.

        Scores of vLLM's form are in the order of the documents.
        """
        scores: dict[int, float] = {}
        for output in result.outputs:
            score = output.read(Relevance).score
            scores[output.choice] = max(score, scores.get(output.choice, score))
        best = sorted(sorted(scores), key=scores.__getitem__, reverse=True)[: self.top_n]
        match self.form:
            case "tei":
                return _json([{"index": at, "score": scores[at]} | self._document_field(at, "text") for at in best])
            case "vllm":
                data = [{"index": at, "object": "score", "score": scores[at]} for at in sorted(scores)]
                return self._encode_list(result, "score", data=data, created=int(time.time()))
            case "voyage":
                data = [
                    {"index": at, "relevance_score": scores[at]} | self._document_field(at, "document") for at in best
                ]
                return self._encode_list(result, "rerank", data=data)
        results: list[dict[str, Any]] = [{"index": at, "relevance_score": scores[at]} for at in best]
        if self.returned_documents is not None:
            for one in results:
                one["document"] = self.returned_documents[one["index"]]
        billed = {"search_units": -(-len(scores) // _DOCUMENTS_PER_UNIT)}
        meta = {"api_version": {"version": self.version}, "billed_units": billed}
        return self._encode_list(result, "rerank", results=results, meta=meta)

    def _document_field(self, index: int, name: str) -> dict[str, Any]:
        return {} if self.returned_documents is None else {name: self.returned_documents[index]["text"]}

    def _encode_list(self, result: Collected, kind: str, **content: Any) -> bytes:
        tokens = result.usage.prompt_tokens
        about = {"id": f"{kind}-{hex_id(self.request.id)}", "object": "list", "model": self.request.model}
        return _json(about | content | {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}})


def parse(
    body: bytes,
    request_id: str,
    priority: str | None = None,
    *,
    model: str | None = None,
    default: str | None = None,
    version: str = "1",
) -> RerankCall:
    """Read the body of a request; `priority` is from its header, `version` is that of Cohere's API.

    The model is `model`, which the URL names, else the body's, else `default`. Raise OrchardError (invalid_request),
    whose `param` names the field to blame.
    """
    decoded = BODY.decode(body, model, default)
    refuse_fields(decoded, _REFUSED)
    _check_scores(decoded)
    given = {names[0]: _pick_field(decoded, names) for names in _SYNONYMS}
    (query, asked), (field, documents), truncate = given["query"], given["documents"], given["truncate"].value
    documents = [documents] if isinstance(documents, str) else require(documents, field)
    texts = tuple(_document_text(document, f"{field}[{index}]") for index, document in enumerate(documents))
    queries = _queries(asked, query, len(texts))
    limit, pieces = _max_tokens(decoded, truncate), decoded.max_chunks_per_doc or 1
    task = Rerank(queries, texts, decoded.instruction, truncate, limit, pieces, query, field)
    request = make_request(decoded, request_id, task, decoded.priority or header_priority(priority))
    shown = [one if isinstance(one, dict) else {"text": one} for one in documents]
    top_n, wanted = given["top_n"].value or len(texts), given["return_documents"].value
    return RerankCall(request, top_n, shown if wanted else None, _answer_form(given), version)


def _pick_field(body: RerankBody, names: tuple[str, ...]) -> SetField:
    """Return the field that is set among those of the same meaning, else the first of them."""
    first, *others = [name for name in names if getattr(body, name) is not None] or names[:1]
    if others:
        raise invalid_field(others[0], f"and `{first}` mean the same: give only one of them.")
    return SetField(first, getattr(body, first))


def _answer_form(given: Mapping[str, SetField]) -> Form:
    """Return whose answer is expected."""
    if given["documents"].name == "texts":
        return "tei"
    if given["query"].name != "query" or given["documents"].name == "text_2":
        for left_out in (given["top_n"], given["return_documents"]):
            if left_out.value:
                raise invalid_field(
                    left_out.name, f"must be left out beside `{given['query'].name}`: all texts get a score."
                )
        return "vllm"
    return "voyage" if {given["top_n"].name, given["truncate"].name} & {"top_k", "truncation"} else "cohere"


def _check_scores(body: RerankBody) -> None:
    for name, wrong in (("raw_scores", True), ("use_activation", False)):
        if getattr(body, name) is wrong:
            raise invalid_field(name, f"must be {str(not wrong).lower()}: scores are always from 0 to 1.")


def _queries(asked: str | list[str] | None, param: str, documents: int) -> tuple[str, ...]:
    queries = (asked,) if isinstance(asked, str) else tuple(require(asked, param))
    if len(queries) not in (1, documents):
        raise invalid_field(param, f"must hold one text, or as many as there are documents ({documents}).")
    return queries


def _max_tokens(body: RerankBody, truncate: bool | None) -> int | None:
    """Return how many tokens of a document are read; None: as many as fit into the model."""
    if body.max_tokens_per_doc or body.max_chunks_per_doc or truncate is False:
        return body.max_tokens_per_doc
    return _MAX_TOKENS


def _document_text(document: str | dict[str, Any], param: str) -> str:
    if isinstance(document, dict):
        if not isinstance(found := document.get("text"), str):
            raise invalid_field(param, "must be a string, or an object with a string `text`.")
        document = found
    if not document:
        raise invalid_field(param, "must not be empty.")
    return document
