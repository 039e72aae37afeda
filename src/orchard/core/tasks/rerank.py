"""Reranking: how relevant documents are to a query."""

from typing import ClassVar

from msgspec import Struct

from orchard.core.request import Task
from orchard.core.tasks.batch_options import BatchOptions


class Rerank(Task, frozen=True, tag="rerank"):
    """Judge how relevant each document is to a query.

    `instruction` says what the search is for, to models that take one (None: the model's usual one). `truncate`: cut
    documents that are longer than the model can read, instead of failing. Answered by a `Relevance` for each document,
    whose number is the choice.
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
