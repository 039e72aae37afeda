"""Reranking: how relevant documents are to a query."""

from typing import ClassVar

from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.request import JSON_BODY, Task
from orchard.core.tasks.batch_options import BatchOptions

MAX_PIECES = 2048
"""The most pieces of all documents of a request."""


class Rerank(Task, frozen=True, tag="rerank"):
    """Score how relevant each document is to a query.

    `queries`: one for all documents, or one for each. `instruction` tells models that take one what the search is for
    (None: the model's default). The model reads the first `max_tokens` tokens of each document (None: all), in at most
    `pieces` pieces that fit into the model together with the query. `truncate`: what to do with texts that are longer:
    cut documents (None), cut the query as well if the model can (True), or fail (False). The answer has a `Relevance`
    for each piece; its choice is the number of the document. `query_param` and `document_param` are the fields that
    hold the texts, for errors.
    """

    gives: ClassVar[str] = "relevance scores"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/rerank", "/v1/score")
    example: ClassVar[str] = (
        JSON_BODY + """ '{"model": {name}, "query": "fruit", "documents": ["an apple", "a car"]}'"""
    )
    unit: ClassVar[str] = "documents"

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    instruction: str | None = None
    truncate: bool | None = None
    max_tokens: int | None = None
    pieces: int = 1
    query_param: str = "query"
    document_param: str = "documents"

    def document_query(self, number: int) -> tuple[str, str]:
        """Return the query of a document, and the path of the field that holds it."""
        if len(self.queries) == 1:
            return self.queries[0], self.query_param
        return self.queries[number], f"{self.query_param}[{number}]"

    def document_field(self, number: int) -> str:
        """Return the path of the field that holds a document."""
        return f"{self.document_param}[{number}]"


class Relevance(Struct, frozen=True, array_like=True):
    """The score of a document, or of a piece of it, from 0 to 1."""

    score: float


class RerankOptions(BatchOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a reranker is run."""


def query_too_long(param: str, length: int, most: int, *, at_least: bool = False) -> OrchardError:
    """Return the error of a query that leaves no room for a document; `length` counts the tokens around them, too."""
    message = f"`{param}` leaves no room for a document: with what the model reads around both, it has "
    message += f"{'at least ' if at_least else ''}{length} tokens; this model reads at most {most}."
    return OrchardError("context_length_exceeded", message, param=param)


def document_too_long(param: str, length: int, most: int, *, at_least: bool = False) -> OrchardError:
    """Return the error of a document that is not to be cut; at most `most` tokens fit beside the query."""
    message = f"`{param}` has {'at least ' if at_least else ''}{length} tokens; this model reads at most {most} of a "
    message += "document beside this query. Send a shorter text, or leave out `truncate` to have its end cut off."
    return OrchardError("context_length_exceeded", message, param=param)


def too_many_pieces() -> OrchardError:
    """Return the error of documents that have too many pieces together."""
    message = f"`max_chunks_per_doc` must be lower: the documents would have more than {MAX_PIECES} pieces together."
    return OrchardError("invalid_request", message, param="max_chunks_per_doc")
