"""Reranking: how relevant documents are to a query."""

from typing import ClassVar

from msgspec import Struct

from orchard.core.request import Task
from orchard.core.tasks.batch_options import BatchOptions


class Rerank(Task, frozen=True, tag="rerank"):
    """Score how relevant each document is to a query.

    `instruction` tells models that take one what the search is for (None: the model's default). `truncate`: cut
    documents that are longer than the model can read, instead of failing. The answer has a `Relevance` for each
    document; its choice is the number of the document.
    """

    gives: ClassVar[str] = "relevance scores"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/rerank",)
    unit: ClassVar[str] = "documents"

    query: str
    documents: tuple[str, ...]
    instruction: str | None = None
    truncate: bool = False


class Relevance(Struct, frozen=True, array_like=True):
    """A document's score, from 0 to 1."""

    score: float


class RerankOptions(BatchOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a reranker is run."""
