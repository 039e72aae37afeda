"""Embeddings: the vectors of texts."""

from typing import Annotated, ClassVar

from msgspec import Struct

from orchard.core.request import Task
from orchard.core.setting import setting, unset
from orchard.core.tasks.batch_options import BatchOptions


class Embed(Task, frozen=True, tag="embed"):
    """Make the embedding of each text, which is given as it is or as the model's tokens.

    Tokens are taken as they are; a text gets the model's special tokens and the prompt that `prompt_name` names (None:
    the model's default). `dimensions`: how many of the first numbers are kept, and normalised again. `truncate`: cut
    what is longer than the model can read, instead of failing. Answered by an `Embedding` for each text, whose number
    is the choice.
    """

    gives: ClassVar[str] = "embeddings"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/embeddings",)
    unit: ClassVar[str] = "texts"

    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int | None = None
    prompt_name: str | None = None
    truncate: bool = False


class Embedding(Struct, frozen=True, array_like=True):
    """A vector: little-endian float32."""

    vector: bytes


class EmbeddingOptions(BatchOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a model of embeddings is run."""

    matryoshka: Annotated[
        bool | None,
        setting("models", "Whether a model of embeddings may give fewer `dimensions` than it has."),
        unset("where the model is known to be trained for it", example="true"),
    ] = None
