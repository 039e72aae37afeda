"""Embeddings: the vectors of texts."""

from collections.abc import Iterable
from typing import Annotated, ClassVar

from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.request import JSON_BODY, Task
from orchard.core.setting import EmbeddingsTruncate, setting, when_unset
from orchard.core.tasks.batch_options import BatchOptions
from orchard.core.tasks.generate import Generate, TextPart

_CUT = "`truncate: true` to have its end cut off (the server's setting `embeddings_truncate` does so for all requests)."


class MixedInput(Struct, frozen=True, tag="mixed"):
    """Texts and media that are embedded together, one after the other."""

    parts: tuple[TextPart | MediaPart, ...]


EmbedInput = str | tuple[int, ...] | MixedInput | Generate


class Embed(Task, frozen=True, tag="embed"):
    """Make the embedding of each input: a text, the model's tokens, or texts and media.

    An input may also be the prompt of a conversation, up to where an answer would begin.

    Tokens are used unchanged; a text gets the model's special tokens and the prompt that `prompt_name` names (None: the
    model's default). `dimensions`: keep this many numbers of each vector and normalise it again. `truncate`: cut inputs
    that are longer than the model can read, instead of failing (None: as the model's options say). The answer has an
    `Embedding` for each input; its choice is the number of the input.
    """

    gives: ClassVar[str] = "embeddings"
    addresses: ClassVar[tuple[str, ...]] = ("/v1/embeddings",)
    example: ClassVar[str] = JSON_BODY + """ '{"model": {name}, "input": "Hello"}'"""
    unit: ClassVar[str] = "texts"
    option: ClassVar[str] = "embeddings"

    inputs: tuple[EmbedInput, ...]
    dimensions: int | None = None
    prompt_name: str | None = None
    truncate: bool | None = None

    @property
    def params(self) -> list[str]:
        """The path of the field that holds each input."""
        if any(isinstance(given, Generate) for given in self.inputs):
            return ["messages"] * len(self.inputs)
        return ["input"] if len(self.inputs) == 1 else [f"input[{index}]" for index in range(len(self.inputs))]


class Embedding(Struct, frozen=True, array_like=True):
    """A vector: little-endian float32."""

    vector: bytes


class EmbeddingOptions(BatchOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an embedding model is run."""

    embeddings_truncate: EmbeddingsTruncate = False
    matryoshka: Annotated[
        bool | None,
        setting("models", "Whether requests may ask an embedding model for fewer `dimensions` than it has."),
        when_unset("only if the model is known to be trained for it", example="true"),
    ] = None


def unknown_prompt_error(known: Iterable[str]) -> OrchardError:
    """Return the error of a `prompt_name` that a model doesn't have."""
    names = ", ".join(map(repr, sorted(known)))
    what = f"one of {names}, which are" if names else "left out: there are none"
    message = f"`prompt_name` must be {what} in the `prompts` of the model's config_sentence_transformers.json."
    return OrchardError("invalid_request", message, param="prompt_name")


def dimensions_error(why: str) -> OrchardError:
    """Return the error of `dimensions` that a model doesn't support; `why` completes the sentence."""
    return OrchardError("invalid_request", f"`dimensions` {why}.", param="dimensions")


def input_too_long(param: str, length: int, most: int, *, at_least: bool = False, mixed: bool = False) -> OrchardError:
    """Return the error of an input with more tokens than a model reads; `mixed`: it has media, so it can't be cut."""
    message = f"`{param}` has {'at least ' if at_least else ''}{length} tokens; this model reads at most {most}. "
    message += f"Send a shorter text, or {'fewer or smaller media; what has media is never cut.' if mixed else _CUT}"
    return OrchardError("context_length_exceeded", message, param=param)


def too_many_characters(param: str, most: int, tokens: int) -> OrchardError:
    """Return the error of an input of more than `most` characters, for a model that reads at most `tokens` tokens."""
    message = f"`{param}` has more than {most:,} characters; this model reads at most {tokens} tokens. "
    message += f"Send a shorter text, or {_CUT}"
    return OrchardError("context_length_exceeded", message, param=param)
